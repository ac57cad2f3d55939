package job

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ares-scheduler/ares"
)

// TestOutOfTimeWhileNoServerIsReached checks that the end of --timeout is told as such, whatever the call in progress
// says at that moment.
func TestOutOfTimeWhileNoServerIsReached(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	refused := ares.Errorf(ares.Unavailable, "connection refused")
	late := fmt.Errorf("%w: %w", ares.Errorf(ares.Unavailable, "the server did not answer in time"), context.DeadlineExceeded)
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		want bool
	}{
		{"refused at the end", over, refused, true},
		{"no answer until the end", over, late, true},
		{"between two calls", over, errors.Join(context.DeadlineExceeded), true},
		{"an answer at the end", over, ares.Errorf(ares.NotFound, "there is no such job"), false},
		{"success at the end", over, nil, false},
		{"refused before the end", t.Context(), refused, false},
		{"one call was too slow", t.Context(), late, false},
		{"Ctrl-C", stopped, errors.Join(context.Canceled), false},
	} {
		if got := ranOut(c.ctx, c.err); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
