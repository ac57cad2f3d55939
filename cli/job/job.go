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

func (a *commands) jobListCommand() *cobra.Command {
	var o output.Flags
	var req apipb.ListJobsRequest
	var limit int
	var when timeFlags
	var who userFlags
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List jobs, newest first", Example: `  ares job list --state pending,running
  ares job list --all --from 7d --limit 20`, Args: command.ExactArgs(),
		Long: `List the jobs that are not archived, newest first. By default, Ares archives a job one
day after the job has finished; jobs.archive_after_minutes sets another time. With --all,
the list includes archived jobs from history.`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			for _, s := range req.GetState() {
				if _, err := ares.ParsePhase(s); err != nil {
					return exit.Usagef("--state: %s", err)
				}
			}
			if limit < 0 {
				return exit.Usagef("--limit %d: use 0 for all, or a positive maximum", limit)
			}
			if err := who.fill(&req); err != nil {
				return err
			}
			if err := when.fill(a, &req); err != nil {
				return err
			}
			array, err := a.resolve(ctx, c, req.GetArrayOf(), toRead)
			if err != nil {
				return err
			}
			req.ArrayOf = array
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return listJobs(ctx, c, &req, limit) },
				func(w io.Writer, m proto.Message) {
					list := m.(*apipb.ListJobsResponse)
					if len(list.GetJobs()) == 0 && (len(req.GetState()) > 0 || req.GetTenantId() != "" || req.GetName() != "" || req.GetArrayOf() != "" || req.GetQueue() != "" || req.GetUser() != "" || req.GetFrom() != nil || req.GetTo() != nil) {
						output.Printf(w, "No job matches. List all jobs with: %s job list --all\n", a.Invocation())
						return
					}
					a.writeJobs(w, list)
				})
		}),
	}
	o.Add(c)
	c.Flags().BoolVar(&req.All, "all", false, "include archived jobs from history")
	when.add(c)
	c.Flags().StringVar(&req.Queue, "queue", "", "only jobs of this queue")
	who.add(c)
	c.Flags().StringSliceVar(&req.State, "state", nil, "only jobs in these states")
	c.Flags().StringVar(&req.TenantId, "tenant-id", "", "only jobs of this tenant")
	c.Flags().StringVar(&req.Name, "name", "", "only jobs with this text in their name")
	c.Flags().StringVar(&req.ArrayOf, "array", "", "list the elements of this array, by index")
	c.Flags().IntVar(&limit, "limit", 100, "maximum number of rows; 0 for all")
	output.Must(c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(command.PhaseNames(), cobra.ShellCompDirectiveNoFileComp)))
	return c
}

// listJobs fetches pages until it has `limit` jobs or the list ends.
func listJobs(ctx context.Context, c *client.Client, filter *apipb.ListJobsRequest, limit int) (*apipb.ListJobsResponse, error) {
	page := proto.CloneOf(filter)
	all := &apipb.ListJobsResponse{}
	for {
		page.PageSize = 1000
		if limit > 0 {
			page.PageSize = int32(min(limit-len(all.Jobs), 1000))
		}
		answer, err := c.Jobs(ctx, page)
		if err != nil {
			return nil, err
		}
		all.Jobs = append(all.Jobs, answer.GetJobs()...)
		all.Revision, all.NextPageToken = answer.GetRevision(), answer.GetNextPageToken()
		if answer.Total != nil { // only the first page may have the total
			all.Total = answer.Total
		}
		if all.NextPageToken == "" { // the list is complete; the number of jobs may have changed since the first page
			all.Total = new(int32(len(all.Jobs)))
		}
		if all.NextPageToken == "" || limit > 0 && len(all.Jobs) >= limit {
			return all, nil
		}
		page.PageToken = all.NextPageToken
	}
}

func (a *commands) writeJobs(w io.Writer, list *apipb.ListJobsResponse) {
	if len(list.GetJobs()) == 0 {
		output.Printf(w, "No jobs. Submit one with: ares job submit --name hello -- echo hello\n")
		return
	}
	t := output.Table{Head: []string{"ID", "NAME", "TENANT", "STATE", "PRIORITY", "GPUS", "AGE", "REASON"}}
	for _, j := range list.GetJobs() {
		why := j.GetReason()
		if ares.Phase(j.GetState()).Waiting() && len(j.GetWaitingFor()) > 0 {
			why = strings.Join(j.GetWaitingFor(), "; ")
		}
		if e := j.GetElements(); e != nil && ares.Phase(j.GetState()).Active() {
			why = elements(e)
		}
		if p := j.GetProgress(); p != nil && j.GetState() == string(ares.Running) {
			why = progress(p)
		}
		t.Add(j.GetJobId(), j.GetName(), j.GetTenantId(), j.GetState(), strconv.Itoa(int(j.GetPriority())), gpus(j), a.Age(j.GetCreatedAt()), output.Shorten(why, 80))
	}
	t.Write(w, a.Color)
	if n := int(list.GetTotal()); n > len(list.GetJobs()) {
		output.Printf(w, "%d of %d jobs; show more with --limit N\n", len(list.GetJobs()), n)
	} else if list.Total == nil && list.GetNextPageToken() != "" {
		output.Printf(w, "%s, more exist: show them with --limit N\n", output.Count(int32(len(list.GetJobs())), "job"))
	}
}

// The function `gpus` formats a job's GPU request, for example as 2x4 for two members with four GPUs each.
func gpus(j *apipb.Job) string {
	count := strconv.Itoa(int(j.GetGpuCount()))
	if milli := j.GetGpuMilli(); milli > 0 {
		count = fmt.Sprintf("%.3g", float64(milli)/1000)
	}
	if j.GetMembers() > 1 {
		count = fmt.Sprintf("%dx%s", j.GetMembers(), count)
	}
	if e := j.GetElements(); e != nil {
		count = fmt.Sprintf("%d of %s", e.GetTotal(), count)
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
	return o.AddWide(o.Add(&cobra.Command{
		Use: "get JOB", Short: "Show one job with its state, reason and attempts", Example: `  job=$(ares job submit -- echo hello)
  ares job get "$job"`, Args: command.ExactArgs("JOB"),
		Long: addressing + `

With -o wide, the output also has the parts of the placement's score, and the state and fencing
token of each rank.`,
		RunE: a.withJobs(toRead, func(ctx context.Context, c *client.Client, args []string) error {
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Job(ctx, args[0]) },
				func(w io.Writer, m proto.Message) { a.writeJob(w, m.(*apipb.Job), o.Wide) })
		}),
	}))
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
		Long: addressing + `
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
		Long: addressing,
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

func (a *commands) jobLogsCommand() *cobra.Command {
	var o client.LogOptions
	c := &cobra.Command{
		Use: "logs JOB", Short: "Print the output of a job", Example: `  job=$(ares job submit -- echo hello)
  ares job logs "$job" --follow`, Args: command.ExactArgs("JOB"),
		Long: "Print the output of one rank of a job. On a terminal, escape sequences are removed\nfrom the output.\n\n" + addressing,
		RunE: a.withJobs(toRead, func(ctx context.Context, c *client.Client, args []string) error {
			if o.Rank < 0 || o.Attempt < 0 || o.TailBytes < 0 {
				return exit.Usagef("--rank, --attempt and --tail-bytes must be 0 or more")
			}
			out, flush := a.logWriter()
			var err error
			if o.Follow && o.Attempt == 0 && o.TailBytes == 0 {
				_, err = c.Follow(ctx, args[0], o.Rank, out, a.nextAttempt)
			} else {
				err = c.Logs(ctx, args[0], o, out)
			}
			return errors.Join(err, flush())
		}),
	}
	c.Flags().BoolVarP(&o.Follow, "follow", "f", false, "wait until the job runs, and print until it ends")
	c.Flags().IntVar(&o.Rank, "rank", 0, "rank of the member, from 0")
	c.Flags().IntVar(&o.Attempt, "attempt", 0, "number of the attempt, from 1; 0 for the latest")
	c.Flags().IntVar(&o.TailBytes, "tail-bytes", 0, "print only the last N bytes")
	return c
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
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
				return fmt.Errorf("no server answered within %s, so the state of the jobs is unknown: run \"ares doctor\"", timeout)
			} else if err != nil {
				return err
			}
			for _, id := range ids {
				job, err := a.wait(ctx, c, &o, id)
				ranOut := errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil // only --timeout cancels ctx; a single call has its own deadline
				switch {
				case ranOut && job == nil:
					return fmt.Errorf("%s: no server answered within %s, so the job's state is unknown: run \"ares doctor\"", id, timeout)
				case ranOut:
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
	return o.Add(&cobra.Command{
		Use: "events JOB", Short: "List the events of a job", Example: `  job=$(ares job submit -- echo hello)
  ares job events "$job"`, Args: command.ExactArgs("JOB"),
		Long: addressing,
		RunE: a.withJobs(toRead, func(ctx context.Context, c *client.Client, args []string) error {
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Events(ctx, args[0]) },
				func(w io.Writer, m proto.Message) { a.writeEvents(w, m.(*apipb.ListJobEventsResponse)) })
		}),
	})
}

func (a *commands) writeEvents(w io.Writer, list *apipb.ListJobEventsResponse) {
	if n := list.GetDropped(); n > 0 {
		output.Printf(w, "(%d older events were deleted)\n", n)
	}
	t := output.Table{Head: []string{"AT", "STATE", "ATTEMPT", "MESSAGE"}}
	for _, e := range list.GetEvents() {
		t.Add(e.GetAt().AsTime().Local().Format("2006-01-02 15:04:05.000"), e.GetState(), strconv.Itoa(int(e.GetAttempt())), e.GetMessage())
	}
	t.Write(w, a.Color)
}
