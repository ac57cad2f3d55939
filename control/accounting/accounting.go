package accounting

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/history"
)

// Accounting finds jobs and sums their usage in both the cache and history. Accounting tracks which finished jobs may
// be missing from history, so that each job is counted once.
type Accounting struct {
	View    *cache.View
	History *history.History
	Now     func() time.Time

	mu    sync.Mutex
	ended map[ares.JobID]int64 // live jobs that have ended but may be missing from history, each with the revision of its run
	moved int                  // counts removals from ended

	recent recentPrices
}

// NewAccounting returns an Accounting. The given view keeps it up to date. NewAccounting must
// be called before the view runs.
func NewAccounting(view *cache.View, h *history.History, now func() time.Time) *Accounting {
	l := &Accounting{View: view, History: h, Now: now, ended: map[ares.JobID]int64{}}
	view.Feed(l.Apply)
	return l
}

// Apply records which jobs have ended. The view calls Apply after each change.
func (l *Accounting) Apply(b ares.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.Reset {
		clear(l.ended)
		l.moved++
	}
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Run != nil && e.Run.Run.Phase.Final():
			l.ended[e.Run.Job] = e.Run.Run.Revision
		case e.Gone.Kind == ares.KindJob:
			l.leave(ares.JobID(e.Gone.ID))
		}
	}
}

func (l *Accounting) leave(id ares.JobID) {
	if _, there := l.ended[id]; there {
		delete(l.ended, id)
		l.moved++
	}
}

// MarkRecorded records that history contains a job's run as of a given revision.
func (l *Accounting) MarkRecorded(id ares.JobID, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended[id] <= revision {
		l.leave(id)
	}
}

// IsUnrecorded reports whether a finished job may be missing from history.
func (l *Accounting) IsUnrecorded(id ares.JobID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, there := l.ended[id]
	return there
}

// Backlog lists the finished jobs that may be missing from history, oldest first.
func (l *Accounting) Backlog() []*cache.Entry {
	l.mu.Lock()
	ids := slices.Collect(maps.Keys(l.ended))
	l.mu.Unlock()
	out := make([]*cache.Entry, 0, len(ids))
	for _, id := range ids {
		if e := l.View.Job(id); e != nil && e.Run.Phase.Final() {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *cache.Entry) int {
		return cmp.Or(cmp.Compare(a.Run.Revision, b.Run.Revision), cmp.Compare(a.Job.ID, b.Job.ID))
	})
	return out
}

// The method `settle` asks history which finished jobs it already contains. Only the leader writes to history, so
// every other server has to ask history.
func (l *Accounting) settle(ctx context.Context) error {
	l.mu.Lock()
	ids := slices.Collect(maps.Keys(l.ended))
	l.mu.Unlock()
	return l.settleThese(ctx, ids)
}

func (l *Accounting) settleThese(ctx context.Context, ids []ares.JobID) error {
	has, err := l.History.Revisions(ctx, ids)
	if err != nil {
		return err
	}
	for id, revision := range has {
		l.MarkRecorded(id, revision)
	}
	return nil
}

func (l *Accounting) moves() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moved
}

// settleTries limits how often a sum is computed again. A sum is computed again if jobs moved to history in the
// meantime. If jobs still moved to history during the last try, the sum is not consistent: a job may be missing from it or counted twice.
const settleTries = 5

// Usage sums usage and cost. A running job's usage is counted up to the present.
func (l *Accounting) Usage(ctx context.Context, q history.UsageQuery) ([]history.Used, error) {
	rows, _, err := l.usage(ctx, q)
	return rows, err
}

// The method `usage` sums usage and cost. The result `consistent` is false if a job may be missing from the sum or counted twice.
func (l *Accounting) usage(ctx context.Context, q history.UsageQuery) (out []history.Used, consistent bool, err error) {
	prices, err := l.History.Prices(ctx)
	if err != nil {
		return nil, false, err
	}
	for try := 1; ; try++ {
		if err = l.settle(ctx); err != nil {
			return nil, false, err
		}
		before := l.moves()
		rows, err := l.History.Usage(ctx, q)
		if err != nil {
			return nil, false, err
		}
		sum := history.NewSum(q, prices, rows)
		l.addLive(sum)
		if err = l.settle(ctx); err != nil {
			return nil, false, err
		}
		if consistent = l.moves() == before; consistent || try == settleTries {
			return sum.Rows(), consistent, nil
		}
	}
}

