package sim

import (
	"strings"
	"testing"
	"time"
)

// run simulates a philly trace on one machine of four GPUs.
func run(t *testing.T, policy, trace string, change func(*Policy)) *World {
	t.Helper()
	f, err := ReadFleet(strings.NewReader("machines: [{name: m, count: 1, gpus: 4, cpus: 8, memory_mb: 1000}]"))
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := Read("philly", strings.NewReader("timestamp,duration,num_gpus,cluster\n"+trace))
	if err != nil || jobs.Bad > 0 {
		t.Fatal(err, jobs.Problems)
	}
	p, err := PolicyNamed(policy)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&p)
	}
	w := NewWorld(f, p)
	if err := w.Run(jobs, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.state.Check(); err != nil {
		t.Error(err)
	}
	if w.allocated.milli != 0 || w.demandMilli != 0 {
		t.Errorf("at the end %d are held and %d wanted", w.allocated.milli, w.demandMilli)
	}
	return w
}

// times returns when jobs were first placed and ended, in seconds.
func times(w *World) (out [][2]int) {
	for i := range w.jobs {
		out = append(out, [2]int{int(w.jobs[i].placed.Sub(Epoch) / time.Second), int(w.jobs[i].ended.Sub(Epoch) / time.Second)})
	}
	return out
}

const three = `2017-10-09 06:00:00,100,3,a
2017-10-09 06:00:10,50,4,a
2017-10-09 06:00:20,30,1,a
`

// TestOrdersByHand: three jobs that request three, four and one of four GPUs,
// under each policy, as worked out by hand.
func TestOrdersByHand(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string][][2]int{
		"fifo":          {{0, 100}, {100, 150}, {150, 180}},
		"fifo-backfill": {{0, 100}, {100, 150}, {20, 50}},
		"easy":          {{0, 100}, {100, 150}, {20, 50}}, // it is done before the second can begin
		"sjf":           {{0, 100}, {100, 150}, {20, 50}}, // the third comes before the second
		"qssf":          {{0, 100}, {100, 150}, {20, 50}},
		// The second has less left and stops the first at 10, and the third stops
		// the second at 20; then there is room for the first beside it, until the
		// second comes back at 50 for the forty seconds it has left.
		"srtf": {{0, 150}, {10, 90}, {20, 50}},
	} {
		w := run(t, policy, three, nil)
		got := times(w)
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %v, want %v", policy, got, want)
				break
			}
		}
	}
}

// TestEasyKeepsReservation: a job that would still run when the first in the
// queue can start waits for it.
func TestEasyKeepsReservation(t *testing.T) {
	t.Parallel()
	trace := strings.Replace(three, ",30,1", ",300,1", 1)
	if got := times(run(t, "easy", trace, nil)); got[1] != [2]int{100, 150} || got[2] != [2]int{150, 450} {
		t.Errorf("%v", got)
	}
	if got := times(run(t, "fifo-backfill", trace, nil)); got[1] != [2]int{320, 370} || got[2] != [2]int{20, 320} {
		t.Errorf("%v", got)
	}
}

// TestPreemptionCost: a preempted job holds its devices until its checkpoint is
// written and resumes from it, and the cost is counted.
func TestPreemptionCost(t *testing.T) {
	t.Parallel()
	w := run(t, "srtf", `2017-10-09 06:00:00,100,3,a
2017-10-09 06:00:10,50,4,a
`, func(p *Policy) { p.CheckpointSeconds = 5 })
	if got := times(w); got[0] != [2]int{0, 155} || got[1] != [2]int{15, 65} {
		t.Errorf("%v", got)
	}
	r := w.Report()
	if r.Preempted != 1 || r.PreemptedMost != 1 || r.Lost != 15 || w.jobs[0].preemptions != 1 {
		t.Errorf("%d stops, %v GPU-seconds lost", r.Preempted, r.Lost)
	}
	// The first ended 55 s later than its runtime although it never waited to
	// start, and the second waited for 5 s.
	if got := r.GPUsNamed("2-4"); got.Wait.Max != 5 || got.Delay.Max != 55 || got.Delay.P50 != 5 || got.Preempted != 1 || got.Lost != 15 || r.GPUsNamed("1") != nil {
		t.Errorf("%+v", got)
	}
}

// TestTiresiasByHand: the first job leaves the first level after 20 seconds on
// four GPUs, without an event, and is then preempted by a job of the first
// level. Both are on the second level in the end, and neither preempts the
// other.
func TestTiresiasByHand(t *testing.T) {
	t.Parallel()
	w := run(t, "tiresias", `2017-10-09 06:00:00,100,4,a
2017-10-09 06:00:10,50,4,a
`, func(p *Policy) { p.Engine.Queue.Attained = 80 })
	if got := times(w); got[0] != [2]int{0, 150} || got[1] != [2]int{20, 70} {
		t.Errorf("%v", got)
	}
	if r := w.Report(); r.Preempted != 1 || r.Lost != 0 {
		t.Errorf("%d stops, %v GPU-seconds lost", r.Preempted, r.Lost)
	}
}

// TestFreedSeatsAreKept: seats freed by the first of two victims are not given
// to another job while the second still writes its checkpoint, and one short
// job preempts one job, not one for each that waits.
func TestFreedSeatsAreKept(t *testing.T) {
	t.Parallel()
	w := run(t, "srtf", `2017-10-09 06:00:00,1000,2,a
2017-10-09 06:00:00,1000,2,a
2017-10-09 06:00:10,100,4,a
2017-10-09 06:00:11,900,2,a
`, func(p *Policy) { p.CheckpointSeconds = 5 })
	if got := times(w); got[2] != [2]int{15, 115} {
		t.Errorf("the short one: %v", got)
	}
	trace := ""
	for range 12 {
		trace += "2017-10-09 06:00:00,10000,1,a\n"
	}
	w = run(t, "srtf", trace+"2017-10-09 06:00:10,100,1,a\n", func(p *Policy) { p.CheckpointSeconds = 5 })
	stops := 0
	for i := range w.jobs {
		stops += w.jobs[i].preemptions
	}
	if stops != 1 {
		t.Errorf("%d stops for one short job", stops)
	}
	if got := times(w); got[12] != [2]int{15, 115} {
		t.Errorf("the short one: %v", got[12])
	}
}
