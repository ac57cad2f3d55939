package control

import (
	"context"
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
)

// maxUncounted is how many ended jobs may be unknown to history while jobs are
// still counted: history is asked for each of them, and a list must not wait.
const maxUncounted = 1000

// total is how many jobs a filter selects wherever they are, each once. It says
// no where that is not known without reading them all, or at all.
func (l *Ledger) total(ctx context.Context, f Filter) (n int64, known bool) {
	of := f.ofHistory()
	if !of.Counted() || l.many(ctx) || l.settle(ctx) != nil {
		return 0, false
	}
	for range settleTries {
		before := l.moves()
		old, err := l.History.Count(ctx, of)
		if err != nil {
			return 0, false
		}
		live, err := l.uncounted(ctx, f)
		if err != nil || l.settle(ctx) != nil {
			return 0, false
		}
		if l.moves() == before {
			return old + live, true
		}
	}
	return 0, false
}

// many says whether too many ended jobs may be unknown to history to ask for all
// of them, and then asks for some, so that it ends.
func (l *Ledger) many(ctx context.Context) bool {
	l.mu.Lock()
	var ids []ares.JobID
	many := len(l.ended) > maxUncounted
	if many {
		for id := range l.ended { // order-free: any will do
			if ids = append(ids, id); len(ids) == maxUncounted {
				break
			}
		}
	}
	l.mu.Unlock()
	if many {
		_ = l.settleThese(ctx, ids) // the next who asks does it too
	}
	return many
}

// uncounted counts the jobs that a filter selects and history does not have: those
// that have not ended, and those that did and were not written yet. One of which
// history has an earlier version is counted there.
func (l *Ledger) uncounted(ctx context.Context, f Filter) (n int64, err error) {
	active, ended := l.live(f)
	ids := make([]ares.JobID, 0, len(ended))
	for v := range ended { // order-free: a set
		ids = append(ids, v.ID)
	}
	has, err := l.History.Has(ctx, ids)
	if err != nil {
		return 0, err
	}
	maps.DeleteFunc(ended, func(v history.Key, _ bool) bool { return has[v] })
	return int64(active + len(ended)), nil
}

// live counts the jobs that a filter selects and that have not ended, and lists
// those that did and that history may not have. Both are true at one revision: a job
// that ends is in one of them.
func (l *Ledger) live(f Filter) (active int, ended map[history.Key]bool) {
	l.View.mu.RLock()
	defer l.View.mu.RUnlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	ended = map[history.Key]bool{}
	for id := range l.ended { // order-free: a set
		if e := l.View.jobs[id]; e != nil && e.Run.Phase.Final() && f.matches(e) {
			ended[history.Key{ID: id, Accepted: e.Job.Revision}] = true
		}
	}
	return l.View.countActive(f), ended
}

// countActive counts the jobs that a filter selects and that have not ended. Whoever
// calls it holds the lock.
func (v *View) countActive(f Filter) int {
	asked := f.Phases
	f.Phases = slices.DeleteFunc(ares.Phases(), func(p ares.Phase) bool {
		return p.Final() || len(asked) > 0 && !slices.Contains(asked, p)
	})
	switch {
	case len(f.Phases) == 0:
		return 0
	case f.ArrayOf != "":
		return v.elementsPage(f).Total
	default:
		return v.total(f)
	}
}

// ofHistory is the filter in history's words.
func (f *Filter) ofHistory() history.Filter {
	return history.Filter{
		Tenant: f.Tenant, Queue: f.Queue, User: f.User, Phases: f.Phases, Name: f.Name, From: f.From, To: f.To,
		ArrayOf: f.ArrayOf, Before: f.Before, After: f.After, Limit: f.Limit, Within: f.Within,
	}
}
