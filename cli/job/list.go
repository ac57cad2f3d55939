package job

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) jobListCommand() *cobra.Command {
	var o output.Flags
	var req apipb.ListJobsRequest
	var limit int
	var when timeFlags
	var who userFlags
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List jobs, newest first", Example: `  ares job list --state pending,running
  ares job list --label project=vision --sort -gpus
  ares job list --all --from 7d --limit 20`, Args: command.ExactArgs(),
		Long: `List the jobs that are not archived, newest first. By default, Ares archives a job one
day after the job has finished; jobs.archive_after_minutes sets another time. With --all,
the list includes archived jobs from history.

On a terminal, the list fits the width: less important columns are left out, and IDs are
shortened. Every command accepts a shortened ID. -o wide shows everything. --sort orders
the jobs that --limit allows.

With --watch on a terminal, running jobs come first, then the newest. In a pipe, --watch
prints the list, then one line for each change of a job's state.`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			if strings.ContainsAny(req.Name, "*?") { // the same pattern selects the jobs to cancel or to hold
				req.NamePattern, req.Name = req.Name, ""
			}
			if err := checkList(&req, limit); err != nil {
				return err
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
			table := func(m proto.Message) *output.Table { return a.jobTable(m.(*apipb.ListJobsResponse), isFiltered(&req)) }
			if a.Lines(&o) {
				return a.watchJobs(ctx, c, &o, &req, limit)
			}
			fetch := listJobs
			if a.Redraws(&o) {
				fetch = listRunningFirst
			}
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return fetch(ctx, c, &req, limit) }, table)
		}),
	}
	o.AddList(c)
	c.Flags().BoolVar(&req.All, "all", false, "include archived jobs from history")
	when.add(c)
	c.Flags().StringVar(&req.Queue, "queue", "", "only jobs of this queue")
	who.add(c)
	c.Flags().StringSliceVar(&req.State, "state", nil, "only jobs in these states")
	c.Flags().StringVar(&req.TenantId, "tenant-id", "", "only jobs of this tenant")
	c.Flags().StringVar(&req.Name, "name", "", "only jobs with this text in their name, or whose name matches a pattern such as 'sweep-*'")
	c.Flags().StringArrayVar(&req.Labels, "label", nil, "only jobs with this label, KEY=VALUE or KEY; can be repeated")
	c.Flags().StringVar(&req.ArrayOf, "array", "", "list the elements of this array, by index")
	c.Flags().IntVar(&limit, "limit", 100, "maximum number of rows; 0 for all")
	output.Must(c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(command.PhaseNames(), cobra.ShellCompDirectiveNoFileComp)))
	return c
}

// checkList finds mistakes in the flags of a list that the server would report in words of the API.
func checkList(req *apipb.ListJobsRequest, limit int) error {
	for _, s := range req.GetState() {
		if _, err := ares.ParsePhase(s); err != nil {
			return exit.Usagef("--state: %s", err)
		}
	}
	for _, text := range req.GetLabels() {
		if strings.HasPrefix(text, "=") || text == "" {
			return exit.Usagef("--label %q: write KEY=VALUE, or KEY for any value", text)
		}
	}
	if req.GetAll() && len(req.GetLabels()) > 0 {
		return exit.Usagef("--all and --label cannot be combined, because history cannot be searched by labels: leave out --all")
	}
	if req.GetAll() && req.GetNamePattern() != "" {
		return exit.Usagef("--all and a pattern in --name cannot be combined, because history cannot be searched by patterns: leave out --all, or the characters * and ?")
	}
	if limit < 0 {
		return exit.Usagef("--limit %d: use 0 for all, or a positive maximum", limit)
	}
	return nil
}