// addLive adds the usage of jobs that are not in history.
func (l *Accounting) addLive(sum *history.Sum) {
	now, kinds := l.Now(), l.View.Kinds()
	live := []ares.Phase{ares.Pending, ares.Scheduled, ares.Running, ares.Retrying, ares.Preempted}
	for _, e := range l.View.Jobs(cache.Filter{Phases: live, Elements: true}).Entries {
		if len(e.Run.Attempts) > 0 {
			sum.Add(e.Job, history.Parts(e.Job, &e.Run, kinds, now))
		}
	}
	for _, e := range l.Backlog() {
		sum.Add(e.Job, history.Parts(e.Job, &e.Run, kinds, now))
	}
}

// JobRecord is a job with its usage.
type JobRecord struct {
	*cache.Entry
	Archived bool // no longer live
	Parts    []history.Part
}

// Job finds an archived job in history.
func (l *Accounting) Job(ctx context.Context, id ares.JobID, tenant string) (JobRecord, error) {
	found, err := l.History.Job(ctx, id, tenant)
	if err != nil {
		return JobRecord{}, err
	}
	return JobRecord{Entry: &cache.Entry{Job: &found.Job, Run: found.Run}, Archived: true, Parts: found.Parts}, nil
}

// Parts returns the usage of a live job up to now.
func (l *Accounting) Parts(job *ares.Job, run *ares.Run) []history.Part {
	return history.Parts(job, run, l.View.Kinds(), l.Now())
}

// JobPage is one page of a list, newest first.
type JobPage struct {
	Jobs     []JobRecord
	More     bool
	Revision int64
	// Total is the number of matching jobs on all pages. Only the first page of a list has a Total.
	// Total is nil if counting would require reading all matching jobs.
	Total *int64
}

// Jobs lists live and archived jobs. A job that moves to history between two pages keeps its position in the list.
func (l *Accounting) Jobs(ctx context.Context, f cache.Filter) (JobPage, error) {
	live := l.View.Jobs(f)
	out := JobPage{Revision: live.Revision, More: live.More}
	for _, e := range live.Entries {
		out.Jobs = append(out.Jobs, JobRecord{Entry: e, Parts: l.Parts(e.Job, &e.Run)})
	}
	if f.ArrayOf != "" && l.View.Job(f.ArrayOf) != nil {
		out.Total = new(int64(live.Total))
		return out, nil // elements are listed with their array
	}
	old, more, err := l.History.Jobs(ctx, f.OfHistory())
	if err != nil {
		return out, err
	}
	there := map[ares.JobID]int64{}
	for _, k := range out.Jobs {
		there[k.Job.ID] = k.Job.Revision
	}
	for i := range old {
		if j := &old[i]; there[j.Job.ID] != j.Job.Revision {
			out.Jobs = append(out.Jobs, JobRecord{Entry: &cache.Entry{Job: &j.Job, Run: j.Run}, Archived: l.View.Job(j.Job.ID) == nil, Parts: j.Parts})
		}
	}
	if f.ArrayOf == "" {
		slices.SortFunc(out.Jobs, func(a, b JobRecord) int { return cache.ByAcceptance(b.Job, a.Job) })
	}
	if out.More = out.More || more; len(out.Jobs) > f.Limit {
		out.Jobs, out.More = out.Jobs[:f.Limit], true
	}
	if f.Before == 0 {
		out.Total = l.totalOf(ctx, f, &out)
	}
	return out, nil
}

// totalOf returns the number of matching jobs on all pages, or nil if it is unknown. If counting fails, the page is
// still returned.
func (l *Accounting) totalOf(ctx context.Context, f cache.Filter, first *JobPage) *int64 {
	if !first.More {
		return new(int64(len(first.Jobs)))
	}
	if n, known := l.total(ctx, f); known {
		return &n
	}
	return nil
}
