package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/history"
)

const (
	// recordAtOnce is the number of jobs in one history transaction.
	recordAtOnce = 200
	// recordWithin is the timeout of one history transaction.
	recordWithin = 30 * time.Second
	// recordRest is the longest pause while history is unavailable.
	recordRest = 15 * time.Second
	// settledAfter is a delay for finished jobs whose seats are not all free. Such a job is copied to history only
	// after this delay, because every later change of its run would have to be written again.
	settledAfter = 30 * time.Second
)

// Backlog returns the number of finished jobs that are not in history, and the age of the oldest such job. Backlog
// returns 0 on a server that is not the leader.
func (r *Archiver) Backlog() (jobs int64, lag time.Duration) {
	if at := r.oldest.Load(); at != 0 {
		lag = max(r.Now().Sub(time.Unix(at, 0)), 0)
	}
	return r.backlog.Load(), lag
}

func (r *Archiver) tell(waiting []*cache.Entry) {
	oldest := int64(0)
	for _, e := range waiting {
		if at := e.Run.FinishedAt.Unix(); oldest == 0 || at < oldest {
			oldest = at
		}
	}
	r.backlog.Store(int64(len(waiting)))
	r.oldest.Store(oldest)
}

// The method `unrecorded` reports whether a job must stay live because history does not have it.
func (r *Archiver) unrecorded(e *cache.Entry) bool {
	return r.Accounting != nil && r.Accounting.IsUnrecorded(e.Job.ID)
}

// The method `record` copies finished jobs to history and returns how long to wait before the next call. After
// each failure the pause is longer, so that a recovering database is not overloaded.
func (r *Archiver) record(ctx context.Context, rest, last time.Duration) time.Duration {
	if r.Accounting == nil {
		return rest
	}
	waiting := r.Accounting.Backlog()
	r.tell(waiting)
	due := slices.DeleteFunc(slices.Clone(waiting), func(e *cache.Entry) bool {
		return !e.Run.Free() && r.Now().Sub(e.Run.FinishedAt) < settledAfter
	})
	if len(due) == 0 {
		return rest
	}
	if err := r.recordAll(ctx, due); err != nil {
		r.warn(ctx, "write finished jobs to history; they stay live until that succeeds", err)
		return min(2*last, recordRest)
	}
	r.tell(r.Accounting.Backlog())
	return rest
}

func (r *Archiver) recordAll(ctx context.Context, due []*cache.Entry) error {
	if !r.owned {
		id, _, err := r.Store.Identity(ctx)
		if err != nil {
			return err
		}
		if err = r.wrote(0, r.Accounting.History.CheckOwner(ctx, id.Store)); err != nil {
			return err
		}
		r.owned = true
	}
	for part := range slices.Chunk(due, recordAtOnce) {
		if err := r.put(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// The method `put` writes some jobs to history. If the transaction fails although history is ready, one job may be
// the cause, so each job is then written separately.
func (r *Archiver) put(ctx context.Context, part []*cache.Entry) error {
	err := r.putTogether(ctx, part)
	if err == nil || ctx.Err() != nil || r.Accounting.History.Ready(ctx) != nil {
		return err
	}
	var bad error
	for _, e := range part {
		if err := r.putTogether(ctx, []*cache.Entry{e}); err != nil {
			bad = fmt.Errorf("job %s: %w", e.Job.ID, err)
			r.warn(ctx, "write a job to history; it stays live", bad)
		}
	}
	return bad
}

func (r *Archiver) putTogether(ctx context.Context, part []*cache.Entry) error {
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	kinds := r.View.Kinds()
	jobs := make([]history.Finished, len(part))
	for i, e := range part {
		jobs[i] = history.Finished{Job: e.Job, Run: &e.Run, Kinds: kinds}
	}
	n, err := r.Accounting.History.Put(ctx, jobs)
	if r.wrote(n, err) != nil {
		return err
	}
	for _, e := range part {
		r.Accounting.MarkRecorded(e.Job.ID, e.Run.Revision)
	}
	return nil
}

func (r *Archiver) wrote(jobs int, err error) error {
	if r.Wrote != nil && (jobs > 0 || err != nil) {
		r.Wrote(jobs, err)
	}
	return err
}

// closeMonths stores the bills of months that can be closed.
func (r *Archiver) closeMonths(ctx context.Context) error {
	if r.Accounting == nil {
		return nil
	}
	closed, err := r.Accounting.CloseMonths(ctx, r.Currency)
	for _, month := range closed {
		r.Log.Info("closed the bill of a month", "month", month)
	}
	return err
}

// The method `prune` removes from history all jobs that are older than the retention time. It does nothing while a
// finished job of that age is not in history yet. That job would otherwise be written after the pruning.
func (r *Archiver) prune(ctx context.Context) error {
	before := r.Now().Add(-r.Retention)
	if r.Accounting == nil || r.Retention <= 0 ||
		slices.ContainsFunc(r.Accounting.Backlog(), func(e *cache.Entry) bool { return e.Run.FinishedAt.Before(before) }) {
		return nil
	}
	n, err := r.Accounting.History.Prune(ctx, before)
	if n > 0 {
		r.Log.Info("removed old jobs from history", "count", n)
	}
	return err
}
