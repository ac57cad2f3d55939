package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// fleet is a state with 1,000 nodes of 8 GPUs and these jobs waiting. Where it
// is full, one job holds every device.
func fleet(tb testing.TB, full bool, jobs int, spec func(i int) ares.Spec) *engine.State {
	tb.Helper()
	return fleetOf(tb, 1000, full, jobs, spec)
}

func fleetOf(tb testing.TB, nodes int, full bool, jobs int, spec func(i int) ares.Spec) *engine.State {
	tb.Helper()
	events := []ares.Event{tenantEvent("default")}
	holder := ares.NewRun(enginetest.StartTime)
	var seats []ares.Seat
	for i := range nodes {
		n := machineOf(fmt.Sprintf("node-%04d", i), 8)
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

func alike(int) ares.Spec { return ares.Spec{GPUs: 1, CPUs: 1} }

// various gives each job a shape of its own.
func various(i int) ares.Spec { return ares.Spec{GPUs: 1 + i%8, CPUs: 1 + i%16, MemoryMB: i} }

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
		{"nothing pending", false, 0, alike, 0},
		{"10k alike on a full fleet", true, 10_000, alike, 0},
		{"10k various on a full fleet", true, 10_000, various, 0},
		{"10k gangs on a full fleet", true, 10_000, gangs, 0},
		{"10k alike on an empty fleet", false, 10_000, alike, config.MaxPlacings},
		{"10k various on an empty fleet", false, 10_000, various, config.MaxPlacings},
		{"10k labelled for no node", false, 10_000, func(int) ares.Spec {
			return ares.Spec{GPUs: 1, Placement: ares.Placement{NodeSelector: map[string]string{"pool": "none"}}}
		}, 0},
		{"10k various labelled for no node", false, 10_000, func(i int) ares.Spec {
			return ares.Spec{GPUs: 1, MemoryMB: i, Placement: ares.Placement{NodeSelector: map[string]string{"pool": "none"}}}
		}, 0},
		{"one gang of 1000 nodes", false, 1, func(int) ares.Spec { return ares.Spec{Members: 1000, GPUs: 8} }, 1},
	} {
		b.Run(c.name, func(b *testing.B) { decide(b, fleet(b, c.full, c.jobs, c.spec), c.placed) })
	}
}

// BenchmarkDecideWithWindows is a plan for 10,000 waiting jobs beside as many
// reservations, of which each has its share of the nodes: those that come, and
// those that are open.
func BenchmarkDecideWithWindows(b *testing.B) {
	for _, windows := range []int{0, 1, 16, 256} {
		for _, c := range []struct {
			name   string
			in     time.Duration
			placed int
		}{{"upcoming", time.Hour, 500}, {"open", 0, 500}} {
			b.Run(fmt.Sprintf("%d %s", windows, c.name), func(b *testing.B) {
				s := fleet(b, false, 10_000, various)
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
	s := fleet(b, true, 10_000, various)
	b.ReportAllocs()
	for b.Loop() {
		if r := engine.Explain(s, "job-000007", enginetest.StartTime); len(r.Blockers) == 0 {
			b.Fatal("no blockers")
		}
	}
}

// BenchmarkApplyRun is one job placed and released beside 10,000 waiting ones.
func BenchmarkApplyRun(b *testing.B) {
	s := fleet(b, false, 10_000, alike)
	placing, _ := engine.Place(s, job("other", 1, alike(0)), enginetest.StartTime)
	placed, freed := ares.NewRun(enginetest.StartTime), ares.NewRun(enginetest.StartTime)
	if err := placed.Place(placing.Seats, 0, enginetest.StartTime); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for rev := int64(2); b.Loop(); rev += 2 {
		s.Apply(ares.Batch{Revision: rev, Events: []ares.Event{{Run: &ares.RunEvent{Job: "job-005000", Run: placed}}}})
		s.Apply(ares.Batch{Revision: rev + 1, Events: []ares.Event{{Run: &ares.RunEvent{Job: "job-005000", Run: freed}}}})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	for b.Loop() {
		fleet(b, true, 100_000, alike)
	}
}

// BenchmarkTakeSnapshot is what a recording holds decisions up for when a new
// file begins.
func BenchmarkTakeSnapshot(b *testing.B) {
	s := fleet(b, true, 100_000, alike)
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Snapshot()
	}
}

// TestScanAllocatesNothing: looking at nodes costs no memory, however many
// there are. What a decision allocates is its answer.
func TestScanAllocatesNothing(t *testing.T) {
	nowhere := func(int) ares.Spec {
		return ares.Spec{GPUs: 1, Placement: ares.Placement{NodeSelector: map[string]string{"pool": "none"}, Regions: []string{"eu"}}}
	}
	few := func(i int) ares.Spec { return ares.Spec{GPUs: 1 + i%8, CPUs: 1 + i%4} }
	wide := func(i int) ares.Spec { return ares.Spec{Members: 2 + i%3, GPUs: 8} }
	for _, c := range []struct {
		name string
		full bool
		jobs int
		spec func(int) ares.Spec
		most float64 // 0: whatever the answer takes
	}{
		{"nothing waits", false, 0, alike, 0.5},
		{"no node has the label", false, 1000, nowhere, 30},
		{"no node has room", true, 1000, few, 30},
		{"no node has room for gangs", true, 1000, wide, 30},
		{"jobs are placed", false, 60, few, 0},
		{"gangs are placed", false, 20, wide, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var allocations []float64
			for _, nodes := range []int{150, 1500} {
				s := fleetOf(t, nodes, c.full, c.jobs, c.spec)
				allocations = append(allocations, testing.AllocsPerRun(10, func() { engine.Decide(s, enginetest.StartTime) }))
			}
			t.Logf("150 and 1,500 nodes: %v allocations", allocations)
			if allocations[1] > allocations[0] {
				t.Errorf("a decision over 150 nodes allocates %v times, over 1,500 nodes %v times", allocations[0], allocations[1])
			}
			if c.most > 0 && allocations[0] > c.most {
				t.Errorf("a decision that places nothing allocates %v times", allocations[0])
			}
		})
	}
}
