package agent

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
)

// TestNothingIsSpawnedLate is R4 and R6: a seat may be claimed and spawned only
// within half of its patience since the last acknowledged renewal was sent, and
// not at all before the first.
func TestNothingIsSpawnedLate(t *testing.T) {
	const patience = time.Hour
	for _, c := range []struct {
		sent time.Duration // ago
		want bool
	}{{time.Second, true}, {patience/2 - time.Minute, true}, {patience/2 + time.Second, false}, {patience, false}} {
		if got := fresh(run.Now().Add(-c.sent), patience); got != c.want {
			t.Errorf("the last renewal was sent %s ago: fresh is %v", c.sent, got)
		}
	}
	// However short ago the machine was booted: its clock begins there.
	if fresh(0, 100*365*24*time.Hour) {
		t.Error("no renewal was ever acknowledged, yet it is fresh")
	}
}

// TestRenewalsGoByTheLeastPatience: a session of a minute is renewed as often as
// the jobs that are held need it.
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
		held []int32 // lost_after of each seat, 0 while it is not known
		ttl  int
		want time.Duration
	}{
		{nil, 60, 7500 * time.Millisecond},
		{nil, 20, 2500 * time.Millisecond},
		{[]int32{900, 30}, 60, 3750 * time.Millisecond},
		{[]int32{30}, 20, 2500 * time.Millisecond},
		{[]int32{900}, 60, 7500 * time.Millisecond},
		{[]int32{900, 0}, 60, 2500 * time.Millisecond},
	} {
		if got := held(c.held...).renewEvery(time.Duration(c.ttl) * time.Second); got != c.want {
			t.Errorf("held %v under a TTL of %d s: every %s, want %s", c.held, c.ttl, got, c.want)
		}
	}
}

// TestANodeThatCannotStartJobsSaysSo: after some failures in a row it is unfit,
// so that it does not draw job after job and lose them.
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
