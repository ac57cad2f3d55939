package agent

import (
	"log/slog"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
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

// TestHealthFollowsTheMachine: a device that falls ill or goes is told, one that
// recovers too, and one in quarantine stays there.
func TestHealthFollowsTheMachine(t *testing.T) {
	well, ill := ares.Device{ID: "a", Healthy: true}, ares.Device{ID: "a", Reason: "ecc"}
	held := ares.Device{ID: "a", Reason: quarantine + "its processes do not let go"}
	for _, c := range []struct {
		name     string
		was, now []ares.Device
		want     []ares.Device // nil: nothing to tell
	}{
		{"as before", []ares.Device{well}, []ares.Device{well}, nil},
		{"falls ill", []ares.Device{well}, []ares.Device{ill}, []ares.Device{ill}},
		{"recovers", []ares.Device{ill}, []ares.Device{well}, []ares.Device{well}},
		{"goes", []ares.Device{well}, nil, []ares.Device{{ID: "a", Reason: "the device is no longer there"}}},
		{"quarantined", []ares.Device{held}, []ares.Device{well}, nil},
	} {
		got := mergeHealth(c.was, c.now)
		if (got == nil) != (c.want == nil) || got != nil && got[0] != c.want[0] {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
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
