package openb

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/sim"
)

// TestDraw checks that every pod arrives once before any pod arrives again.
// Pods must arrive until 130 % of the GPUs are requested. If all pods together
// request more than 130 %, some pods never arrive. The test also checks that
// the nodes are shuffled, and that the same seed always gives the same result.
func TestDraw(t *testing.T) {
	const header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
	trace, err := sim.Read("openb", strings.NewReader(header+"a,1,1,1,1000\nb,1,1,1,500\nc,1,1,2,1000\nd,1,1,0,0\n"))
	if err != nil {
		t.Fatal(err)
	}
	for gpus, want := range map[int][2]int{10: {12_000, 13_000}, 2: {0, 2600}} {
		o := &Openb{dir: t.TempDir(), Trace: trace, Fleet: &sim.Fleet{Machines: []sim.Machine{{Name: "m", Count: 1, GPUs: gpus / 2}, {Name: "n", Count: 1, GPUs: gpus - gpus/2}}}}
		for seed := range 20 {
			d, err := o.Draw(seed)
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			for _, row := range d.Rows {
				asked += []int{1000, 500, 2000, 0}[row]
			}
			first := slices.Sorted(slices.Values(d.Rows[:min(len(d.Rows), 4)]))
			if asked < want[0] || asked > want[1]+1000 || len(slices.Compact(slices.Clone(first))) != len(first) {
				t.Errorf("%d GPUs, seed %d: rows %v ask for %d", gpus, seed, d.Rows, asked)
			}
			if again, err := o.Draw(seed); err != nil || !reflect.DeepEqual(again, d) {
				t.Errorf("seed %d draws %v, then %v (%v)", seed, d, again, err)
			}
			if names := d.Fleet.Machines[0].Name + d.Fleet.Machines[1].Name; names != "0000-m0001-n" && names != "0001-m0000-n" {
				t.Errorf("the nodes are called %s", names)
			}
		}
	}
}
