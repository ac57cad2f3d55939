package engine_test

import (
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/enginetest"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// benchState returns a state with waiting jobs and 1,000 nodes. Each node has 8 GPUs. If the argument
// `full` is true, a single job holds all devices.
func benchState(tb testing.TB, full bool, jobs int, spec func(i int) ares.Spec) *engine.State {
	tb.Helper()
	return benchStateOf(tb, 1000, full, min(jobs, rounds.Sized(jobs, 1000)), spec)
}

func benchStateOf(tb testing.TB, nodes int, full bool, jobs int, spec func(i int) ares.Spec) *engine.State {
	tb.Helper()
	events := []ares.Event{tenantEvent("default")}
	holder := ares.NewRun(enginetest.StartTime)
	var seats []ares.Seat
	for i := range nodes {
		n := nodeOf(fmt.Sprintf("node-%04d", i), 8)
		events = append(events, open(n)...)
		seat := ares.Seat{Node: n.ID, Rank: i}
		for _, d := range n.Devices {
			seat.Shares = append(seat.Shares, ares.Share{Device: d.ID, Index: d.Index, Milli: 1000})
		}
		seats = append(seats, seat)
	}
	if full {
		if err := holder.Place(seats, 0, enginetest.StartTime); err != nil {
			tb.Fatal(err)
		}
		events = append(events, ares.Event{Job: job("holder", 1, ares.Spec{Members: nodes, GPUs: 8})},
			ares.Event{Run: &ares.RunEvent{Job: "holder", Run: holder}})
	}
	for i := range jobs {
		events = append(events, ares.Event{Job: job(ares.JobID(fmt.Sprintf("job-%06d", i)), int64(i), spec(i))})
	}
	s := engine.New()
	s.Apply(ares.Batch{Revision: 1, Reset: true, Events: events})
	return s
}

func sameShape(int) ares.Spec { return ares.Spec{GPUs: 1, CPUs: 1} }

// distinctShapes returns a spec that depends on i, so that different jobs request different resources.
func distinctShapes(i int) ares.Spec { return ares.Spec{GPUs: 1 + i%8, CPUs: 1 + i%16, MemoryMB: i} }

func gangs(i int) ares.Spec { return ares.Spec{Members: 2 + i%7, GPUs: 8, MemoryMB: i} }

func decide(b *testing.B, s *engine.State, placed int) {
	b.Helper()
	b.ReportAllocs()
	var plan ares.Plan
	for b.Loop() {
		plan = engine.Decide(s, enginetest.StartTime)
	}
	if len(plan.Place) != placed {
		b.Fatalf("placed %d, want %d", len(plan.Place), placed)
	}
	if err := enginetest.CheckState(s); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, c := range []struct {
		name   string
		full   bool
		jobs   int
		spec   func(int) ares.Spec
		placed int
	}{
		{"nothing pending", false, 0, sameShape, 0},
		{"10k of one shape on a full cluster", true, 10_000, sameShape, 0},
		{"10k distinct on a full cluster", true, 10_000, distinctShapes, 0},
		{"10k gangs on a full cluster", true, 10_000, gangs, 0},
		{"10k of one shape on an empty cluster", false, 10_000, sameShape, config.MaxPlacings},
		{"10k distinct on an empty cluster", false, 10_000, distinctShapes, config.MaxPlacings},
		{"10k labelled for no node", false, 10_000, func(int) ares.Spec {
			return ares.Spec{GPUs: 1, Constraints: &ares.Placement{NodeSelector: map[string]string{"pool": "none"}}}
		}, 0},
		{"10k distinct labelled for no node", false, 10_000, func(i int) ares.Spec {
			return ares.Spec{GPUs: 1, MemoryMB: i, Constraints: &ares.Placement{NodeSelector: map[string]string{"pool": "none"}}}
		}, 0},
		{"one gang of 1000 nodes", false, 1, func(int) ares.Spec { return ares.Spec{Members: 1000, GPUs: 8} }, 1},
	} {
		b.Run(c.name, func(b *testing.B) { decide(b, benchState(b, c.full, c.jobs, c.spec), c.placed) })
	}
}

// BenchmarkDecideWithWindows runs a cycle with 10,000 waiting jobs and some reservations. Each reservation is for one
// node and is either upcoming or open.
func BenchmarkDecideWithWindows(b *testing.B) {
	for _, windows := range []int{0, 1, 16, 256} {
		for _, c := range []struct {
			name   string
			in     time.Duration
			placed int
		}{{"upcoming", time.Hour, 500}, {"open", 0, 500}} {
			b.Run(fmt.Sprintf("%d %s", windows, c.name), func(b *testing.B) {
				s := benchState(b, false, 10_000, distinctShapes)
				var events []ares.Event
				for i := range windows {
					r := &ares.Reservation{
						Name: fmt.Sprint("w", i), From: enginetest.StartTime.Add(c.in), Until: enginetest.StartTime.Add(c.in + time.Hour),
						Nodes: []string{fmt.Sprintf("node-%04d", i)},
					}
					events = append(events, ares.Event{Reservation: r})
				}
				s.Apply(ares.Batch{Revision: 2, Events: events})
				decide(b, s, c.placed)
			})
		}
	}
}

func BenchmarkExplain(b *testing.B) {
	s := benchState(b, true, 10_000, distinctShapes)
	b.ReportAllocs()
	for b.Loop() {
		if r := engine.Explain(s, "job-000007", enginetest.StartTime); len(r.Blockers) == 0 {
			b.Fatal("no blockers")
		}
	}
}

// BenchmarkApplyRun applies the placement and the release of one job while 10,000 jobs wait.
func BenchmarkApplyRun(b *testing.B) {
	s := benchState(b, false, 10_000, sameShape)
	placing, _ := engine.Place(s, job("other", 1, sameShape(0)), enginetest.StartTime)
	placed, freed := ares.NewRun(enginetest.StartTime), ares.NewRun(enginetest.StartTime)
	if err := placed.Place(placing.Seats, 0, enginetest.StartTime); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for rev := int64(2); b.Loop(); rev += 2 {
		s.Apply(ares.Batch{Revision: rev, Events: []ares.Event{{Run: &ares.RunEvent{Job: "job-000500", Run: placed}}}})
		s.Apply(ares.Batch{Revision: rev + 1, Events: []ares.Event{{Run: &ares.RunEvent{Job: "job-000500", Run: freed}}}})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	for b.Loop() {
		benchState(b, true, 100_000, sameShape)
	}
}

// BenchmarkTakeSnapshot measures taking a snapshot. The time for a snapshot matters. Whenever a
// recording begins a new file, the next cycle waits until a snapshot is taken.
func BenchmarkTakeSnapshot(b *testing.B) {
	s := benchState(b, true, 100_000, sameShape)
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Snapshot()
	}
}

// TestScanAllocatesNothing checks that the number of memory allocations in a cycle does not grow with the number of
// nodes.
func TestScanAllocatesNothing(t *testing.T) {
	nowhere := func(int) ares.Spec {
		return ares.Spec{GPUs: 1, Constraints: &ares.Placement{NodeSelector: map[string]string{"pool": "none"}, Regions: []string{"eu"}}}
	}
	few := func(i int) ares.Spec { return ares.Spec{GPUs: 1 + i%8, CPUs: 1 + i%4} }
	wide := func(i int) ares.Spec { return ares.Spec{Members: 2 + i%3, GPUs: 8} }
	for _, c := range []struct {
		name string
		full bool
		jobs int
		spec func(int) ares.Spec
		most float64 // 0 means no bound
	}{
		{"nothing waits", false, 0, sameShape, 0.5},
		{"no node has the label", false, 1000, nowhere, 30},
		{"no node has free capacity", true, 1000, few, 30},
		{"no node has free capacity for gangs", true, 1000, wide, 30},
		{"jobs are placed", false, 60, few, 0},
		{"gangs are placed", false, 20, wide, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var allocations []float64
			for _, nodes := range []int{150, 1500} {
				s := benchStateOf(t, nodes, c.full, c.jobs, c.spec)
				allocations = append(allocations, testing.AllocsPerRun(10, func() { engine.Decide(s, enginetest.StartTime) }))
			}
			t.Logf("150 and 1,500 nodes: %v allocations", allocations)
			if allocations[1] > allocations[0] {
				t.Errorf("a cycle over 150 nodes allocates %v times, over 1,500 nodes %v times", allocations[0], allocations[1])
			}
			if c.most > 0 && allocations[0] > c.most {
				t.Errorf("a cycle that places nothing allocates %v times", allocations[0])
			}
		})
	}
}
