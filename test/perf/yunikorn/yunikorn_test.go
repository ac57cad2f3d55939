package yunikorn

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/perf/placing"
	"github.com/ares-scheduler/ares/test/perf/rounds"
)

// size is one comparison. Four jobs or fewer for each node all find room.
type size struct{ nodes, jobs int }

var sizes = []size{{500, 2000}, {1000, 4000}, {5000, 4000}, {10_000, 4000}}

// side is what the rounds of one scheduler gave: allocations a second by the
// clock, and processor time of all threads for each.
type side struct {
	placed     int
	rate, each rounds.Figures
}

func (s *side) add(placed int, lap rounds.Lap) {
	s.placed = placed
	s.rate.Rate(placed, lap.Wall)
	s.each.Each(placed, lap.Process)
}

// theirs runs the core from the handing over of the asks to the last
// allocation. What it does not place, it is not waited for.
func (s *side) theirs(b *testing.B, policy string, z size) {
	c := newCore(b, policy, z.nodes)
	defer c.services.StopAll()
	work := asks(z.jobs)
	runtime.GC()
	var lap rounds.Lap
	placed := 0
	lap.Time(func() {
		check(b, c.services.RMProxy.UpdateAllocation(work))
		placed = c.manager.await(&c.manager.counts.allocations, z.jobs*99/100)
	})
	if placed < z.jobs*99/100 {
		b.Fatalf("YuniKorn placed %d of %d", placed, z.jobs)
	}
	s.add(placed, lap)
}

// ours does the same work: the jobs arrive, and decisions are applied until all
// of them are placed.
func (s *side) ours(b *testing.B, z size) {
	state := placing.Nodes(z.nodes)
	work := placing.Arrivals(z.jobs, placing.Openb)
	runtime.GC()
	var lap rounds.Lap
	var f placing.Filling
	lap.Time(func() {
		state.Apply(ares.Batch{Revision: 2, Events: work})
		var err error
		f, err = placing.Fill(state, z.jobs)
		check(b, err)
	})
	if f.Placed != z.jobs {
		b.Fatalf("Ares placed %d of %d", f.Placed, z.jobs)
	}
	s.add(f.Placed, lap)
}

// BenchmarkYuniKorn places the openb mix on 8-GPU nodes by YuniKorn's core and
// by the engine, in turns. Both begin when the jobs arrive and keep their own
// accounts; neither writes anything to a store.
func BenchmarkYuniKorn(b *testing.B) {
	rows := [][]string{{"nodes", "jobs", "YuniKorn, binpacking/s", "µs CPU each", "fair (its default)/s", "µs CPU each", "Ares/s", "µs CPU each", "CPU, binpacking ÷ Ares", "fair ÷ Ares"}}
	for _, z := range sizes {
		var packed, fair, mine side
		for range rounds.Count {
			packed.theirs(b, "binpacking", z)
			mine.ours(b, z)
			fair.theirs(b, "fair", z)
		}
		rows = append(rows, []string{
			fmt.Sprint(z.nodes), fmt.Sprint(z.jobs), packed.rate.String(), packed.each.Text(1000, 1), fair.rate.String(), fair.each.Text(1000, 1),
			mine.rate.String(), mine.each.Text(1000, 1), packed.each.Over(mine.each).Text(1, 0), fair.each.Over(mine.each).Text(1, 0),
		})
	}
	title := fmt.Sprintf("Allocations of the openb mix from arrival, the core of YuniKorn beside Ares; median of %d rounds (range)", rounds.Count)
	if err := rounds.Table(os.Stdout, title, rows); err != nil {
		b.Fatal(err)
	}
}
