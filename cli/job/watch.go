package job

import (
	"context"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/pause"
)

// retryEvery is the time between two tries to reach a server.
const retryEvery = time.Second

// A jobWatch prints one line for each change of the jobs of a list. It reads the stream of events, and continues it at the same
// place after the connection has broken. If the server no longer has the events since then, which is so after a restart, the jobs
// that changed meanwhile are found by their revisions, and their events are read from the jobs.
type jobWatch struct {
	*commands
	c      *client.Client
	filter *apipb.ListJobsRequest // without states: a job that leaves them may come back
	states []string
	lines  *output.Stream

	jobs    map[string]*watchedJob
	ignored map[string]bool // jobs that do not match the filter
	// The stream is read up to the event number `seen` of the revision `last`.
	last int64
	seen int
}

// A watchedJob is what the lines of a job have in common, and where the job stands.
type watchedJob struct {
	row      []string
	created  *timestamppb.Timestamp
	state    string
	attempt  int32
	revision int64 // changes up to this one are printed, or were there before
}

// watchJobs prints a list of jobs, then one line for each change, until ctx ends.
func (a *commands) watchJobs(ctx context.Context, c *client.Client, o *output.Flags, req *apipb.ListJobsRequest, limit int) error {
	w := &jobWatch{
		commands: a, c: c, filter: proto.CloneOf(req), states: req.GetState(), lines: a.NewStream(o),
		jobs: map[string]*watchedJob{}, ignored: map[string]bool{},
	}
	w.filter.State, w.filter.All = nil, false
	for i, s := range w.states {
		if p, err := ares.ParsePhase(s); err == nil {
			w.states[i] = string(p)
		}
	}
	now, err := c.Jobs(ctx, &apipb.ListJobsRequest{PageSize: 1})
	if err != nil {
		return err
	}
	w.last = revisionOf(now.GetRevision())
	list, err := listJobs(ctx, c, req, limit)
	if err != nil {
		return err
	}
	if err := w.lines.Print(a.jobTable(list, false)); err != nil {
		return err
	}
	for _, j := range list.GetJobs() {
		w.add(j, revisionOf(j.GetRevision()))
	}
	if len(list.GetJobs()) < int(list.GetTotal()) || len(w.states) > 0 {
		err = w.list(ctx, func(j *apipb.Job) error { // the others: only their changes are printed
			w.add(j, min(w.last, revisionOf(j.GetRevision())))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return w.run(ctx)
}

// The method `run` follows the events until ctx ends. While no server answers, it tries again.
func (w *jobWatch) run(ctx context.Context) error {
	lost := false
	for {
		err := w.follow(ctx)
		if ares.CodeOf(err) == ares.NotFound {
			err = w.catchUp(ctx)
		}
		for ares.CodeOf(err) == ares.Unavailable && ctx.Err() == nil {
			if !lost {
				output.Printf(w.Err, "ares: no server answers; trying again until one does, or until you press Ctrl-C\n")
			}
			lost = true
			if pause.For(ctx, retryEvery) {
				_, err = w.c.Jobs(ctx, &apipb.ListJobsRequest{PageSize: 1})
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && ares.CodeOf(err) != ares.Exhausted {
			return err
		}
		if lost {
			output.Printf(w.Err, "ares: a server answers again\n")
		}
		lost = false
	}
}

// The method `follow` prints the changes of the stream of events until it breaks.
func (w *jobWatch) follow(ctx context.Context) error {
	from, skip := w.last, w.seen
	if w.seen > 0 { // the events of this revision are sent again
		from--
	}
	for event, err := range w.c.WatchEvents(ctx, &apipb.WatchEventsRequest{Revision: strconv.FormatInt(from, 10), TenantId: w.filter.GetTenantId()}) {
		if err != nil {
			return err
		}
		revision := revisionOf(event.GetRevision())
		if revision == w.last && skip > 0 {
			skip--
			continue
		}
		if skip = 0; revision != w.last {
			w.last, w.seen = revision, 0
		}
		if event.GetKind() == "job" {
			if err := w.changed(ctx, event, revision); err != nil {
				return err
			}
		}
		w.seen++
	}
	return ctx.Err()
}

// The method `changed` prints the line of an event, if the list has its job.
func (w *jobWatch) changed(ctx context.Context, event *apipb.WatchEventsResponse, revision int64) error {
	id := event.GetJobId()
	if w.jobs[id] == nil && !w.ignored[id] {
		if err := w.findNew(ctx, event.GetRevision()); err != nil {
			return err
		}
		w.ignored[id] = w.jobs[id] == nil
	}
	j := w.jobs[id]
	if j == nil || revision <= j.revision {
		return nil
	}
	return w.print(j, event.GetState(), event.GetAttempt(), event.GetMessage(), event.GetNodeId())
}

// findNew adds the jobs that were accepted since the last list. The stream of events has all their changes.
func (w *jobWatch) findNew(ctx context.Context, revision string) error {
	page := proto.CloneOf(w.filter)
	page.PageSize, page.MinRevision = 100, revision
	for {
		answer, err := w.c.Jobs(ctx, page)
		if err != nil {
			return err
		}
		known := false
		for _, j := range answer.GetJobs() {
			if known = known || w.jobs[j.GetJobId()] != nil; w.jobs[j.GetJobId()] == nil {
				w.add(j, 0)
			}
		}
		if known && w.filter.GetArrayOf() == "" || answer.GetNextPageToken() == "" { // a list is newest first, except that of an array
			return nil
		}
		page.PageToken = answer.GetNextPageToken()
	}
}

// catchUp prints the changes since the last event that was read, and goes on with the present revision.
func (w *jobWatch) catchUp(ctx context.Context) error {
	now, err := w.c.Jobs(ctx, &apipb.ListJobsRequest{PageSize: 1})
	if err != nil {
		return err
	}
	var changed []string
	err = w.list(ctx, func(j *apipb.Job) error {
		if revisionOf(j.GetRevision()) >= w.last || w.jobs[j.GetJobId()] == nil {
			changed = append(changed, j.GetJobId())
		}
		if w.jobs[j.GetJobId()] == nil {
			w.add(j, 0)
			w.jobs[j.GetJobId()].state = ""
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range slices.Backward(changed) { // the oldest first
		if err := w.printSince(ctx, id); err != nil {
			return err
		}
	}
	w.last, w.seen = revisionOf(now.GetRevision()), 0
	return nil
}

// printSince prints the events of a job after the one at which it stood. It reads the job after its events, because the
// stream of events will have what follows the revision of the job.
func (w *jobWatch) printSince(ctx context.Context, id string) error {
	was := w.jobs[id]
	for {
		answer, err := w.c.Events(ctx, id)
		if err != nil {
			return archived(err)
		}
		events := answer.GetEvents()
		at := len(events) - 1
		for at >= 0 && (events[at].GetState() != was.state || events[at].GetAttempt() != was.attempt) {
			at--
		}
		for _, e := range events[at+1:] {
			if err := w.print(was, e.GetState(), e.GetAttempt(), e.GetMessage(), ""); err != nil {
				return err
			}
		}
		now, err := w.c.Job(ctx, id)
		if err != nil {
			return archived(err)
		}
		if now.GetState() == was.state && now.GetAttempt() == was.attempt {
			was.revision = revisionOf(now.GetRevision())
			return nil
		}
	}
}

// The function `archived` forgives that a job is no longer there.
func archived(err error) error {
	if ares.CodeOf(err) == ares.NotFound {
		return nil
	}
	return err
}

// The method `list` calls a function for each job that matches the filter.
func (w *jobWatch) list(ctx context.Context, each func(*apipb.Job) error) error {
	page := proto.CloneOf(w.filter)
	page.PageSize = 1000
	for {
		answer, err := w.c.Jobs(ctx, page)
		if err != nil {
			return err
		}
		for _, j := range answer.GetJobs() {
			if err := each(j); err != nil {
				return err
			}
		}
		if page.PageToken = answer.GetNextPageToken(); page.PageToken == "" {
			return nil
		}
	}
}

// The method `add` remembers a job that matches the filter.
func (w *jobWatch) add(j *apipb.Job, revision int64) {
	if w.jobs[j.GetJobId()] == nil {
		delete(w.ignored, j.GetJobId())
		w.jobs[j.GetJobId()] = &watchedJob{row: w.jobRow(j), created: j.GetCreatedAt(), state: j.GetState(), attempt: j.GetAttempt(), revision: revision}
	}
}

// The method `print` prints one change of a job, unless the user wants to see other states only.
func (w *jobWatch) print(j *watchedJob, state string, attempt int32, message, node string) error {
	j.state, j.attempt = state, attempt
	if len(w.states) > 0 && !slices.Contains(w.states, state) {
		return nil
	}
	t := newJobTable()
	row := slices.Clone(j.row)
	for column, text := range map[string]string{
		"STATE": state, "ATTEMPT": strconv.Itoa(int(attempt)), "REASON": message, "NODES": node, "AGE": w.Age(j.created),
	} { // order-free: each sets its own cell
		row[slices.Index(t.Head, column)] = text
	}
	t.Add(row...)
	return w.lines.Print(t)
}

// revisionOf reads a revision of the server. It is 0 if the text is none.
func revisionOf(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
