package sim

import (
	"strings"
	"testing"
	"time"
)

// This function simulates a trace in the Philly format on one machine with four GPUs.
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

// For each job, this function returns the time of its first placement and the time of its end, in seconds.
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

// TestOrdersByHand simulates three jobs under each policy. The jobs request three, four and one GPU
// of a machine with four GPUs. The expected times were computed by hand.
func TestOrdersByHand(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string][][2]int{
		"fifo":          {{0, 100}, {100, 150}, {150, 180}},
		"fifo-backfill": {{0, 100}, {100, 150}, {20, 50}},
		"easy":          {{0, 100}, {100, 150}, {20, 50}}, // the third job is done before the second can start
		"sjf":           {{0, 100}, {100, 150}, {20, 50}}, // the third job comes before the second
		"qssf":          {{0, 100}, {100, 150}, {20, 50}},
		// The second job has less runtime left and preempts the first at 10 s. The third job preempts the second at 20
		// s, and the first job then fits beside the third. At 50 s the second job resumes for its remaining forty
		// seconds.
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

// TestEasyKeepsReservation checks when a job must wait. It must wait if it would still be running when the first job in
// the queue can start.
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

// TestPreemptionCost checks that a preempted job holds its devices until its checkpoint is written. The job must resume
// from the checkpoint, and the cost must be counted.
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
	// The first job started immediately, but its completion time is 55 s longer than its runtime.
	// The second job waited for 5 s.
	if got := r.GPUsNamed("2-4"); got.Wait.Max != 5 || got.Delay.Max != 55 || got.Delay.P50 != 5 || got.Preempted != 1 || got.Lost != 15 || r.GPUsNamed("1") != nil {
		t.Errorf("%+v", got)
	}
}

// In TestTiresiasByHand, the first job uses four GPUs. After 20 seconds it must drop to the second
// priority level, even though no event occurs. A job of the first level must then preempt it.
// Later both jobs are on the second level, and neither preempts the other.
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

// In TestFreedSeatsAreKept, a job preempts two victims. The first victim frees its seats while the second still writes
// its checkpoint. These seats must not be given to another job. The test also checks that a short job preempts only one
// job, however many jobs are waiting.
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
