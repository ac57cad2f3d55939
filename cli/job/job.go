package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) jobCommand() *cobra.Command {
	return command.Group("job", "Submit, inspect and stop jobs", `  ares job submit --name hello -- echo hello
  ares job list`, "",
		a.submitCommand(), a.jobListCommand(), a.jobGetCommand(), a.jobCancelCommand(), a.jobHoldCommand(), a.jobReleaseCommand(), a.jobUpdateCommand(), a.jobRetryCommand(),
		a.jobLogsCommand(), a.jobWaitCommand(), a.jobEventsCommand(), a.jobExplainCommand(), a.jobPlanCommand(), a.jobPredictCommand())
}

// The function `gpus` formats a job's GPU request, for example as 2x4 for two members with four GPUs each. The number of
// elements of an array comes before it: 100x2x4.
func gpus(j *apipb.Job) string {
	count := strconv.Itoa(int(j.GetGpuCount()))
	if milli := j.GetGpuMilli(); milli > 0 {
		count = fmt.Sprintf("%.3g", float64(milli)/1000)
	}
	if j.GetMembers() > 1 {
		count = fmt.Sprintf("%dx%s", j.GetMembers(), count)
	}
	if e := j.GetElements(); e != nil {
		count = fmt.Sprintf("%dx%s", e.GetTotal(), count)
	}
	return count
}

// The function `elements` describes the states of an array's elements.
func elements(e *apipb.ArrayElements) string {
	counts := ares.Elements{
		Total: int(e.GetTotal()), Made: int(e.GetMade()), Running: int(e.GetRunning()), Waiting: int(e.GetWaiting()),
		Succeeded: int(e.GetSucceeded()), Failed: int(e.GetFailed()), Cancelled: int(e.GetCancelled()), Lost: int(e.GetLost()),
	}
	return fmt.Sprintf("%d elements: %s", counts.Total, strings.Replace(counts.String(), "never started", "not started", 1))
}

func progress(p *apipb.JobProgress) string {
	return strings.TrimSpace(fmt.Sprintf("%.1f %% %s", p.GetPercent(), p.GetMessage()))
}

func (a *commands) jobGetCommand() *cobra.Command {
	var o output.Flags
	var consistent bool
	get := o.AddWide(o.Add(&cobra.Command{
		Use: "get JOB", Short: "Show one job with its state, reason and attempts", Example: `  job=$(ares job submit -- echo hello)
  ares job get "$job"`, Args: command.ExactArgs("JOB"),
		Long: `Show the state of a job, why it has this state, what it requested, its nodes and devices, its attempts
and their exit codes.

` + addressing + `

With -o wide, the output also has the parts of the placement's score, and the state and fencing
token of each rank.

A hub has a copy of the state of each job that one of its clusters owns. With --consistent, it asks
that cluster.`,
		RunE: a.withJobs(toRead, func(ctx context.Context, c *client.Client, args []string) error {
			read := c.Job
			if consistent {
				read = c.ConsistentJob
			}
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return read(ctx, args[0]) },
				func(w io.Writer, m proto.Message) { a.writeJob(w, m.(*apipb.Job), o.Wide) })
		}),
	}))
	get.Flags().BoolVar(&consistent, "consistent", false, "at a hub, ask the cluster that owns the job")
	return get
}

func (a *commands) jobCancelCommand() *cobra.Command {
	var o output.Flags
	var s selector
	ch := &change{verb: "cancel", done: "cancelled", why: toCancel, apply: func(ctx context.Context, c *client.Client, id string, only []string) (proto.Message, string, error) {
		answer, err := c.Cancel(ctx, id, only...)
		return answer, answer.GetStatus(), err
	}}
	c := &cobra.Command{
		Use: "cancel JOB... | cancel --name PATTERN --state STATE ...", Short: "Cancel jobs", Example: `  job=$(ares job submit -- sleep 600)
  ares job cancel "$job"
  ares job cancel --name 'sweep-*' --state pending --dry-run`, Args: cobra.ArbitraryArgs,
		Long: `Cancel jobs. A running job gets its grace period to end (grace_seconds, 30 s by default).

` + addressing + `
If a name or the beginning of an ID matches several jobs, the command lists them and cancels
none.

` + selecting + `
With --state, a job that has left these states when it is about to be cancelled is not cancelled.`,
		RunE: ch.run(a, &s, &o),
	}
	o.AddOutput(c)
	s.add(c, "cancel")
	return c
}

func (a *commands) jobRetryCommand() *cobra.Command {
	var o output.Flags
	var requestID string
	c := &cobra.Command{
		Use: "retry JOB", Short: "Submit a finished job again as a new job", Example: `  job=$(ares job submit -- echo hello)
  ares job wait "$job"
  ares job retry "$job"`, Args: command.ExactArgs("JOB"),
		Long: `Submit a finished job again as a new job, with the same spec and code. The command prints the ID of the
new job.

` + addressing,
		RunE: a.withJobs(toRetry, func(ctx context.Context, c *client.Client, args []string) error {
			answer, err := c.Retry(ctx, args[0], requestID)
			if err != nil {
				return err
			}
			return a.Print(&o, answer, func(w io.Writer, _ proto.Message) {
				output.Printf(w, "%s\n", output.Clean(answer.GetJobId()))
				output.Printf(a.Err, "this job is a retry of %s; follow it with: %s job logs -f %s\n", args[0], a.Invocation(), output.Clean(answer.GetJobId()))
			})
		}),
	}
	c.Flags().StringVar(&requestID, "request-id", "", "ID of this retry: repeating it returns the same job")
	o.AddOutput(c)
	return c
}

