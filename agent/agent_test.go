package agent

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
)

// TestNothingIsSpawnedLate checks that no seat is claimed or started too long after the last renewal (rules R4 and R6). A seat may be
// claimed and started only until half of its lost_after has passed. The time counts from the moment at which the last acknowledged
// renewal was sent. Before the first renewal, no seat may be claimed or started.
func TestNothingIsSpawnedLate(t *testing.T) {
	const patience = time.Hour
	for _, c := range []struct {
		sent time.Duration // how long ago the renewal was sent
		want bool
	}{{time.Second, true}, {patience/2 - time.Minute, true}, {patience/2 + time.Second, false}, {patience, false}} {
		if got := isFresh(run.Now().Add(-c.sent), patience); got != c.want {
			t.Errorf("the last renewal was sent %s ago: fresh is %v", c.sent, got)
		}
	}
	// Without a renewal, isFresh must return false even just after a boot, when the machine's clock starts at zero.
	if isFresh(0, 100*365*24*time.Hour) {
		t.Error("no renewal was ever acknowledged, yet it is fresh")
	}
}

// TestRenewalsGoByTheLeastPatience opens a session with a TTL of one minute. The session must be renewed more often if a job on the node
// has a short lost_after.
func TestRenewalsGoByTheLeastPatience(t *testing.T) {
	held := func(seconds ...int32) *Agent {
		a := &Agent{seats: map[run.Key]*seat{}}
		for i, n := range seconds {
			s := &seat{}
			if n > 0 {
				s.order = &apipb.SeatOrder{LostAfterSeconds: n}
			}
			a.seats[run.Key{Rank: i}] = s
		}
		return a
	}
	for _, c := range []struct {
		held []int32 // lost_after of each seat, 0 while it is unknown
		ttl  int
		want time.Duration
	}{
		{nil, 60, 7500 * time.Millisecond},
		{nil, 20, 2500 * time.Millisecond},
		{[]int32{900, 30}, 60, 3750 * time.Millisecond},
		{[]int32{30}, 20, 2500 * time.Millisecond},
		{[]int32{900}, 60, 7500 * time.Millisecond},
		{[]int32{25}, 20, 2500 * time.Millisecond}, // the defaults
		{[]int32{12}, 12, 1500 * time.Millisecond},
		{[]int32{900, 0}, 60, 1250 * time.Millisecond},
	} {
		if got := held(c.held...).renewEvery(time.Duration(c.ttl) * time.Second); got != c.want {
			t.Errorf("held %v under a TTL of %d s: every %s, want %s", c.held, c.ttl, got, c.want)
		}
	}
}

// TestANodeThatCannotStartJobsSaysSo checks that a node reports itself as unfit after several consecutive failed starts.
func TestANodeThatCannotStartJobsSaysSo(t *testing.T) {
	a := &Agent{log: slog.New(slog.DiscardHandler)}
	for i := range maxFailures {
		if a.node.Unfit != "" || a.untold {
			t.Fatalf("unfit after %d failures", i)
		}
		a.startFailed("disk full")
	}
	if a.node.Unfit != "disk full" || !a.untold {
		t.Errorf("after %d failures it is unfit for %q, to be told: %v", maxFailures, a.node.Unfit, a.untold)
	}
}
