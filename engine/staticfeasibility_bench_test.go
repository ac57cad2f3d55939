package engine_test

import (
	"fmt"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// BenchmarkStaticFeasibility checks specs against 10,000 nodes, once with a cached verdict and once with
// new specs.
func BenchmarkStaticFeasibility(b *testing.B) {
	batch := ares.Batch{Revision: 1, Reset: true}
	for i := range 10_000 {
		n := &ares.Node{ID: fmt.Sprintf("node-%05d", i), CPUs: 128, MemoryMB: 1 << 20}
		for k := range 8 {
			n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprintf("%d-%d", i, k), Index: k, Type: "gpu", Model: "H100", MemoryMB: 80_000})
		}
		batch.Events = append(batch.Events, ares.Event{Node: n})
	}
	f := engine.NewStaticFeasibility()
	f.Apply(batch)
	for _, c := range []struct {
		name string
		spec func(i int) ares.Spec
	}{
		{"known", func(int) ares.Spec { return ares.Spec{GPUs: 8, MemoryMB: 1000} }},
		{"new", func(i int) ares.Spec { return ares.Spec{GPUs: 8, MemoryMB: 1 + i} }},
		{"new, infeasible", func(i int) ares.Spec { return ares.Spec{GPUs: 9, MemoryMB: 1 + i} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if r := f.Infeasible(c.spec(i%1_000_000).WithDefaults(), false); (r != nil) != (c.name == "new, infeasible") {
					b.Fatal(r)
				}
			}
		})
	}
}
