package simphilly

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/sim"
)

// The window of the trace.
var (
	from = time.Date(2017, 10, 1, 0, 0, 0, 0, time.UTC)
	to   = time.Date(2017, 12, 1, 0, 0, 0, 0, time.UTC)
)

// pools is the machines of each virtual cluster before they are scaled. The
// other four of the trace have eighteen jobs together, and are left out.
var pools = map[string]int{
	"6214e9": 64, "b436b2": 64, "ee9e8c": 64, "7f04ca": 32, "6c71a0": 32, "0e4a51": 32,
	"11cb48": 16, "e13805": 16, "2869ce": 16, "ed69ec": 8, "103959": 8,
}

// The scale as a fraction, rounded up: 64 machines become 20, and 8 become 3.
const scaleOf, scaleBy = 10, 32

func scaled(machines int) int { return (machines*scaleOf + scaleBy - 1) / scaleBy }

// read is the jobs of the window, each bound to the pool of its virtual cluster.
func read(b *testing.B) *sim.Trace {
	b.Helper()
	traces := os.Getenv("ARES_TRACES")
	if traces == "" {
		b.Fatal("ARES_TRACES does not say where the traces are: see docs/simulator.md")
	}
	file, err := os.Open(filepath.Join(traces, "philly", "philly.csv"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	t, err := sim.Read("philly", file)
	if err != nil {
		b.Fatal(err)
	}
	t.Arrivals = slices.DeleteFunc(t.Arrivals, func(a sim.Arrival) bool {
		at := time.Unix(0, 0).Add(a.At)
		return at.Before(from) || !at.Before(to) || pools[a.Spec.Tenant] == 0
	})
	for i := range t.Arrivals {
		s := &t.Arrivals[i].Spec
		s.Placement.NodeSelector = map[string]string{"pool": s.Tenant}
	}
	return t
}

// fleet is the pools.
func fleet() *sim.Fleet {
	f := &sim.Fleet{}
	for name, machines := range pools {
		f.Machines = append(f.Machines, sim.Machine{
			Name: "vc-" + name, Count: scaled(machines), GPUs: 8, CPUs: 64, MemoryMB: 1 << 20, Labels: map[string]string{"pool": name},
		})
	}
	slices.SortFunc(f.Machines, func(a, b sim.Machine) int { return cmpString(a.Name, b.Name) })
	return f
}

func BenchmarkOrders(b *testing.B) {
	trace := read(b)
	for range b.N {
		for _, name := range sim.PolicyNames() {
			p, err := sim.PolicyNamed(name)
			if err != nil {
				b.Fatal(err)
			}
			if only := os.Getenv("ONLY"); only != "" && only != name {
				continue
			}
			p.Engine.Placement = engine.Placement(os.Getenv("PLACE"))
			began := time.Now()
			w := sim.NewWorld(fleet(), p)
			if err := w.Run(trace, 0, nil); err != nil {
				b.Fatal(err)
			}
			r := w.Report()
			times, lost := w.Preemptions()
			fmt.Printf("%-14s %8.0f  ended %d of %d preempt %.3f lost %.0f %s\n", name, r.Complete.Mean, r.Ended, r.Jobs, float64(times)/float64(r.Jobs), lost, time.Since(began).Round(time.Millisecond))
		}
	}
}

func cmpString(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}
