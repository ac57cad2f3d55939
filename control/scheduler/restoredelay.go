package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
)

// RestoreDelay makes a leader wait after a restore. Processes that started after the backup may still run, and the
// restored store has no record of them. While they may run, the leader makes no decisions. Each leader waits for the
// whole delay by its own clock. It cannot know how much of the delay has passed on other servers.
type RestoreDelay struct {
	Store *store.Store
	Log   *slog.Logger

	until atomic.Pointer[time.Time]
}

// Wait returns as soon as the leader may make decisions. Wait returns an error if the leader's term
// ends before that.
func (h *RestoreDelay) Wait(ctx context.Context, lead *store.Leadership) error {
	began := time.Now()
	defer h.until.Store(nil)
	for {
		note, err := h.Store.Hold(ctx)
		if err == nil {
			if note == nil {
				return nil
			}
			err = h.sitOut(ctx, lead, note, began)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil, ares.CodeOf(err) == ares.Fenced:
			return err
		}
		h.Log.Warn("wait after a restore", "error", err)
		if !pause.For(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func (h *RestoreDelay) sitOut(ctx context.Context, lead *store.Leadership, note *store.Hold, began time.Time) error {
	until := began.Add(note.For) // keeps the monotonic clock reading
	if h.until.Swap(&until) == nil {
		h.Log.Warn("the store was restored from a backup: nothing is placed for a while", "for", note.For, "backup_revision", note.Snapshot)
	}
	if !pause.For(ctx, time.Until(until)) {
		return ctx.Err()
	}
	if err := h.Store.EndHold(ctx, lead, note); err != nil {
		return err
	}
	h.Log.Info("the wait after the restore is over")
	return nil
}

// Alert says for how much longer no job will be placed. Alert returns "" if no delay is in effect or another server is
// the leader.
func (h *RestoreDelay) Alert() string {
	until := h.until.Load()
	if until == nil {
		return ""
	}
	return fmt.Sprintf("the store was restored from a backup: nothing is placed for another %s, until no process that the backup does not know can still run", max(time.Until(*until), 0).Round(time.Second))
}
