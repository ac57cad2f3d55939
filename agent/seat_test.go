package agent

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
)

// TestNothingIsSpawnedBeforeItsClaim checks that a process is started only once its claim is granted. No process may start while the claim
// is unanswered or after it was rejected.
func TestNothingIsSpawnedBeforeItsClaim(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	ran := filepath.Join(h.dir, "ran")
	d.on("claim", func() error {
		if h.spawned() {
			t.Error("spawned before its claim was answered")
		}
		if len(d.said("claim")) == 1 {
			return ares.Errorf(ares.Fenced, "not you")
		}
		return nil
	})
	d.order(seatOf(100, ares.SeatPlaced, time.Hour, "touch "+ran))
	eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
	if _, err := os.Stat(ran); err != nil {
		t.Error("claimed at last, and it did not run:", err)
	}
	if got := d.said("claim", "finish", "release"); got[2].outcome != string(ares.OutcomeSucceeded) || got[3].verb != "release" {
		t.Errorf("the agent asked %+v", got)
	}
}

// TestAClaimBelongsToItsSession checks that a claim is valid only in the session in which it was granted (rule R5). If the session in
// which a claim was granted has ended, the claim does not allow a start. After the session has changed, the seat must be claimed again or
// reported as lost.
func TestAClaimBelongsToItsSession(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	next := h.session.Load() + 1
	d.on("claim", func() error {
		if len(d.said("claim")) == 1 {
			h.session.Store(next) // simulates a session that was lost and opened again meanwhile
		}
		return nil
	})
	d.on("finish", func() error {
		if got := d.said("claim", "finish"); got[1].verb == "finish" && got[1].outcome != string(ares.OutcomeLost) {
			t.Errorf("spawned by the claim of an ended session: %+v", got)
		}
		return nil
	})
	d.order(seatOf(100, ares.SeatPlaced, time.Hour, "true"))
	eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
}

// TestNothingIsClaimedLate checks that no seat is claimed or started too long after the last renewal (rule R4). A seat is not claimed if
// half of lost_after has passed without a renewal. If half of lost_after passed before the claim was answered, the process is not started.
func TestNothingIsClaimedLate(t *testing.T) {
	d := newDoor(t) // its first renewal comes long after this test has ended
	h := newHands(t, d, t.TempDir())
	renewed := run.BootTime(h.renewed.Load())
	old := func(d time.Duration) func() bool { return func() bool { return run.Now().Sub(renewed) > d } }

	d.on("claim", func() error { eventually(t, "half of two seconds", old(time.Second)); return nil })
	d.order(seatOf(100, ares.SeatPlaced, 2*time.Second, "true"))
	eventually(t, "the claim's answer to be looked at", func() bool { return h.says("seat not started") || h.says("seat started") || h.says("seat ended") })
	if h.spawned() {
		t.Error("spawned after a claim whose answer came too late")
	}
	claims := len(d.said("claim"))
	d.order(seatOf(101, ares.SeatPlaced, 2*time.Second, "true"))
	eventually(t, "the late seat to be refused", func() bool { return h.says("job-x.101.0") })
	if got := len(d.said("claim")); got != claims {
		t.Errorf("claimed late: %d claims, there were %d", got, claims)
	}
}

// TestARenewalCountsFromItsSending checks that a renewal counts from the time at which it was sent, not from its answer. The
// server may have started to count lost_after at any time between the sending of the renewal and its answer.
func TestARenewalCountsFromItsSending(t *testing.T) {
	d := newDoor(t)
	d.ttl = 8
	received := make(chan run.BootTime, 1)
	d.on("renew", func() error {
		now := run.Now()
		eventually(t, "a slow answer", func() bool { return run.Now().Sub(now) > 50*time.Millisecond })
		select {
		case received <- now:
		default:
		}
		return nil
	})
	h := newHands(t, d, t.TempDir())
	first := h.renewed.Load()
	at := <-received
	eventually(t, "the renewal to count", func() bool { return h.renewed.Load() != first })
	if sent := run.BootTime(h.renewed.Load()); sent > at {
		t.Errorf("the renewal counts from %s after it had arrived", sent.Sub(at))
	}
}

