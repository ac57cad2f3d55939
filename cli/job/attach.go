package job

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

const attachHelp = `Connect to the command of a running job itself: send standard input to it, and print its output,
until it ends. The exit code is then that of the rank. The job needs a standard input (ares
submit --stdin) or a terminal (ares submit --tty).

With a terminal, each key goes to the job, Ctrl-C too. The keys of --detach-keys leave, and the
job continues. Without one, Ctrl-C leaves, and the end of the input ends the job's standard
input for good.

After a restart of a server or of the node's agent, the command continues without losing or
repeating a byte in either direction.

One user writes to a rank at a time. If another user attaches, the command says so and ends.
Others can read along with "ares logs --follow".

The exit code is 125 if Ares itself failed, and 130 if you left.

` + sessionRights + "\n" + addressing

// defaultTail is the number of lines of earlier output that ares attach shows.
const defaultTail = 10

// maxAttachTail is the maximum of --tail, as in the API.
const maxAttachTail = 10_000

// defaultDetachKeys are those of Docker.
const defaultDetachKeys = "ctrl-p,ctrl-q"

type attachFlags struct {
	rank, tail int
	detach     string
	keys       []byte
}

func (a *commands) attachCommand() *cobra.Command {
	var f attachFlags
	c := &cobra.Command{
		Use: "attach JOB", Short: "Connect to the command of a running job", Args: command.ExactArgs("JOB"),
		Long: attachHelp,
		Example: `  job=$(ares submit --tty -- python -i)
  ares attach "$job"
  ares attach train --rank 3 --detach-keys ctrl-a,d`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.asRunError(a.withJobs(toJoin, func(ctx context.Context, c *client.Client, ids []string) error {
				return a.attach(ctx, c, ids[0], f)
			})(cmd, args))
		},
	}
	c.Flags().SortFlags = false
	c.Flags().IntVar(&f.rank, "rank", 0, "rank of the member, from 0")
	c.Flags().IntVar(&f.tail, "tail", defaultTail, "print the last N lines of the earlier output first")
	c.Flags().StringVar(&f.detach, "detach-keys", defaultDetachKeys, `keys that leave a terminal: letters, or ctrl- and one of a-z @ [ \ ] ^ _, separated by commas`)
	return c
}

func (f *attachFlags) check() (err error) {
	switch {
	case f.rank < 0:
		return exit.Usagef("--rank %d: use 0 or more", f.rank)
	case f.tail < 0 || f.tail > maxAttachTail:
		return exit.Usagef("--tail %d: use 0 to %d", f.tail, maxAttachTail)
	}
	f.keys, err = parseKeys(f.detach)
	return err
}

// maxKeys is the maximum number of keys in a sequence.
const maxKeys = 16

// parseKeys reads a sequence of keys in Docker's syntax.
func parseKeys(text string) ([]byte, error) {
	var keys []byte
	for word := range strings.SplitSeq(text, ",") {
		name, control := strings.CutPrefix(word, "ctrl-")
		switch {
		case len(name) != 1 || name[0] <= ' ' || name[0] > '~':
			return nil, exit.Usagef("--detach-keys %q: %q is no key: write keys such as ctrl-p,ctrl-q or ctrl-a,d", text, word)
		case !control:
			keys = append(keys, name[0])
		case name[0] >= 'a' && name[0] <= 'z':
			keys = append(keys, name[0]-'a'+1)
		case name[0] >= '@' && name[0] <= '_':
			keys = append(keys, name[0]-'@')
		default:
			return nil, exit.Usagef("--detach-keys %q: ctrl-%s is no key: use ctrl- with one of a-z @ [ \\ ] ^ _", text, name)
		}
	}
	if len(keys) > maxKeys {
		return nil, exit.Usagef("--detach-keys: %d keys are too many: use at most %d", len(keys), maxKeys)
	}
	return keys, nil
}

// errDetached means that the user has typed the keys that leave a job.
var errDetached = errors.New("detached")

// keyReader returns errDetached when the keys are read one after another. Keys that turn out to be others are passed on.
type keyReader struct {
	r    io.Reader
	keys []byte
	seen int    // how many of the keys were read last
	rest []byte // read, but not passed on
	err  error  // after rest
}

func (k *keyReader) Read(b []byte) (int, error) {
	for len(k.rest) == 0 && k.err == nil {
		buf := make([]byte, max(len(b)-len(k.keys), 1))
		n, err := k.r.Read(buf)
		k.err = err
		k.take(buf[:n])
	}
	n := copy(b, k.rest)
	if k.rest = k.rest[n:]; n > 0 || len(k.rest) > 0 {
		return n, nil
	}
	return 0, k.err
}

