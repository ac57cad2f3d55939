package agent

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
)

// TestWatcherNeverWaits checks that steps return at once while the configured function is stuck, as if its output were a
// full pipe. The steps that do not fit into the queue are counted, in their place.
func TestWatcherNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		var got []string
		w := newWatcher(func(c Change) {
			<-stuck
			got = append(got, fmt.Sprint(c.Step, " ", c.Job, c.Dropped))
		})
		done := make(chan struct{})
		w.start(done)
		w.tell(Change{Step: StepFound, Job: "first"})
		synctest.Wait() // the first step is being printed
		for i := range watchQueue + 3 {
			w.tell(Change{Step: StepRunning, Job: fmt.Sprint(i, "/")})
		}
		close(stuck)
		synctest.Wait()
		w.tell(Change{Step: StepEnded, Job: "last"})
		close(done)
		w.wait()
		if len(got) != watchQueue+3 || got[0] != "found first0" || got[1] != "running 0/0" {
			t.Errorf("%d steps, beginning with %q", len(got), got[:2])
		}
		if end := []string{fmt.Sprintf("running %d/0", watchQueue-1), "dropped 3", "ended last0"}; !slices.Equal(got[len(got)-3:], end) {
			t.Errorf("got %q, want %q", got[len(got)-3:], end)
		}
	})
}

// TestWatcherStops checks that the agent can stop while the configured function is stuck.
func TestWatcherStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck, done := make(chan struct{}), make(chan struct{})
		w := newWatcher(func(Change) { <-stuck })
		w.start(done)
		w.tell(Change{Step: StepFound})
		close(done)
		w.wait()
		close(stuck)
	})
}

func TestNoWatcher(t *testing.T) {
	w := newWatcher(nil)
	w.start(nil)
	w.tell(Change{Step: StepFound})
	w.wait()
}