// TestAReleasedSeatIsNotReportedAgain checks that a list of seats from before a release does not make the agent report the seat as lost. The
// second seat waits for the device of the first one, so the agent reads the old list once more when the first seat is released.
func TestAReleasedSeatIsNotReportedAgain(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	goOn := filepath.Join(h.dir, "go")
	device := []*apipb.DeviceShare{{DeviceId: h.Node().Devices[0].ID, Milli: 1000}}
	first := seatOf(100, ares.SeatPlaced, time.Hour, "while [ ! -e "+goOn+" ]; do sleep 0.01; done")
	second := seatOf(101, ares.SeatPlaced, time.Hour, "true")
	first.Shares, second.Shares = device, device
	d.order(first)
	eventually(t, "the first seat's start", func() bool { return h.says("seat started") })
	d.order(second)
	eventually(t, "the second seat to wait", func() bool { return h.says("its devices are still in use") })
	d.holdLists()
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both releases", func() bool { return len(d.said("release")) > 1 })
	if got := d.said("finish"); len(got) != 2 || got[0].fence != 100 || got[1].fence != 101 {
		t.Errorf("the ends of two seats were reported as %+v", got)
	}
}

// TestReleasedSeatsAreForgotten checks that the agent does not remember every seat that it has released. Only the last list may have come too
// early to forget its seat.
func TestReleasedSeatsAreForgotten(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	for n := range 3 {
		d.order(seatOf(int64(100+n), ares.SeatPlaced, time.Hour, "true"))
		eventually(t, "its release", func() bool { return len(d.said("release")) > n })
	}
	eventually(t, "released seats to be forgotten", func() bool {
		h.Agent.mu.Lock()
		defer h.Agent.mu.Unlock()
		return len(h.released) <= 1
	})
}

// TestAnOrderToStopOutlivesItsAgent checks that an agent that ends still passes on an order to stop that it has received.
func TestAnOrderToStopOutlivesItsAgent(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	file := filepath.Join(h.dir, "pid")
	d.order(seatOf(100, ares.SeatPlaced, time.Hour, "echo $$ > "+file+"; exec sleep 1000"))
	pid := pidIn(t, file)
	eventually(t, "the agent to know the process", func() bool {
		h.Agent.mu.Lock()
		defer h.Agent.mu.Unlock()
		for _, s := range h.seats { // order-free: there is one
			return s.proc != nil
		}
		return false
	})
	h.Agent.mu.Lock()
	ended, end := context.WithCancel(h.Agent.life)
	end()
	h.Agent.life = ended
	stopped := slices.Collect(maps.Values(h.seats))
	h.Agent.mu.Unlock()
	for _, s := range stopped {
		s.stop("cancel", time.Hour) // without the order, the job would be killed only after the grace period
	}
	eventually(t, "the job's end", func() bool { return !lives(pid) })
}

// TestALostSeatIsReported checks that a seat without its process is reported as lost (rule R1). A claimed seat without a process on this
// node is reported as lost, and only then released.
func TestALostSeatIsReported(t *testing.T) {
	d := newDoor(t)
	d.order(seatOf(100, ares.SeatClaimed, time.Hour, "true"))
	newHands(t, d, t.TempDir())
	eventually(t, "its release", func() bool { return len(d.said("release")) > 0 })
	got := d.said("claim", "finish", "release")
	if got[0].verb != "finish" || got[0].outcome != string(ares.OutcomeLost) {
		t.Errorf("the lost seat was not reported as lost: %+v", got)
	}
}

// TestWhatAnotherAgentLeftIsOutlived checks a seat that was placed before the agent's first session. The seat must not be reported as lost
// before lost_after has passed. Another agent of this node, with another state directory, may have left a process. The supervisor of that
// process may take as long as lost_after to end it.
func TestWhatAnotherAgentLeftIsOutlived(t *testing.T) {
	const lostAfter = time.Second
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	d.on("finish", func() error {
		h.Agent.mu.Lock()
		defer h.Agent.mu.Unlock()
		if waited := run.Now().Sub(h.first.at); waited < lostAfter {
			t.Errorf("reported after %s, while it may still live", waited)
		}
		return nil
	})
	d.order(seatOf(h.session.Load()-1, ares.SeatClaimed, lostAfter, "true"))
	eventually(t, "its release", func() bool { return len(d.said("release")) > 0 })
}

