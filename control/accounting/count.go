package accounting

import (
	"context"
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/history"
)

// A list has a total only if few finished jobs are missing from history. maxUncounted is the maximum number of such
// jobs. If more jobs are missing, the list has no total, because counting would have to ask history about each missing
// job.
const maxUncounted = 1000

// The method `total` returns the number of matching jobs, live or in history, and counts each job once. The result
// `known` is false if counting fails or would require reading all matching jobs.
func (l *Accounting) total(ctx context.Context, f cache.Filter) (n int64, known bool) {
	of := f.OfHistory()
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

// The method `many` returns true if more than maxUncounted finished jobs may be missing from history. Asking history
// about all of them would be too slow. In that case the method asks history about some of these jobs, so that fewer are
// left for later calls.
func (l *Accounting) many(ctx context.Context) bool {
	l.mu.Lock()
	var ids []ares.JobID
	many := len(l.ended) > maxUncounted
	if many {
		for id := range l.ended { // order-free: any subset is enough
			if ids = append(ids, id); len(ids) == maxUncounted {
				break
			}
		}
	}
	l.mu.Unlock()
	if many {
		_ = l.settleThese(ctx, ids) // the next call tries again
	}
	return many
}

// The method `uncounted` counts the matching jobs that history does not have: unfinished jobs, and finished jobs that
// were not written yet. If history has an earlier version of a job, the job is counted in history and is not counted
// here.
func (l *Accounting) uncounted(ctx context.Context, f cache.Filter) (n int64, err error) {
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

// The method `live` counts the matching jobs that have not ended. It also lists the matching jobs that have ended and
// may be missing from history. The count and the list are taken at the same revision. A job that ends in the meantime
// is therefore in exactly one of the two results.
func (l *Accounting) live(f cache.Filter) (active int, ended map[history.Key]bool) {
	active, over := l.View.CountActive(f, func() []ares.JobID {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.Collect(maps.Keys(l.ended))
	})
	ended = map[history.Key]bool{}
	for _, e := range over {
		ended[history.Key{ID: e.Job.ID, Accepted: e.Job.Revision}] = true
	}
	return active, ended
}
