package job

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// logFlags are the flags of the command that prints logs.
type logFlags struct {
	client.LogOptions
	tail  int
	since string
}

const logsHelp = `Print the output of one rank of a job, or with --all-ranks the output of all of them. On a
terminal, escape sequences are removed from the output.

Times come from the clocks of the nodes. They are exact to 100 ms, and less exact for the
older output of a job that prints for hours. With --timestamps, --grep and --all-ranks, a line
is printed when it is complete, and a line longer than 64 KiB counts as several lines.

With --follow, the command continues after a restart of the server without losing or repeating
a line.

To read one element of an array, write JOB[3].

` + addressing

func (a *commands) jobLogsCommand() *cobra.Command {
	var f logFlags
	c := &cobra.Command{
		Use: "logs JOB", Short: "Print the output of a job", Example: `  job=$(ares job submit -- echo hello)
  ares job logs "$job" --follow
  ares job logs "$job" --tail 20 --timestamps
  ares job logs "$job" --all-ranks --since 10m --grep 'loss|error'`, Args: command.ExactArgs("JOB"),
		Long: logsHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd, a.Now()); err != nil {
				return err
			}
			return a.withJobs(toRead, func(ctx context.Context, c *client.Client, ids []string) error {
				return a.logs(ctx, c, ids[0], f.LogOptions)
			})(cmd, args)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&f.Follow, "follow", "f", false, "wait until the job runs, and print until it ends")
	flags.IntVar(&f.tail, "tail", 0, "print only the last N lines of each rank; with --grep, the last matching ones")
	flags.StringVar(&f.since, "since", "", "print only lines since a time, such as 10m (ago), 22:00 or 2026-01-31T22:00:00Z")
	flags.StringVar(&f.Grep, "grep", "", "print only lines that match a regular expression (RE2), searched on the node")
	flags.BoolVar(&f.Timestamps, "timestamps", false, "print the time before each line")
	flags.BoolVar(&f.AllRanks, "all-ranks", false, "print the lines of all ranks in the order of time, each after its rank, such as r03|")
	flags.IntVar(&f.Rank, "rank", 0, "rank of the member, from 0")
	flags.IntVar(&f.Attempt, "attempt", 0, "number of the attempt, from 1; 0 for the latest")
	flags.IntVar(&f.TailBytes, "tail-bytes", 0, "print only the last N bytes")
	return c
}

// maxTail is the maximum of --tail, as in the API, and maxMatchingTail that with --grep.
const (
	maxTail         = 1_000_000
	maxMatchingTail = 10_000
)

// checkExpression returns an error if a text is not a regular expression.
func checkExpression(text string) error {
	_, err := regexp.Compile(text)
	if err == nil {
		return nil
	}
	hint := "use the syntax of RE2"
	if problem, ok := errors.AsType[*syntax.Error](err); ok {
		switch problem.Code {
		case syntax.ErrMissingBracket, syntax.ErrMissingParen, syntax.ErrUnexpectedParen, syntax.ErrMissingRepeatArgument:
			hint = "write \\ before a character such as ( or [ to search for it"
		}
	}
	return exit.Usagef("--grep %q: %s: %s", text, strings.TrimPrefix(err.Error(), "error parsing regexp: "), hint)
}

// The method `check` checks the flags, before a server is asked.
func (f *logFlags) check(cmd *cobra.Command, now time.Time) error {
	for flag, value := range map[string]int{"rank": f.Rank, "attempt": f.Attempt, "tail-bytes": f.TailBytes, "tail": f.tail} {
		if value < 0 {
			return exit.Usagef("--%s %d: use 0 or more", flag, value)
		}
	}
	if f.tail > maxTail {
		return exit.Usagef("--tail %d: use at most %d, or leave it out to print all lines", f.tail, maxTail)
	}
	if cmd.Flags().Changed("tail") {
		f.Tail = &f.tail
	}
	if f.Tail != nil && f.TailBytes > 0 {
		return exit.Usagef("--tail and --tail-bytes contradict each other: use one of them")
	}
	if f.AllRanks && cmd.Flags().Changed("rank") {
		return exit.Usagef("--all-ranks and --rank contradict each other: use one of them")
	}
	if err := checkExpression(f.Grep); err != nil {
		return err
	}
	if f.Grep != "" && f.tail > maxMatchingTail {
		return exit.Usagef("--tail %d: use at most %d together with --grep", f.tail, maxMatchingTail)
	}
	if f.since == "" {
		return nil
	}
	var err error
	if f.Since, err = command.ReadPastTime("since", f.since, now); err != nil {
		return err
	}
	if f.Since.After(now) {
		return exit.Usagef("--since %s is in the future: use a time in the past, or a duration such as 10m", f.since)
	}
	return nil
}