// TestAStoppedSeatIsDeclined checks that a seat that must stop is declined if it was never claimed (rule R9). If a seat must stop before
// it was claimed, the agent declines it and starts no process.
func TestAStoppedSeatIsDeclined(t *testing.T) {
	d := newDoor(t)
	o := seatOf(100, ares.SeatPlaced, time.Hour, "true")
	o.Stop = string(ares.StopCancel)
	d.order(o)
	h := newHands(t, d, t.TempDir())
	eventually(t, "an answer to the stop", func() bool { return len(d.said("claim", "decline", "finish")) > 0 })
	if got := d.said("claim", "decline", "finish"); got[0].verb != "decline" || h.spawned() {
		t.Errorf("a stopped seat that nobody had claimed was answered by %+v", got)
	}
}

// TestACleanReportNamesWhatIsHeld checks the clean report (rule R8) of an agent that was restarted. The agent's clean report must list the
// seats with live processes, even if their attempts have ended.
func TestACleanReportNamesWhatIsHeld(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	d.order(seatOf(100, ares.SeatPlaced, time.Hour, "sleep 1000"))
	eventually(t, "its start", func() bool { return h.says("seat started") })
	h.stop()
	before := len(d.said("clean")) // none, if the agent was stopped that early
	d.order(seatOf(100, ares.SeatClaimed, time.Hour, ""))
	newHands(t, d, h.dir)
	eventually(t, "its clean report", func() bool { return len(d.said("clean")) > before })
	if got := d.said("clean")[before]; !slices.Equal(got.held, []int64{100}) {
		t.Errorf("a process lives, and the clean report names %v as held", got.held)
	}
}

// TestASeatIsReleasedAfterVerifiedDeath kills the supervisor while no agent is running. An orphan of the job then stays alive without any
// deadline. The next agent must release the seat only when the orphan is dead.
func TestASeatIsReleasedAfterVerifiedDeath(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	if !h.node.Contains {
		t.Skip("no cgroup holds jobs here")
	}
	file := filepath.Join(h.dir, "orphan")
	d.order(seatOf(100, ares.SeatPlaced, time.Hour,
		`env -i setsid sh -c "trap '' TERM HUP; (echo \$\$ > `+file+`; exec sleep 1000)" >/dev/null 2>&1 & sleep 1000`))
	orphan := pidIn(t, file)
	eventually(t, "its start", func() bool { return h.says("seat started") })
	h.stop()
	b, err := os.ReadFile(filepath.Join(h.dir, "seats", "seats", "job-x.100.0", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	supervisor, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err = syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the supervisor's death", func() bool { return !lives(supervisor) })
	if !lives(orphan) {
		t.Fatal("the orphan died with its supervisor: the test shows nothing")
	}
	alive := func() error {
		if lives(orphan) {
			t.Error("told of its end while a process of it lives")
		}
		return nil
	}
	d.on("finish", alive)
	d.on("release", alive)
	d.order(seatOf(100, ares.SeatClaimed, time.Hour, ""))
	newHands(t, d, h.dir)
	eventually(t, "its release", func() bool { return len(d.said("release")) > 0 })
	if got := d.said("finish"); got[0].outcome != string(ares.OutcomeLost) {
		t.Errorf("its end was reported as %+v", got)
	}
}

// TestACleanReportSparesWhatMayYetBeClaimed checks which seats a clean report lists. It must also list a seat that waits for its devices,
// and a seat whose claim was just rejected. Both kinds of seats have no process yet, but may get one before the clean report arrives.
func TestACleanReportSparesWhatMayYetBeClaimed(t *testing.T) {
	waiting, over := seatOf(100, ares.SeatPlaced, time.Hour, "true"), seatOf(90, ares.SeatVoided, time.Hour, "true")
	over.Current = false
	a := &Agent{seats: map[run.Key]*seat{{Job: "job-y", Fence: 95}: {}}, orders: []*apipb.SeatOrder{waiting, over}}
	held := a.heldFences()
	if !slices.Equal(held, []int64{95, 100}) {
		t.Errorf("the report spares %v, want 95, which lives, and 100, which may yet", held)
	}
}