func (a *commands) jobWaitCommand() *cobra.Command {
	var timeout time.Duration
	var o output.Flags
	c := &cobra.Command{
		Use: "wait JOB...", Short: "Wait until jobs end; exit with 1 if a job did not succeed", Example: `  job=$(ares job submit -- echo hello)
  ares job wait "$job" --timeout 1m`, Args: command.MinOneArg("JOB"),
		Long: `Wait until jobs end. The exit code is 0 if all jobs succeeded, 1 if one did not, and 124 if
--timeout is over before all jobs have ended.

` + addressing,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			failed := false
			ids, err := a.resolveAll(ctx, c, args, toRead)
			if ranOut(ctx, err) {
				return fmt.Errorf("no server answered within %s, so the state of the jobs is unknown: run \"ares doctor\"", timeout)
			} else if err != nil {
				return err
			}
			for _, id := range ids {
				job, err := a.wait(ctx, c, &o, id)
				switch {
				case ranOut(ctx, err) && job == nil:
					return fmt.Errorf("%s: no server answered within %s, so the job's state is unknown: run \"ares doctor\"", id, timeout)
				case ranOut(ctx, err):
					a.Report(fmt.Errorf("%s did not end within %s and continues: show it with \"ares job get %s\"", id, timeout, id))
					return &exit.Error{Code: exit.TimedOut}
				case err != nil:
					return interrupted(ctx, id, err)
				}
				failed = failed || job.GetState() != string(ares.Succeeded)
			}
			if failed {
				return &exit.Error{Code: exit.Failed}
			}
			return nil
		}),
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "stop waiting after this time, such as 10m; the jobs continue")
	o.AddOutput(c)
	return c
}

// The function `ranOut` reports whether err says only that the command's --timeout, the deadline of ctx, is over. A call
// has a deadline of its own too, so the error alone does not tell. A server that cannot be reached at the moment when the
// time is over is reported as such, not as a deadline.
func ranOut(ctx context.Context, err error) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) &&
		(errors.Is(err, context.DeadlineExceeded) || ares.CodeOf(err) == ares.Unavailable)
}

func (a *commands) wait(ctx context.Context, c *client.Client, o *output.Flags, id string) (*apipb.Job, error) {
	job, err := c.Wait(ctx, id)
	if err != nil {
		return job, err
	}
	return job, a.Print(o, job, func(w io.Writer, _ proto.Message) {
		output.Printf(w, "%s %s\n", output.Clean(job.GetJobId()), ending(job))
	})
}

// The function `ending` describes in one line how a job ended.
func ending(j *apipb.Job) string {
	if j.GetState() == string(ares.Succeeded) {
		return j.GetState()
	}
	reason := cmp.Or(j.GetResult().GetReason(), j.GetReason())
	if j.GetState() == string(ares.Cancelled) {
		reason = cmp.Or(j.GetReason(), reason) // it names the user that cancelled the job
	}
	why := reasonText(j.GetResult().GetExitCode(), reason)
	return output.Clean(strings.TrimSuffix(j.GetState()+": "+why, ": "))
}

// reasonText returns a reason together with the exit code. reasonText leaves out the exit code if the reason already contains it or the
// job has none. The exit code is -1 if a signal ended the job, if it was cancelled, or if it could
// not be started.
func reasonText(exit int32, reason string) string {
	code := fmt.Sprintf("exit code %d", exit)
	switch {
	case exit <= 0 || strings.Contains(reason, code):
		return reason
	case reason == "":
		return code
	}
	return code + ", " + reason
}

func (a *commands) jobEventsCommand() *cobra.Command {
	var o output.Flags
	return o.AddList(&cobra.Command{
		Use: "events JOB", Short: "List the events of a job", Example: `  job=$(ares job submit -- echo hello)
  ares job events "$job"`, Args: command.ExactArgs("JOB"),
		Long: "List every change of a job's state, oldest first, with its reason.\n\n" + addressing,
		RunE: a.withJobs(toRead, func(ctx context.Context, c *client.Client, args []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Events(ctx, args[0]) },
				func(m proto.Message) *output.Table { return eventTable(m.(*apipb.ListJobEventsResponse)) })
		}),
	})
}

func eventTable(list *apipb.ListJobEventsResponse) *output.Table {
	t := &output.Table{Head: []string{"AT", "STATE", "ATTEMPT", "MESSAGE"}, Drop: []string{"ATTEMPT"}, Name: "STATE"}
	if n := list.GetDropped(); n > 0 {
		t.Note = fmt.Sprintf("(%d older events were deleted)", n)
	}
	if why := list.GetStaleReason(); why != "" {
		t.Note = strings.TrimSpace(t.Note + "\n(later events may be missing: " + why + ")")
	}
	for _, e := range list.GetEvents() {
		t.Add(e.GetAt().AsTime().Local().Format("2006-01-02 15:04:05.000"), e.GetState(), strconv.Itoa(int(e.GetAttempt())), e.GetMessage())
	}
	return t
}