// The method `logs` prints the output of a job. For an array, it lists the elements instead.
func (a *commands) logs(ctx context.Context, c *client.Client, id string, o client.LogOptions) error {
	out, flush := a.logWriter()
	o.Notice = a.logNotice
	if a.TTY {
		o.Clean = oneLine
	}
	var err error
	if o.Follow && o.Attempt == 0 {
		_, err = c.FollowLogs(ctx, id, o, out, a.nextAttempt)
	} else {
		err = c.Logs(ctx, id, o, out)
	}
	err = errors.Join(err, flush())
	if err != nil && ctx.Err() != nil { // the user has ended the command
		return &exit.Error{Code: exit.Interrupted}
	}
	if ares.CodeOf(err) == ares.NotFound {
		if job, failed := c.Job(ctx, id); failed == nil && job.GetElements() != nil {
			return a.listElements(ctx, c, job)
		}
	}
	return err
}

// logNotice prints a message about the output beside it.
func (a *commands) logNotice(text string) {
	output.Printf(a.Err, "ares: %s\n", output.Clean(text))
}

// oneLine keeps a line that has carriage returns on one line of the terminal.
func oneLine(line []byte) []byte {
	return bytes.ReplaceAll(bytes.TrimRight(line, "\r"), []byte("\r"), []byte(" "))
}

// maxListedElements is the number of elements that are listed instead of an array's output.
const maxListedElements = 20

// listElements says how to read the output of one element of an array, and lists the elements.
func (a *commands) listElements(ctx context.Context, c *client.Client, array *apipb.Job) error {
	list, err := listJobs(ctx, c, &apipb.ListJobsRequest{ArrayOf: array.GetJobId()}, maxListedElements)
	if err != nil {
		return err
	}
	id := output.Clean(array.GetJobId())
	if len(list.GetJobs()) == 0 {
		output.Printf(a.Err, "ares: job %s is an array and has no output of its own, and none of its elements has started yet: show the array with \"%s job get %s\"\n", id, a.Invocation(), id)
		return &exit.Error{Code: exit.Failed}
	}
	first := list.GetJobs()[0].GetArrayIndex()
	output.Printf(a.Err, "ares: job %s is an array and has no output of its own: read the output of one element, for example with: %s logs '%s[%d]'\n", id, a.Invocation(), id, first)
	t := output.Table{Head: []string{"ELEMENT", "STATE", "AGE", "REASON"}}
	for _, j := range list.GetJobs() {
		t.Add(output.Clean(id)+"["+strconv.Itoa(int(j.GetArrayIndex()))+"]", j.GetState(), a.Age(j.GetCreatedAt()), output.Shorten(j.GetReason(), 80))
	}
	t.Write(a.Err, false)
	if n := array.GetElements().GetTotal(); int(n) > len(list.GetJobs()) {
		output.Printf(a.Err, "%d of %d elements; list them with: %s job list --array %s\n", len(list.GetJobs()), n, a.Invocation(), id)
	}
	return &exit.Error{Code: exit.Failed}
}

// nextAttempt prints a separator line before the output of each attempt except the first.
func (a *commands) nextAttempt(number int) {
	if number > 1 {
		output.Printf(a.Err, "--- attempt %d ---\n", number)
	}
}

// logWriter returns the writer to which a job's output is written. If the output goes to a
// terminal, the writer removes escape sequences.
func (a *commands) logWriter() (io.Writer, func() error) {
	if !a.TTY {
		return a.Out, func() error { return nil }
	}
	c := &output.Cleaner{W: a.Out}
	return c, c.Close
}
