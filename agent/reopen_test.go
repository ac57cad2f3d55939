package agent

import (
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
)

// TestASessionIsReopenedWhileJobsLive checks how long the agent waits for a server that opens a session, and before it asks again. A node
// whose jobs would be ended soon asks more often.
func TestASessionIsReopenedWhileJobsLive(t *testing.T) {
	now := run.Now()
	for _, c := range []struct {
		name      string
		lostAfter int32         // of its only job, 0 without a job
		silent    time.Duration // since the last renewal
		timeout   time.Duration
		soon      bool // whether it asks again within half a second
	}{
		{"no job", 0, 6 * time.Second, 5 * time.Second, false},
		{"a patient job", 900, 6 * time.Second, 5 * time.Second, true},
		{"just renewed", 25, 2500 * time.Millisecond, 5 * time.Second, true}, // of the 10 s that are left
		{"in the middle", 25, 6500 * time.Millisecond, 3 * time.Second, true},
		{"nearly too late", 25, 12 * time.Second, time.Second, true},
		{"too late", 25, 13 * time.Second, 5 * time.Second, false},
	} {
		a := &Agent{seats: map[run.Key]*seat{}}
		if c.lostAfter > 0 {
			a.seats[run.Key{}] = &seat{order: &apipb.SeatOrder{LostAfterSeconds: c.lostAfter}}
		}
		a.renewed.Store(int64(now.Add(-c.silent)))
		if got := a.openTimeout(now); got != c.timeout {
			t.Errorf("%s: a server has %s to open a session, want %s", c.name, got, c.timeout)
		}
		for range 100 {
			if got := a.retryDelay(); got < 200*time.Millisecond || got > 1500*time.Millisecond || got <= 500*time.Millisecond != c.soon {
				t.Errorf("%s: it asks again after %s", c.name, got)
				break
			}
		}
	}
}
