package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// Recorder moves finished jobs out of the live store: it writes each whole to
// an append-only archive and leaves a tombstone, so that a late repetition of
// the request still finds its job. It runs on the leader.
type Recorder struct {
	Store   *store.Store
	View    *View
	Archive *Journal
	Now     func() time.Time
	Log     *slog.Logger
	// Fold adds what a job has used to what the archived jobs of its queue have;
	// nil counts nothing.
	Fold func(id ares.JobID, before ares.Usage, at time.Time) ares.Usage
	// ArchiveAfter is how long a finished job stays live. Default 24 h.
	ArchiveAfter time.Duration
	// RememberFor is how long a request is remembered after its job's end.
	// Default 7 days.
	RememberFor time.Duration
	// Every is how often it looks. Default one minute.
	Every time.Duration
}

// archivedJob is one line of the archive.
type archivedJob struct {
	Job ares.Job `json:"job"`
	Run ares.Run `json:"run"`
}

// Run archives until ctx ends.
func (r *Recorder) Run(ctx context.Context, lead *store.Leadership) error {
	lastForget := time.Time{}
	for {
		if err := r.archive(ctx, lead); err != nil && !errors.Is(err, context.Canceled) {
			r.Log.Warn("archive finished jobs", "error", err)
		}
		if time.Since(lastForget) > time.Hour {
			lastForget = time.Now()
			n, err := r.Store.Forget(ctx, r.Now().Add(-cmp.Or(r.RememberFor, 7*24*time.Hour)), lead)
			if err != nil && !errors.Is(err, context.Canceled) {
				r.Log.Warn("forget old requests", "error", err)
			} else if n > 0 {
				r.Log.Info("forgot old requests", "count", n)
			}
		}
		if !pause(ctx, cmp.Or(r.Every, time.Minute)) {
			return ctx.Err()
		}
	}
}

// archive moves what has been finished for long enough. The archive is written
// first: a crash in between repeats a line, it never loses one.
func (r *Recorder) archive(ctx context.Context, lead *store.Leadership) error {
	before := r.Now().Add(-cmp.Or(r.ArchiveAfter, 24*time.Hour))
	finished := []ares.Phase{ares.Succeeded, ares.Failed, ares.Cancelled, ares.Lost}
	for _, e := range r.View.Jobs(Filter{Phases: finished, Elements: true}).Entries {
		if e.Run.FinishedAt.After(before) || !e.Run.Free() {
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
		if awaited, _ := r.View.Awaited(el.Job.ID); awaited || !el.Run.Phase.Final() || !el.Run.Free() {
			return ares.Errorf(ares.Conflict, "element %d of %s is still needed", el.Job.ArrayIndex, e.Job.ID)
		}
	}
	// The array's line comes before those of its elements: a restore that finds
	// one of them ended then knows that the whole has.
	if err := r.Archive.Append(archivedJob{*e.Job, e.Run}); err != nil {
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
