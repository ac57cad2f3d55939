package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

func (a *app) jobCommand() *cobra.Command {
	return group("job", "Submit jobs and see what becomes of them", "",
		a.submitCommand(), a.jobListCommand(), a.jobGetCommand(), a.jobCancelCommand(), a.jobRetryCommand(),
		a.jobLogsCommand(), a.jobWaitCommand(), a.jobEventsCommand(), a.jobExplainCommand(), a.jobPlanCommand(), a.jobPredictCommand())
}

// with runs a command that talks to a server.
func (a *app) with(run func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.connect()
		if err != nil {
			return err
		}
		return errors.Join(run(cmd.Context(), c, named(args)), c.Close())
	}
}

// element matches how people name an array's element: JOB[3].
var element = regexp.MustCompile(`^(job-[a-z2-7]{24})\[([0-9]{1,6})\]$`)

// named puts the IDs of elements for their names.
func named(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range args {
		if m := element.FindStringSubmatch(arg); m != nil {
			index, err := strconv.Atoi(m[2])
			must(err)
			out[i] = string(ares.ElementID(ares.JobID(m[1]), index))
		}
	}
	return out
}

func (a *app) jobListCommand() *cobra.Command {
	var o readFlags
	var req apipb.ListJobsRequest
	var limit int
	var when since
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List jobs, newest first", Args: exactly(),
		Long: `List jobs, newest first: those that are live, which a job is until a day after its end
(jobs.archive_after_minutes), and with --all also those that history has.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			for _, s := range req.GetState() {
				if _, err := ares.ParsePhase(s); err != nil {
					return usagef("--state: %s", err)
				}
			}
			if limit < 0 {
				return usagef("--limit %d: use 0 for all, or how many at most", limit)
			}
			if err := when.fill(a, &req); err != nil {
				return err
			}
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return listJobs(ctx, c, &req, limit) },
				func(w io.Writer, m proto.Message) {
					list := m.(*apipb.ListJobsResponse)
					if len(list.GetJobs()) == 0 && (len(req.GetState()) > 0 || req.GetTenantId() != "" || req.GetName() != "" || req.GetArrayOf() != "" || req.GetQueue() != "" || req.GetUser() != "" || req.GetFrom() != nil || req.GetTo() != nil) {
						say(w, "No job matches. See all of them with: %s job list --all\n", a.again())
						return
					}
					a.writeJobs(w, list)
				})
		}),
	}
	o.add(c)
	c.Flags().BoolVar(&req.All, "all", false, "also jobs that are no longer live, from history")
	when.add(c)
	c.Flags().StringVar(&req.Queue, "queue", "", "only jobs of this queue")
	c.Flags().StringVar(&req.User, "user", "", "only jobs this identity submitted")
	c.Flags().StringSliceVar(&req.State, "state", nil, "only jobs in these states")
	c.Flags().StringVar(&req.TenantId, "tenant-id", "", "only jobs of this tenant")
	c.Flags().StringVar(&req.Name, "name", "", "only jobs whose name contains this")
	c.Flags().StringVar(&req.ArrayOf, "array", "", "the elements of this array, by index")
	c.Flags().IntVar(&limit, "limit", 100, "at most this many; 0 for all")
	must(c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(phaseNames(), cobra.ShellCompDirectiveNoFileComp)))
	return c
}

func phaseNames() []string {
	var out []string
	for _, p := range ares.Phases() {
		out = append(out, string(p))
	}
	return out
}

// listJobs gathers up to limit jobs from as many pages as it takes.
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
		if answer.Total != nil { // it may come with the first page alone
			all.Total = answer.Total
		}
		if all.NextPageToken == "" { // these are all, whatever there was at first
			all.Total = new(int32(len(all.Jobs)))
		}
		if all.NextPageToken == "" || limit > 0 && len(all.Jobs) >= limit {
			return all, nil
		}
		page.PageToken = all.NextPageToken
	}
}

func (a *app) writeJobs(w io.Writer, list *apipb.ListJobsResponse) {
	if len(list.GetJobs()) == 0 {
		say(w, "No jobs. Submit one with: ares job submit --name hello -- echo hello\n")
		return
	}
	t := table{head: []string{"ID", "NAME", "TENANT", "STATE", "PRIORITY", "GPUS", "AGE", "REASON"}}
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
		t.add(j.GetJobId(), j.GetName(), j.GetTenantId(), j.GetState(), strconv.Itoa(int(j.GetPriority())), gpus(j), a.age(j.GetCreatedAt()), shorten(why, 80))
	}
	t.write(w, a.color)
	if n := int(list.GetTotal()); n > len(list.GetJobs()) {
		say(w, "%d of %d jobs; see more with --limit\n", len(list.GetJobs()), n)
	} else if list.Total == nil && list.GetNextPageToken() != "" {
		say(w, "%s, and there are more; see them with --limit\n", count(int32(len(list.GetJobs())), "job"))
	}
}

// gpus is what a job asks for, such as 2x4 for four on each of two members.
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

// elements says what became of an array's elements, in words.
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

func (a *app) jobGetCommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "get JOB", Short: "Show one job: where it stands, why, and what it did", Args: exactly("JOB"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Job(ctx, args[0]) },
				func(w io.Writer, m proto.Message) { a.writeJob(w, m.(*apipb.Job)) })
		}),
	})
}

func (a *app) jobCancelCommand() *cobra.Command {
	var o readFlags
	c := &cobra.Command{
		Use: "cancel JOB...", Short: "End jobs, whatever they are doing", Args: atLeastOne("JOB"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			for _, id := range args {
				answer, err := c.Cancel(ctx, id)
				if err != nil {
					return err
				}
				err = a.print(&o, answer, func(w io.Writer, _ proto.Message) {
					say(w, "%s %s\n", clean(answer.GetJobId()), clean(answer.GetStatus()))
				})
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
	o.addOutput(c)
	return c
}

func (a *app) jobRetryCommand() *cobra.Command {
	var o readFlags
	var requestID string
	c := &cobra.Command{
		Use: "retry JOB", Short: "Submit a finished job again, as a new one", Args: exactly("JOB"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			answer, err := c.Retry(ctx, args[0], requestID)
			if err != nil {
				return err
			}
			return a.print(&o, answer, func(w io.Writer, _ proto.Message) {
				say(w, "%s\n", clean(answer.GetJobId()))
				say(a.err, "a retry of %s; follow it with: %s job logs -f %s\n", args[0], a.again(), clean(answer.GetJobId()))
			})
		}),
	}
	c.Flags().StringVar(&requestID, "request-id", "", "makes the retry repeatable")
	o.addOutput(c)
	return c
}

func (a *app) jobLogsCommand() *cobra.Command {
	var o client.LogOptions
	c := &cobra.Command{
		Use: "logs JOB", Short: "Print what a job printed", Args: exactly("JOB"),
		Long: "Print what one rank of a job printed. On a terminal, escape sequences are left out.\nJOB[3] is element 3 of an array, here as everywhere.",
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if o.Rank < 0 || o.Attempt < 0 || o.TailBytes < 0 {
				return usagef("--rank, --attempt and --tail-bytes are not negative")
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
	c.Flags().BoolVarP(&o.Follow, "follow", "f", false, "wait for the job to run and go on until it has ended")
	c.Flags().IntVar(&o.Rank, "rank", 0, "which member, from 0")
	c.Flags().IntVar(&o.Attempt, "attempt", 0, "which attempt, from 1; 0 for the latest")
	c.Flags().IntVar(&o.TailBytes, "tail-bytes", 0, "only the last bytes")
	return c
}

// nextAttempt parts the output of one attempt from that of the one before.
func (a *app) nextAttempt(number int) {
	if number > 1 {
		say(a.err, "--- attempt %d ---\n", number)
	}
}

// logWriter is where a job's output goes: as it is, but to a terminal without
// what a terminal would obey.
func (a *app) logWriter() (io.Writer, func() error) {
	if !a.tty {
		return a.out, func() error { return nil }
	}
	c := &cleaner{w: a.out}
	return c, c.Close
}

func (a *app) jobWaitCommand() *cobra.Command {
	var timeout time.Duration
	var o readFlags
	c := &cobra.Command{
		Use: "wait JOB...", Short: "Wait until jobs have ended; exit code 1 unless all succeeded", Args: atLeastOne("JOB"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			failed := false
			for _, id := range args {
				job, err := a.wait(ctx, c, &o, id)
				ranOut := errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil // a call's own deadline is another
				switch {
				case ranOut && job == nil:
					return fmt.Errorf("%s: nothing is known of it, no server answered within %s: see \"ares doctor\"", id, timeout)
				case ranOut:
					return fmt.Errorf("%s has not ended within %s; it goes on: see ares job get %s", id, timeout, id)
				case err != nil:
					return interrupted(ctx, id, err)
				}
				failed = failed || job.GetState() != string(ares.Succeeded)
			}
			if failed {
				return &exitError{exitFailed}
			}
			return nil
		}),
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "give up after this time, such as 10m; the jobs go on")
	o.addOutput(c)
	return c
}

func (a *app) wait(ctx context.Context, c *client.Client, o *readFlags, id string) (*apipb.Job, error) {
	job, err := c.Wait(ctx, id)
	if err != nil {
		return job, err
	}
	return job, a.print(o, job, func(w io.Writer, _ proto.Message) {
		say(w, "%s %s\n", clean(job.GetJobId()), ending(job))
	})
}

// ending is how a job ended, in one line.
func ending(j *apipb.Job) string {
	if j.GetState() == string(ares.Succeeded) {
		return j.GetState()
	}
	reason := firstOf(j.GetResult().GetReason(), j.GetReason())
	if j.GetState() == string(ares.Cancelled) {
		reason = firstOf(j.GetReason(), reason) // who cancelled it
	}
	why := because(j.GetResult().GetExitCode(), reason)
	return clean(strings.TrimSuffix(j.GetState()+": "+why, ": "))
}

// because is a reason with the exit code, unless it says that itself or there
// is none: a signal, a cancellation and a failed start have -1.
func because(exit int32, reason string) string {
	code := fmt.Sprintf("exit code %d", exit)
	switch {
	case exit <= 0 || strings.Contains(reason, code):
		return reason
	case reason == "":
		return code
	}
	return code + ", " + reason
}

func (a *app) jobEventsCommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "events JOB", Short: "List the steps of a job's life", Args: exactly("JOB"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Events(ctx, args[0]) },
				func(w io.Writer, m proto.Message) { a.writeEvents(w, m.(*apipb.ListJobEventsResponse)) })
		}),
	})
}

func (a *app) writeEvents(w io.Writer, list *apipb.ListJobEventsResponse) {
	if n := list.GetDropped(); n > 0 {
		say(w, "(%d older events are no longer kept)\n", n)
	}
	t := table{head: []string{"AT", "STATE", "ATTEMPT", "MESSAGE"}}
	for _, e := range list.GetEvents() {
		t.add(e.GetAt().AsTime().Local().Format("2006-01-02 15:04:05.000"), e.GetState(), strconv.Itoa(int(e.GetAttempt())), e.GetMessage())
	}
	t.write(w, a.color)
}
