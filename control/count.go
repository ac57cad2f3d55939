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
// no where that is not known without reading them all.
func (l *Ledger) total(ctx context.Context, f Filter) (n int64, known bool, err error) {
	if many, bad := l.settleSome(ctx); many || bad != nil {
		return 0, false, bad
	}
	for try := 1; ; try++ {
		if err = l.settle(ctx); err != nil {
			return 0, false, err
		}
		before := l.moves()
		n, known, err = l.History.Count(ctx, f.ofHistory())
		if err != nil || !known {
			return 0, false, err
		}
		n += int64(l.View.countActive(f))
		ended, err := l.uncounted(ctx, f)
		if err != nil {
			return 0, false, err
		}
		if err = l.settle(ctx); err != nil {
			return 0, false, err
		}
		if l.moves() == before {
			return n + ended, true, nil
		}
		if try == settleTries {
			return 0, false, nil
		}
	}
}

// settleSome says whether too many ended jobs may be unknown to history to ask
// for all of them, and then asks for some, so that it ends.
func (l *Ledger) settleSome(ctx context.Context) (many bool, err error) {
	l.mu.Lock()
	var ids []ares.JobID
	if many = len(l.ended) > maxUncounted; many {
		for id := range l.ended { // order-free: any will do
			if ids = append(ids, id); len(ids) == maxUncounted {
				break
			}
		}
	}
	l.mu.Unlock()
	if !many {
		return false, nil
	}
	return true, l.settleThese(ctx, ids)
}

// uncounted counts the ended jobs that a filter selects and history does not
// have. One of which it has an earlier version is counted there.
func (l *Ledger) uncounted(ctx context.Context, f Filter) (n int64, err error) {
	jobs := map[history.Version]bool{}
	var ids []ares.JobID
	for _, e := range l.backlog() {
		if f.matches(e) {
			jobs[history.Version{ID: e.Job.ID, Accepted: e.Job.Revision}] = true
			ids = append(ids, e.Job.ID)
		}
	}
	has, err := l.History.Has(ctx, ids)
	if err != nil {
		return 0, err
	}
	maps.DeleteFunc(jobs, func(v history.Version, _ bool) bool { return has[v] })
	return int64(len(jobs)), nil
}

// countActive counts the jobs that a filter selects and that have not ended.
func (v *View) countActive(f Filter) int {
	asked := f.Phases
	f.Phases = slices.DeleteFunc(ares.Phases(), func(p ares.Phase) bool {
		return p.Final() || len(asked) > 0 && !slices.Contains(asked, p)
	})
	if len(f.Phases) == 0 {
		return 0
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	if f.ArrayOf != "" {
		return v.elementsPage(f).Total
	}
	return v.total(f)
}

// ofHistory is the filter in history's words.
func (f *Filter) ofHistory() history.Filter {
	return history.Filter{
		Tenant: f.Tenant, Queue: f.Queue, User: f.User, Phases: f.Phases, Name: f.Name, From: f.From, To: f.To,
		ArrayOf: f.ArrayOf, Before: f.Before, After: f.After, Limit: f.Limit, Within: f.Within,
	}
}
