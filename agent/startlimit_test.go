package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestStartLimit checks that only so many starts are under way at once, that the next one begins when one has ended, and that starts
// which hang delay the others only for a while.
func TestStartLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(startLimit, 2)
		first, second := l.begin(t.Context()), l.begin(t.Context())
		begun := time.Now()
		go func() {
			<-time.After(100 * time.Millisecond)
			first()
		}()
		third := l.begin(t.Context())
		if waited := time.Since(begun); waited != 100*time.Millisecond {
			t.Errorf("the third start waited %s, want 100ms", waited)
		}
		begun = time.Now()
		l.begin(t.Context())() // both hang
		if waited := time.Since(begun); waited != startPatience {
			t.Errorf("a start waited %s for starts that hang, want %s", waited, startPatience)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		begun = time.Now()
		l.begin(ended)()
		if time.Since(begun) != 0 {
			t.Error("a start waited although the agent stops")
		}
		second()
		third()
		if len(l) != 0 {
			t.Errorf("%d starts are still counted", len(l))
		}
	})
}
