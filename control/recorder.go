package control

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/store"
)

// Recorder remembers jobs that ended. Soon after its end it puts a job into
// history, and later moves it out of the live store: it writes a line to an
// append-only archive and leaves a tombstone, so that a late repetition of the
// request still finds its job. A job that history has not taken stays live, so an
// outage of the database loses nothing. It runs on the leader; nothing waits for
// it.
type Recorder struct {
	Store   *store.Store
	View    *View
	Archive *Journal
	Now     func() time.Time
	Log     *slog.Logger
	// Ledger has the history to write to; nil writes none.
	Ledger *Ledger
	// Retention is how long history keeps a job after its end; 0 keeps it.
	Retention time.Duration
	// Wrote is told how many jobs were put into history at once, or why none were.
	// May be nil.
	Wrote func(jobs int, err error)
	// Fold adds what a job has used to what the archived jobs of its queue have;
	// nil counts nothing.
	Fold func(id ares.JobID, before ares.Usage, at time.Time) ares.Usage
	// ArchiveAfter is how long a finished job stays live. Default 24 h.
	ArchiveAfter time.Duration
	// RememberFor is how long a request is remembered after its job's end.
	// Default 7 days.
	RememberFor time.Duration
	// Every is how often it looks for jobs to archive. Default one minute.
	Every time.Duration
	// RecordEvery is how often it puts jobs into history. Default one second.
	RecordEvery time.Duration

	owned   bool         // history is known to be this store's
	backlog atomic.Int64 // jobs that ended and are not in history
	oldest  atomic.Int64 // when the first of them ended, in seconds; 0 for none
}

// archivedJob is one line of the archive.
type archivedJob struct {
	Job ares.Job `json:"job"`
	Run ares.Run `json:"run"`
}

// Run archives until ctx ends.
func (r *Recorder) Run(ctx context.Context, lead *store.Leadership) error {
	defer r.tell(nil) // whoever leads next tells
	lastArchive, lastForget := time.Time{}, time.Time{}
	rest := cmp.Or(r.Every, time.Minute)
	if r.Ledger != nil {
		rest = cmp.Or(r.RecordEvery, time.Second)
	}
	for wait := rest; ; {
		wait = r.record(ctx, rest, wait)
		if time.Since(lastArchive) >= cmp.Or(r.Every, time.Minute) {
			lastArchive = time.Now()
			r.warn(ctx, "archive finished jobs", r.archive(ctx, lead))
			r.warn(ctx, "show tenants in history", r.tenants(ctx))
		}
		if time.Since(lastForget) > time.Hour {
			lastForget = time.Now()
			n, err := r.Store.Forget(ctx, r.Now().Add(-cmp.Or(r.RememberFor, 7*24*time.Hour)), lead)
			if r.warn(ctx, "forget old requests", err); n > 0 {
				r.Log.Info("forgot old requests", "count", n)
			}
			r.warn(ctx, "remove old jobs from history", r.prune(ctx))
		}
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}

func (r *Recorder) warn(ctx context.Context, doing string, err error) {
	if err != nil && ctx.Err() == nil {
		r.Log.Warn(doing, "error", err)
	}
}

// archive moves what has been finished for long enough. The archive is written
// first: a crash in between repeats a line, it never loses one.
func (r *Recorder) archive(ctx context.Context, lead *store.Leadership) error {
	before := r.Now().Add(-cmp.Or(r.ArchiveAfter, 24*time.Hour))
	finished := []ares.Phase{ares.Succeeded, ares.Failed, ares.Cancelled, ares.Lost}
	for _, e := range r.View.Jobs(Filter{Phases: finished, Elements: true}).Entries {
		if e.Run.FinishedAt.After(before) || !e.Run.Free() || r.unrecorded(e) {
			continue
		}
		if e.Job.ArrayOf != "" && r.View.Job(e.Job.ArrayOf) != nil {
			continue // goes with its array
		}
		if err := r.archiveOne(ctx, e, lead); err != nil && ares.CodeOf(err) != ares.Conflict {
			return fmt.Errorf("archive %s: %w", e.Job.ID, err)
		}
	}
	return nil
}

// archiveOne moves one job, an array after all its elements. A job that others
// wait for stays, which is a conflict like any other.
func (r *Recorder) archiveOne(ctx context.Context, e *Entry, lead *store.Leadership) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	awaited, revision := r.View.Awaited(e.Job.ID)
	if awaited {
		return ares.Errorf(ares.Conflict, "jobs are to come after %s", e.Job.ID)
	}
	var elements []*Entry
	if e.Job.IsArray() {
		elements = r.View.Jobs(Filter{ArrayOf: e.Job.ID}).Entries
	}
	for _, el := range elements {
		if awaited, _ := r.View.Awaited(el.Job.ID); awaited || !el.Run.Phase.Final() || !el.Run.Free() || r.unrecorded(el) {
			return ares.Errorf(ares.Conflict, "element %d of %s is still needed", el.Job.ArrayIndex, e.Job.ID)
		}
	}
	// The array's line comes before those of its elements: a restore that finds
	// one of them ended then knows that the whole has.
	if err := r.Archive.Append(archivedJob{history.Forgetful(e.Job), e.Run}); err != nil {
		return err
	}
	for _, el := range elements {
		if err := r.archiveOne(ctx, el, lead); err != nil {
			return err
		}
	}
	usage, err := r.used(ctx, e.Job)
	if err != nil {
		return err
	}
	return r.Store.ArchiveUsed(ctx, e.Job, &e.Run, usage, lead, revision)
}

// used is what the queue's archived jobs have used with this one among them,
// nil when it used nothing.
func (r *Recorder) used(ctx context.Context, j *ares.Job) (*ares.Usage, error) {
	if r.Fold == nil {
		return nil, nil
	}
	before, err := r.Store.Usage(ctx, j.Tenant, j.Queue)
	if err != nil {
		return nil, err
	}
	after := r.Fold(j.ID, before, r.Now())
	if after == before {
		return nil, nil
	}
	return &after, nil
}
