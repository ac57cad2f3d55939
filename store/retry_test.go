package store_test

import (
	"errors"
	"testing"

	"github.com/ares-scheduler/ares/store"
)

// TestRetryRepeatsConflictsOnly checks how often Retry calls a step. The test also checks that,
// after the last conflict, Retry returns the error inside the Conflict.
func TestRetryRepeatsConflictsOnly(t *testing.T) {
	t.Parallel()
	tooFast, other := errors.New("too fast"), errors.New("other")
	for _, c := range []struct {
		name  string
		steps []error // results of the calls; the last one repeats forever
		want  error
		calls int
	}{
		{"success", []error{nil}, nil, 1},
		{"another error", []error{other}, other, 1},
		{"a conflict, then success", []error{store.Conflict{Err: tooFast}, nil}, nil, 2},
		{"conflicts for ever", []error{store.Conflict{Err: tooFast}}, tooFast, 3},
	} {
		calls := 0
		got, err := store.Retry(3, func() (int, error) {
			step := c.steps[min(calls, len(c.steps)-1)]
			calls++
			return calls, step
		})
		if !errors.Is(err, c.want) || calls != c.calls || got != calls {
			t.Errorf("%s: %d and %v after %d calls, want %v after %d", c.name, got, err, calls, c.want, c.calls)
		}
		if _, marked := errors.AsType[store.Conflict](err); marked {
			t.Errorf("%s: the caller sees the mark of a conflict", c.name)
		}
	}
}
