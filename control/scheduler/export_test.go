package scheduler

import (
	"context"
	"time"

	"github.com/ares-scheduler/ares/store"
)

// Turn makes the loop decide once and commit the plan.
func Turn(ctx context.Context, l *Loop, lead *store.Leadership) (time.Time, error) {
	return l.turn(ctx, lead)
}

// Until returns the time at which the current delay ends.
func Until(h *RestoreDelay) *time.Time { return h.until.Load() }
