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

// stopped is the order to stop a claimed seat for another job.
func stopped(o *apipb.SeatOrder, grace int32) *apipb.SeatOrder {
	o = proto.CloneOf(o)
	o.State, o.Stop, o.StopGraceSeconds = string(ares.SeatClaimed), string(ares.StopPreempt), grace
	return o
}

// TestCheckpointsAreToldNowAndThen has a job that saves its progress all the
// time, and once more when it is preempted: the first is told, then nothing for a
// while, and the last one in any case, before its end.
func TestCheckpointsAreToldNowAndThen(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	o := seatOf(100, ares.SeatPlaced, time.Hour,
		`trap 'touch "$ARES_CHECKPOINT_FILE"; exit 0' TERM; while :; do touch "$ARES_CHECKPOINT_FILE"; sleep 0.01; done`)
	d.order(o)
	eventually(t, "the first checkpoint", func() bool { return len(d.said("checkpoint")) > 0 })
	first := time.Now()
	// Two more looks at the file.
	eventually(t, "time to pass", func() bool { return time.Since(first) > 4500*time.Millisecond })
	more := func() int { return int(time.Since(first) / checkpointEvery) } // none, unless the machine stands still
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
		if c.fence != 100 || c.age > 10_000 { // it is looked at every other second
			t.Errorf("a checkpoint of a moment ago was told as %+v", c)
		}
	}
	if h.says("a checkpoint was refused") {
		t.Error("refused")
	}
}

// TestAPreemptedSeatHasItsGrace: SIGTERM, and the kill only when the job's own
// time to save its progress is over.
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

// TestARefusedCheckpointHoldsNothingUp: one of an attempt that is over is
// refused for good, and the seat's end is reported all the same.
func TestARefusedCheckpointHoldsNothingUp(t *testing.T) {
	d := newDoor(t)
	d.on("checkpoint", func() error { return ares.Errorf(ares.Fenced, "fence 100 is not current") })
	newHands(t, d, t.TempDir())
	d.order(seatOf(100, ares.SeatPlaced, time.Hour, `touch "$ARES_CHECKPOINT_FILE"`))
	eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
	if got := d.said("checkpoint", "finish"); len(got) != 2 || got[1].verb != "finish" {
		t.Errorf("told %+v", got)
	}
}

// TestRankZeroSpeaksForItsGang: other ranks' files are their own affair.
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

// TestANextAttemptKnowsOfTheCheckpoint finds it in its environment.
func TestANextAttemptKnowsOfTheCheckpoint(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	file := filepath.Join(h.dir, "env")
	o := seatOf(100, ares.SeatPlaced, time.Hour, `echo "$ARES_ATTEMPT $ARES_CHECKPOINTED_AT $ARES_CHECKPOINT_PATH" > `+file)
	o.Attempt, o.CheckpointedAt = 2, timestamppb.New(time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC))
	o.Spec.Checkpoint = &apipb.Checkpoint{Enabled: true, Path: "/data/run-7"}
	d.order(o)
	eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
	b, err := os.ReadFile(file)
	if got := strings.TrimSpace(string(b)); err != nil || got != "2 2030-01-02T12:00:00Z /data/run-7" {
		t.Errorf("it sees %q, %v", got, err)
	}
}

// TestACheckpointOfAKilledAgentIsTold: the job saved its progress and ended while
// no agent was there.
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
