package control

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// Hold keeps the first leader after a restore from deciding anything for as
// long as processes may live that the store knows nothing of: those of attempts
// that are younger than the backup. The time is the leader's own and starts anew
// with each, for nobody can tell how much of it has passed elsewhere.
type Hold struct {
	Store *store.Store
	Log   *slog.Logger

	until atomic.Pointer[time.Time]
}

// Wait returns when the leader may decide, or with an error when its term ends.
func (h *Hold) Wait(ctx context.Context, lead *store.Leadership) error {
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
		if !pause(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func (h *Hold) sitOut(ctx context.Context, lead *store.Leadership, note *store.Hold, began time.Time) error {
	until := began.Add(note.For) // with its monotonic reading
	if h.until.Swap(&until) == nil {
		h.Log.Warn("the store was restored from a backup: nothing is placed for a while", "for", note.For, "backup_revision", note.Snapshot)
	}
	if !pause(ctx, time.Until(until)) {
		return ctx.Err()
	}
	if err := h.Store.EndHold(ctx, lead, note); err != nil {
		return err
	}
	h.Log.Info("the wait after the restore is over")
	return nil
}

// Alert says that nothing is placed yet and for how long, "" when that is not
// so or another server leads.
func (h *Hold) Alert() string {
	until := h.until.Load()
	if until == nil {
		return ""
	}
	return fmt.Sprintf("the store was restored from a backup: nothing is placed for another %s, until nothing can live that was started before", max(time.Until(*until), 0).Round(time.Second))
}