func (k *keyReader) take(keys []byte) {
	for _, key := range keys {
		if key == k.keys[k.seen] {
			if k.seen++; k.seen == len(k.keys) {
				k.err = errDetached
				return
			}
			continue
		}
		// Some of the keys were typed, but these were not the ones to leave. The longest end of them may still be the begin.
		typed := append(append([]byte(nil), k.keys[:k.seen]...), key)
		k.seen = 0
		for n := min(len(typed), len(k.keys)-1); n > 0; n-- {
			if string(typed[len(typed)-n:]) == string(k.keys[:n]) {
				k.seen = n
				break
			}
		}
		k.rest = append(k.rest, typed[:len(typed)-k.seen]...)
	}
	if k.err != nil { // the input ends within the keys
		k.rest = append(k.rest, k.keys[:k.seen]...)
		k.seen = 0
	}
}

// terminalOrText writes to a terminal as it is, and otherwise as ares logs does.
type terminalOrText struct {
	w  io.Writer
	mu sync.Mutex // held while a write lasts, which may be for ever if nothing reads the output
}

func (t *terminalOrText) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(b)
}

// end calls a function that writes the rest, unless a write still lasts.
func (t *terminalOrText) end(flush func() error) error {
	if !t.mu.TryLock() {
		return nil
	}
	defer t.mu.Unlock()
	return flush()
}

func (a *commands) attach(ctx context.Context, c *client.Client, id string, f attachFlags) error {
	if _, err := c.Job(ctx, id); err != nil { // this also finds a server that answers
		return err
	}
	text, flush := a.logWriter()
	out := &terminalOrText{w: text}
	restore := func() {}
	input := &terminalInput{Reader: a.In}
	attempt := 0
	o := client.AttachOptions{Rank: f.rank, Tail: f.tail, Input: input, Output: out, Notice: a.logNotice, Attached: func(to client.Attached) { attempt = to.Attempt }}
	if output.IsTerminal(writerOf(a.In)) {
		resizes := make(chan struct{})
		o.Resizes = resizes
		o.Size = func() client.TerminalSize {
			columns, rows := output.TerminalSize(writerOf(a.In))
			return client.TerminalSize{Columns: columns, Rows: rows}
		}
		go watchResize(ctx, resizes)
		o.Attached = func(to client.Attached) {
			if attempt = to.Attempt; !to.Terminal {
				return
			}
			out.w, input.Reader = a.Out, &keyReader{r: a.In, keys: f.keys}
			if set, err := output.MakeRaw(a.In); err == nil {
				restore = set
			}
		}
	}
	job, err := c.Attach(ctx, id, o)
	restore()
	failed := out.end(flush)
	switch {
	case errors.Is(err, errDetached):
		output.Printf(a.Err, "\ndetached: %s continues; attach again with: %s attach %s\n", id, a.Invocation(), id)
		if err.Error() != errDetached.Error() {
			output.Printf(a.Err, "ares: %s\n", output.Clean(err.Error()))
		}
		return &exit.Error{Code: exit.Interrupted}
	case err != nil && ctx.Err() != nil:
		output.Printf(a.Err, "detached: %s continues; attach again with: %s attach %s\n", id, a.Invocation(), id)
		return &exit.Error{Code: exit.Interrupted}
	case err != nil:
		return err
	case failed != nil:
		return failed
	}
	return a.endOfRank(job, attempt, f.rank)
}

// terminalInput is a reader that is chosen when the job is known.
type terminalInput struct{ io.Reader }

// watchResize reports changes of the terminal's size.
func watchResize(ctx context.Context, to chan<- struct{}) {
	resized, stop := output.Resized()
	defer stop()
	for {
		select {
		case <-resized:
		case <-ctx.Done():
			return
		}
		select {
		case to <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

// endOfRank returns the exit code of the rank, in the attempt to which the user was attached, as an error. The job may be retried meanwhile.
func (a *commands) endOfRank(job *apipb.Job, attempt, rank int) error {
	if job.GetState() == string(ares.Succeeded) {
		return nil
	}
	end := job.GetResult()
	for _, t := range job.GetAttempts() {
		for _, seat := range t.GetSeats() {
			if int(t.GetNumber()) == attempt && int(seat.GetRank()) == rank && seat.GetOutcome() != "" {
				end = &apipb.JobResult{ExitCode: seat.GetExitCode(), Outcome: seat.GetOutcome(), Reason: seat.GetReason()}
			}
		}
	}
	switch {
	case ares.Phase(job.GetState()).Final():
		output.Printf(a.Err, "ares: %s %s\n", job.GetJobId(), ending(job))
	case end.GetOutcome() == string(ares.OutcomeSucceeded):
		return nil
	default:
		output.Printf(a.Err, "ares: rank %d has ended, and the state of the job is %s: see what becomes of it with: %s job get %s\n", rank, job.GetState(), a.Invocation(), job.GetJobId())
	}
	return &exit.Error{Code: exitCodeOfResult(end)}
}
