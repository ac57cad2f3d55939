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
	for _, e := range r.View.Jobs(Filter{Phases: finished}).Entries {
		if e.Run.FinishedAt.After(before) || !e.Run.Free() {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.Archive.Append(archivedJob{*e.Job, e.Run}); err != nil {
			return err
		}
		if err := r.Store.Archive(ctx, e.Job, &e.Run, lead); err != nil && ares.CodeOf(err) != ares.Conflict {
			return fmt.Errorf("archive %s: %w", e.Job.ID, err)
		}
	}
	return nil
}
