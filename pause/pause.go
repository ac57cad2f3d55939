package pause

import (
	"context"
	"time"
)

// For is the function that waits for the duration d. If ctx ends first, the
// function returns false.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
