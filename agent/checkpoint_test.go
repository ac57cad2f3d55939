package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// The function `stopped` returns an order that stops a claimed seat because of a preemption.
func stopped(o *apipb.SeatOrder, grace int32) *apipb.SeatOrder {
	o = proto.CloneOf(o)
	o.State, o.Stop, o.StopGraceSeconds = string(ares.SeatClaimed), string(ares.StopPreempt), grace
	return o
}

// TestCheckpointsAreToldNowAndThen runs a job that saves its progress constantly, and once more when it is preempted. The first checkpoint
// must be reported immediately, and the next ones only after checkpointEvery has passed. The last checkpoint must always be reported
// before the job's end.
func TestCheckpointsAreToldNowAndThen(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	o := seatOf(100, ares.SeatPlaced, time.Hour,
		`trap 'touch "$ARES_CHECKPOINT_FILE"; exit 0' TERM; while :; do touch "$ARES_CHECKPOINT_FILE"; sleep 0.01; done`)
	d.order(o)
	eventually(t, "the first checkpoint", func() bool { return len(d.said("checkpoint")) > 0 })
	first := time.Now()
	// Wait until the agent has checked the checkpoint file two more times.
	eventually(t, "time to pass", func() bool { return time.Since(first) > 4500*time.Millisecond })
	more := func() int { return int(time.Since(first) / checkpointEvery) } // zero, unless the machine stalls
	if got := len(d.said("checkpoint")); got > 1+more() {
		t.Errorf("told %d times in %v, want once", got, time.Since(first))
	}
	d.order(stopped(o, 30))
	eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
	got := d.said("checkpoint", "finish")
	n := len(got) - 1
	if n < 2 || n > 2+more() || got[n-1].verb != "checkpoint" || got[n].verb != "finish" || got[n].outcome != string(ares.OutcomeStopped) {
		t.Fatalf("told %+v", got)
	}
	for _, c := range got[:n] {
		if c.fence != 100 || c.age > 10_000 { // the file is checked every two seconds
			t.Errorf("a checkpoint of a moment ago was told as %+v", c)
		}
	}
	if h.says("a checkpoint report was rejected") {
		t.Error("refused")
	}
}

// TestAPreemptedSeatHasItsGrace checks that a preempted job first gets SIGTERM, and gets SIGKILL only after its grace period.
func TestAPreemptedSeatHasItsGrace(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	asked := filepath.Join(h.dir, "asked")
	o := seatOf(100, ares.SeatPlaced, time.Hour, `trap 'touch "$ARES_CHECKPOINT_FILE" `+asked+`' TERM; echo $$ > `+asked+`.pid; while :; do sleep 0.01; done`)
	d.order(o)
	pid := pidIn(t, asked+".pid")
	at := time.Now()
	d.order(stopped(o, 5))
	eventually(t, "SIGTERM", func() bool { _, err := os.Stat(asked); return err == nil })
	if !lives(pid) {
		t.Error("killed with its grace unused")
	}
	eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
	if took := time.Since(at); took < 5*time.Second {
		t.Errorf("killed after %v of a grace of 5s", took)
	}
	if got := d.said("checkpoint", "finish"); len(got) != 2 || got[0].verb != "checkpoint" || got[1].outcome != string(ares.OutcomeStopped) {
		t.Errorf("told %+v", got)
	}
}

// TestARefusedCheckpointHoldsNothingUp lets the server reject a checkpoint because the attempt has ended. The agent must still
// report the end of the seat.
func TestARefusedCheckpointHoldsNothingUp(t *testing.T) {
	d := newDoor(t)
	d.on("checkpoint", func() error { return ares.Errorf(ares.Fenced, "the fencing token 100 is outdated") })
	newHands(t, d, t.TempDir())
	d.order(seatOf(100, ares.SeatPlaced, time.Hour, `touch "$ARES_CHECKPOINT_FILE"`))
	eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
	if got := d.said("checkpoint", "finish"); len(got) != 2 || got[1].verb != "finish" {
		t.Errorf("told %+v", got)
	}
}

// TestRankZeroSpeaksForItsGang checks that only the checkpoint file of rank 0 is reported.
func TestRankZeroSpeaksForItsGang(t *testing.T) {
	d := newDoor(t)
	newHands(t, d, t.TempDir())
	o := seatOf(100, ares.SeatPlaced, time.Hour, `touch "$ARES_CHECKPOINT_FILE"`)
	o.Seat.Rank, o.WorldSize = 1, 2
	d.order(o)
	eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
	if got := d.said("checkpoint"); len(got) != 0 {
		t.Errorf("rank 1 told %+v", got)
	}
}

// TestANextAttemptKnowsOfTheCheckpoint checks that the next attempt finds the time of the last checkpoint in its environment, and what the
// job says about checkpoints.
func TestANextAttemptKnowsOfTheCheckpoint(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	file := filepath.Join(h.dir, "env")
	o := seatOf(100, ares.SeatPlaced, time.Hour, `echo "$ARES_ATTEMPT $ARES_CHECKPOINTED_AT $ARES_CHECKPOINT_PATH $ARES_CHECKPOINT_INTERVAL_MINUTES" > `+file)
	o.Attempt, o.CheckpointedAt = 2, timestamppb.New(time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC))
	o.Spec.Checkpoint = &apipb.Checkpoint{Enabled: true, Path: "/data/run-7", IntervalMinutes: 30}
	d.order(o)
	eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
	b, err := os.ReadFile(file)
	if got := strings.TrimSpace(string(b)); err != nil || got != "2 2030-01-02T12:00:00Z /data/run-7 30" {
		t.Errorf("it sees %q, %v", got, err)
	}
}

// TestACheckpointOfAKilledAgentIsTold runs a job that saves a checkpoint and ends while no agent is running. The checkpoint must still be
// reported.
func TestACheckpointOfAKilledAgentIsTold(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	goOn := filepath.Join(h.dir, "go")
	d.order(seatOf(100, ares.SeatPlaced, time.Hour, `while [ ! -e `+goOn+` ]; do sleep 0.01; done; touch "$ARES_CHECKPOINT_FILE" `+goOn+`.done`))
	eventually(t, "its start", func() bool { return h.says("seat started") })
	h.stop()
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job's end", func() bool { _, err := os.Stat(goOn + ".done"); return err == nil })
	newHands(t, d, h.dir)
	eventually(t, "its release", func() bool { return len(d.said("release")) > 0 })
	if got := d.said("checkpoint", "finish"); len(got) != 2 || got[0].verb != "checkpoint" {
		t.Errorf("told %+v", got)
	}
}
