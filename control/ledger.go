package control

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
)

// Ledger finds jobs wherever they are and says what they used: live ones are in
// the view, those that ended are in history, and for a while in both. It knows
// which ended jobs history may not have yet.
type Ledger struct {
	View    *View
	History *history.History
	Now     func() time.Time

	mu    sync.Mutex
	ended map[ares.JobID]int64 // live jobs that ended and may not be in history: the revision of their run
	moved int                  // grows when some leave that list

	recent recentPrices
}

// NewLedger makes a ledger that is fed by the view. Call it before the view runs.
func NewLedger(view *View, h *history.History, now func() time.Time) *Ledger {
	l := &Ledger{View: view, History: h, Now: now, ended: map[ares.JobID]int64{}}
	view.Feed(l.saw)
	return l
}

// saw notes what ended. It is fed by the view.
func (l *Ledger) saw(b ares.Batch) {
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

func (l *Ledger) leave(id ares.JobID) {
	if _, there := l.ended[id]; there {
		delete(l.ended, id)
		l.moved++
	}
}

// recorded notes that history has the run of a job at a revision.
func (l *Ledger) recorded(id ares.JobID, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended[id] <= revision {
		l.leave(id)
	}
}

// unrecorded says whether history may not have the job yet.
func (l *Ledger) unrecorded(id ares.JobID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, there := l.ended[id]
	return there
}

// backlog lists the jobs that history may not have, oldest first.
func (l *Ledger) backlog() []*Entry {
	l.mu.Lock()
	ids := slices.Collect(maps.Keys(l.ended))
	l.mu.Unlock()
	out := make([]*Entry, 0, len(ids))
	for _, id := range ids {
		if e := l.View.Job(id); e != nil && e.Run.Phase.Final() {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *Entry) int {
		return cmp.Or(cmp.Compare(a.Run.Revision, b.Run.Revision), cmp.Compare(a.Job.ID, b.Job.ID))
	})
	return out
}

// settle asks history which of the ended jobs it has: on a server that does not
// lead, another wrote them.
func (l *Ledger) settle(ctx context.Context) error {
	l.mu.Lock()
	ids := slices.Collect(maps.Keys(l.ended))
	l.mu.Unlock()
	return l.settleThese(ctx, ids)
}

func (l *Ledger) settleThese(ctx context.Context, ids []ares.JobID) error {
	has, err := l.History.Revisions(ctx, ids)
	if err != nil {
		return err
	}
	for id, revision := range has {
		l.recorded(id, revision)
	}
	return nil
}

func (l *Ledger) moves() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moved
}

// settleTries is how often a sum is made anew because jobs moved to history
// while it was made. After that one may be missing, or be counted twice, until
// it is asked again.
const settleTries = 5

// Usage sums up what was used, by jobs that run up to now, and what it cost.
func (l *Ledger) Usage(ctx context.Context, q history.UsageQuery) ([]history.Used, error) {
	prices, err := l.History.Prices(ctx)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		if err = l.settle(ctx); err != nil {
			return nil, err
		}
		before := l.moves()
		rows, err := l.History.Usage(ctx, q)
		if err != nil {
			return nil, err
		}
		sum := history.NewSum(q, prices, rows)
		l.addLive(sum)
		if err = l.settle(ctx); err != nil {
			return nil, err
		}
		if l.moves() == before || try == settleTries {
			return sum.Rows(), nil
		}
	}
}

// addLive adds what jobs have used that are not in history.
func (l *Ledger) addLive(sum *history.Sum) {
	now, kinds := l.Now(), l.View.Kinds()
	live := []ares.Phase{ares.Pending, ares.Scheduled, ares.Running, ares.Retrying, ares.Preempted}
	for _, e := range l.View.Jobs(Filter{Phases: live, Elements: true}).Entries {
		if len(e.Run.Attempts) > 0 {
			sum.Add(e.Job, history.Parts(e.Job, &e.Run, kinds, now))
		}
	}
	for _, e := range l.backlog() {
		sum.Add(e.Job, history.Parts(e.Job, &e.Run, kinds, now))
	}
}

// Known is a job with what it used.
type Known struct {
	*Entry
	Archived bool // it is no longer live
	Parts    []history.Part
}

// Job finds a job that is no longer live.
func (l *Ledger) Job(ctx context.Context, id ares.JobID, tenant string) (Known, error) {
	found, err := l.History.Job(ctx, id, tenant)
	if err != nil {
		return Known{}, err
	}
	return Known{Entry: &Entry{Job: &found.Job, Run: found.Run}, Archived: true, Parts: found.Parts}, nil
}

// Parts is what a live job has used by now.
func (l *Ledger) Parts(job *ares.Job, run *ares.Run) []history.Part {
	return history.Parts(job, run, l.View.Kinds(), l.Now())
}

// KnownPage is a part of a list, newest first.
type KnownPage struct {
	Jobs     []Known
	More     bool
	Revision int64
	// Total is how many jobs match on all pages. It comes with the first, and is
	// nil where nobody knows it without reading them all.
	Total *int64
}

// Jobs lists jobs wherever they are. A job that moves to history while somebody
// reads the pages keeps its place in them.
func (l *Ledger) Jobs(ctx context.Context, f Filter) (KnownPage, error) {
	live := l.View.Jobs(f)
	out := KnownPage{Revision: live.Revision, More: live.More}
	for _, e := range live.Entries {
		out.Jobs = append(out.Jobs, Known{Entry: e, Parts: l.Parts(e.Job, &e.Run)})
	}
	if f.ArrayOf != "" && l.View.Job(f.ArrayOf) != nil {
		out.Total = new(int64(live.Total))
		return out, nil // elements go with their array
	}
	old, more, err := l.History.Jobs(ctx, f.ofHistory())
	if err != nil {
		return out, err
	}
	there := map[ares.JobID]int64{}
	for _, k := range out.Jobs {
		there[k.Job.ID] = k.Job.Revision
	}
	for i := range old {
		if j := &old[i]; there[j.Job.ID] != j.Job.Revision {
			out.Jobs = append(out.Jobs, Known{Entry: &Entry{Job: &j.Job, Run: j.Run}, Archived: l.View.Job(j.Job.ID) == nil, Parts: j.Parts})
		}
	}
	if f.ArrayOf == "" {
		slices.SortFunc(out.Jobs, func(a, b Known) int { return inOrder(b.Job, a.Job) })
	}
	if out.More = out.More || more; len(out.Jobs) > f.Limit {
		out.Jobs, out.More = out.Jobs[:f.Limit], true
	}
	if f.Before == 0 {
		out.Total = l.totalOf(ctx, f, &out)
	}
	return out, nil
}

// totalOf is how many jobs match on all pages, of which one is the first; nil where
// that is not known. The page is worth having without it.
func (l *Ledger) totalOf(ctx context.Context, f Filter, first *KnownPage) *int64 {
	if !first.More {
		return new(int64(len(first.Jobs)))
	}
	if n, known := l.total(ctx, f); known {
		return &n
	}
	return nil
}