// isFiltered reports whether a list leaves out jobs because of their properties.
func isFiltered(req *apipb.ListJobsRequest) bool {
	return len(req.GetState()) > 0 || req.GetTenantId() != "" || req.GetName() != "" || req.GetNamePattern() != "" || req.GetArrayOf() != "" || req.GetQueue() != "" || req.GetUser() != "" ||
		req.GetFrom() != nil || req.GetTo() != nil || len(req.GetLabels()) > 0
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

// listRunningFirst is like listJobs, but the list begins with the jobs that have devices, of which the newest comes first. They may be
// older than all jobs of the first page, so they are fetched separately.
func listRunningFirst(ctx context.Context, c *client.Client, filter *apipb.ListJobsRequest, limit int) (*apipb.ListJobsResponse, error) {
	all, err := listJobs(ctx, c, filter, limit)
	if err != nil || filter.GetArrayOf() != "" {
		return all, err
	}
	first := proto.CloneOf(filter)
	first.State = slices.DeleteFunc(phaseNames(ares.Phase.Active), func(s string) bool {
		return len(filter.GetState()) > 0 && !slices.Contains(filter.GetState(), s)
	})
	if len(first.GetState()) == 0 {
		return all, nil
	}
	running, err := listJobs(ctx, c, first, limit)
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{}
	jobs := slices.Concat(running.GetJobs(), all.GetJobs())
	all.Jobs = slices.DeleteFunc(jobs, func(j *apipb.Job) bool {
		defer func() { listed[j.GetJobId()] = true }()
		return listed[j.GetJobId()]
	})
	if limit > 0 && len(all.Jobs) > limit {
		all.Jobs = all.Jobs[:limit]
	}
	return all, nil
}

func (a *commands) jobTable(list *apipb.ListJobsResponse, filtered bool) *output.Table {
	t := newJobTable()
	if t.Empty = "No jobs. Submit one with: ares job submit --name hello -- echo hello"; filtered {
		t.Empty = fmt.Sprintf("No job matches. List all jobs with: %s job list --all", a.Invocation())
	}
	// Only jobs of a hub have a cluster, so the column is only shown there.
	ofHub := slices.ContainsFunc(list.GetJobs(), func(j *apipb.Job) bool { return j.GetCluster() != "" })
	place := slices.Index(t.Head, "NODES")
	if ofHub {
		t.Head = slices.Insert(t.Head, place, "CLUSTER")
	}
	for _, j := range list.GetJobs() {
		row := a.jobRow(j)
		if ofHub {
			row = slices.Insert(row, place, j.GetCluster())
		}
		t.Add(row...)
	}
	if n := int(list.GetTotal()); n > len(list.GetJobs()) {
		t.Note = fmt.Sprintf("%d of %d jobs; show more with --limit N", len(list.GetJobs()), n)
	} else if list.Total == nil && list.GetNextPageToken() != "" {
		t.Note = fmt.Sprintf("%s, more exist: show them with --limit N", output.Count(int32(len(list.GetJobs())), "job"))
	}
	return t
}

func newJobTable() *output.Table {
	return &output.Table{
		Head:    []string{"ID", "NAME", "TENANT", "QUEUE", "USER", "STATE", "PRIORITY", "GPUS", "NODES", "ATTEMPT", "AGE", "CREATED", "LABELS", "REASON"},
		Wide:    []string{"QUEUE", "USER", "NODES", "ATTEMPT", "CREATED", "LABELS"},
		Drop:    []string{"PRIORITY", "TENANT", "AGE", "GPUS"},
		Flex:    []string{"NAME", "REASON"},
		Passing: []string{"AGE"},
	}
}

func (a *commands) jobRow(j *apipb.Job) []string {
	return []string{
		j.GetJobId(), j.GetName(), j.GetTenantId(), j.GetQueue(), j.GetSubmittedBy(), j.GetState(), strconv.Itoa(int(j.GetPriority())), gpus(j), jobNodes(j),
		strconv.Itoa(int(j.GetAttempt())), a.Age(j.GetCreatedAt()), isoTime(j.GetCreatedAt()), output.Pairs(j.GetLabels()), stateReason(j),
	}
}

// jobNodes lists the nodes of the latest attempt.
func jobNodes(j *apipb.Job) string {
	var out []string
	if n := len(j.GetAttempts()); n > 0 {
		for _, seat := range j.GetAttempts()[n-1].GetSeats() {
			if !slices.Contains(out, seat.GetNode()) {
				out = append(out, seat.GetNode())
			}
		}
	}
	return strings.Join(out, ",")
}

// stateReason says why a job is in its state, or how far it is.
func stateReason(j *apipb.Job) string {
	if e := j.GetElements(); e != nil && ares.Phase(j.GetState()).Active() {
		return elements(e)
	}
	if p := j.GetProgress(); p != nil && j.GetState() == string(ares.Running) {
		return progress(p)
	}
	if ares.Phase(j.GetState()).Waiting() && len(j.GetWaitingFor()) > 0 {
		return strings.Join(j.GetWaitingFor(), "; ")
	}
	return j.GetReason()
}
