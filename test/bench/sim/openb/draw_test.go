package openb

import (
	"fmt"
	"math/rand" //nolint:depguard // the authors drew from this generator
	"os"
	"path/filepath"
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

// TestDrawSortsByName checks the order of arrivals for a list with more than 10,000 pods. The authors sort the pods by
// name before they draw, so openb-pod-10000 comes before openb-pod-9999. A list whose rows are not in the order of
// names must give the same pods in the same order. A known order of the authors must be accepted.
func TestDrawSortsByName(t *testing.T) {
	const pods = 10_300
	names := make([]string, pods)
	for i := range names {
		names[i] = fmt.Sprintf("openb-pod-%04d", i)
	}
	sorted := slices.Sorted(slices.Values(names))
	for name, rows := range map[string][]string{"numbers": names, "names": sorted, "reversed": reversed(names)} {
		list := "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" + strings.Join(rows, ",1,1,1,1000\n") + ",1,1,1,1000\n"
		trace, err := sim.Read("openb", strings.NewReader(list))
		if err != nil || trace.Bad > 0 {
			t.Fatal(err, trace.Problems)
		}
		o := &Openb{dir: t.TempDir(), variant: "many", Trace: trace, Fleet: &sim.Fleet{Machines: []sim.Machine{{Name: "m", Count: 1, GPUs: pods - 300}}}}
		want := slices.Clone(sorted)
		from := rand.New(rand.NewSource(42))
		from.Int()
		from.Shuffle(pods, func(i, k int) { want[i], want[k] = want[k], want[i] })
		var known strings.Builder
		for len(want) < 13_000 { // 130 % of 10,000 GPUs
			want = append(want, sorted[from.Intn(pods)])
		}
		rowOf := map[string]int{}
		for i, pod := range rows {
			rowOf[pod] = i
		}
		for _, pod := range want {
			fmt.Fprintln(&known, rowOf[pod])
		}
		if err := os.Mkdir(filepath.Join(o.dir, "order"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(o.dir, "order", "openb_pod_list_many.seed42.order"), []byte(known.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := o.Draw(42)
		if err != nil {
			t.Errorf("rows in the order of %s: %v", name, err)
			continue
		}
		for i, row := range d.Rows {
			if rows[row] != want[i] {
				t.Errorf("rows in the order of %s: arrival %d is %s, want %s", name, i, rows[row], want[i])
				break
			}
		}
	}
}

func reversed(names []string) []string {
	out := slices.Clone(names)
	slices.Reverse(out)
	return out
}
