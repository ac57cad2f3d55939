package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/history"
)

const (
	// recordAtOnce is how many jobs go into history in one transaction.
	recordAtOnce = 200
	// recordWithin bounds one transaction.
	recordWithin = 30 * time.Second
	// recordRest is the longest rest while history does not answer.
	recordRest = 15 * time.Second
	// settledAfter is how long a job whose seats are not released yet waits: each
	// change of its run after it was written is a second writing.
	settledAfter = 30 * time.Second
)

// Backlog is how many jobs have ended and are not in history, and for how long
// the first of them waits; none on a server that does not lead.
func (r *Recorder) Backlog() (jobs int64, lag time.Duration) {
	if at := r.oldest.Load(); at != 0 {
		lag = max(r.Now().Sub(time.Unix(at, 0)), 0)
	}
	return r.backlog.Load(), lag
}

func (r *Recorder) tell(waiting []*Entry) {
	oldest := int64(0)
	for _, e := range waiting {
		if at := e.Run.FinishedAt.Unix(); oldest == 0 || at < oldest {
			oldest = at
		}
	}
	r.backlog.Store(int64(len(waiting)))
	r.oldest.Store(oldest)
}

// unrecorded says whether a job must stay live until history has it.
func (r *Recorder) unrecorded(e *Entry) bool { return r.Ledger != nil && r.Ledger.unrecorded(e.Job.ID) }

// record puts what ended into history and returns how long to rest: longer
// after each failure, so that a database that comes back is not in the way of
// itself.
func (r *Recorder) record(ctx context.Context, rest, last time.Duration) time.Duration {
	if r.Ledger == nil {
		return rest
	}
	waiting := r.Ledger.backlog()
	r.tell(waiting)
	due := slices.DeleteFunc(slices.Clone(waiting), func(e *Entry) bool {
		return !e.Run.Free() && r.Now().Sub(e.Run.FinishedAt) < settledAfter
	})
	if len(due) == 0 {
		return rest
	}
	if err := r.recordAll(ctx, due); err != nil {
		r.warn(ctx, "put finished jobs into history; they stay live until it takes them", err)
		return min(2*last, recordRest)
	}
	r.tell(r.Ledger.backlog())
	return rest
}

func (r *Recorder) recordAll(ctx context.Context, due []*Entry) error {
	if !r.owned {
		id, _, err := r.Store.Identity(ctx)
		if err != nil {
			return err
		}
		if err = r.wrote(0, r.Ledger.History.Owner(ctx, id.Store)); err != nil {
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

// put writes some jobs. What keeps them from being written together may be one
// of them: then the others go by themselves.
func (r *Recorder) put(ctx context.Context, part []*Entry) error {
	err := r.putTogether(ctx, part)
	if err == nil || ctx.Err() != nil || r.Ledger.History.Ready(ctx) != nil {
		return err
	}
	var bad error
	for _, e := range part {
		if err := r.putTogether(ctx, []*Entry{e}); err != nil {
			bad = fmt.Errorf("job %s: %w", e.Job.ID, err)
			r.warn(ctx, "a job cannot be put into history; it stays live", bad)
		}
	}
	return bad
}

func (r *Recorder) putTogether(ctx context.Context, part []*Entry) error {
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	kinds := r.View.Kinds()
	jobs := make([]history.Finished, len(part))
	for i, e := range part {
		jobs[i] = history.Finished{Job: e.Job, Run: &e.Run, Kinds: kinds}
	}
	n, err := r.Ledger.History.Put(ctx, jobs)
	if r.wrote(n, err) != nil {
		return err
	}
	for _, e := range part {
		r.Ledger.recorded(e.Job.ID, e.Run.Revision)
	}
	return nil
}

func (r *Recorder) wrote(jobs int, err error) error {
	if r.Wrote != nil && (jobs > 0 || err != nil) {
		r.Wrote(jobs, err)
	}
	return err
}

// tenants shows in history what tenants hold now.
func (r *Recorder) tenants(ctx context.Context) error {
	if r.Ledger == nil {
		return nil
	}
	var all []history.TenantUse
	for _, t := range r.View.Tenants() {
		use, waiting := r.View.Use(t.ID)
		all = append(all, history.TenantUse{Tenant: t, Use: use, Waiting: waiting})
	}
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	return r.Ledger.History.PutTenants(ctx, all, r.Now())
}

// prune removes from history what is older than it is to be, once history has
// all of that: then it cannot come again.
func (r *Recorder) prune(ctx context.Context) error {
	before := r.Now().Add(-r.Retention)
	if r.Ledger == nil || r.Retention <= 0 ||
		slices.ContainsFunc(r.Ledger.backlog(), func(e *Entry) bool { return e.Run.FinishedAt.Before(before) }) {
		return nil
	}
	n, err := r.Ledger.History.Prune(ctx, before)
	if n > 0 {
		r.Log.Info("removed old jobs from history", "count", n)
	}
	return err
}
