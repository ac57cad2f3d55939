package yunikorn

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/bench/placement"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// The type `size` holds the numbers of nodes and jobs of one comparison. All
// jobs fit if there are no more than four jobs per node.
type size struct{ nodes, jobs int }

var sizes = rounds.Sized([]size{{500, 2000}, {1000, 4000}, {5000, 4000}, {10_000, 4000}}, []size{{50, 200}})

// A `side` holds the results of one scheduler. One result is the number of
// allocations per second of wall time. The other is the processor time per
// allocation, summed over all threads.
type side struct {
	placed     int
	rate, each rounds.Figures
}

func (s *side) add(placed int, lap rounds.Lap) {
	s.placed = placed
	s.rate.Rate(placed, lap.Wall)
	s.each.Each(placed, lap.Process)
}

// This method measures YuniKorn's core from the submission of the requests to
// the last allocation. The measurement does not wait for jobs that the core
// does not place.
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

// This method does the same work with Ares's engine. The function adds the jobs
// and applies decisions until all jobs are placed.
func (s *side) ours(b *testing.B, z size) {
	state := placement.Nodes(z.nodes)
	work := placement.Arrivals(z.jobs, placement.Openb)
	runtime.GC()
	var lap rounds.Lap
	var f placement.Filling
	lap.Time(func() {
		state.Apply(ares.Batch{Revision: 2, Events: work})
		var err error
		f, err = placement.Fill(state, z.jobs)
		check(b, err)
	})
	if f.Placed != z.jobs {
		b.Fatalf("Ares placed %d of %d", f.Placed, z.jobs)
	}
	s.add(f.Placed, lap)
}

// BenchmarkYuniKorn places the openb mix of jobs on 8-GPU nodes. YuniKorn's
// core and Ares's engine are measured alternately. Both measurements start when
// the jobs arrive. Neither of the two schedulers writes to a store, but both do
// their own accounting.
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
