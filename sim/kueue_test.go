package sim

import (
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"
)

func TestKueueWorkloads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                         string
		jobs, tenants, queues, nodes int
		classes                      map[string]int
		last                         time.Duration // the last arrival
		bound                        time.Duration
	}{
		{
			"kueue-baseline", 15_000, 5, 30, 60,
			map[string]int{"small": 10_500, "medium": 3000, "large": 1500},
			60 * time.Second, 66 * time.Second,
		},
		{
			"kueue-large-scale", 50_000, 10, 1000, 2000,
			map[string]int{"small": 35_000, "medium": 11_000, "large": 4000},
			3300 * time.Millisecond, 4025 * time.Millisecond,
		},
		{
			"kueue-topology", 15_000, 5, 30, 640,
			map[string]int{"small-required-rack": 3600, "medium-balanced-rack": 990, "large-preferred-rack": 510},
			20400 * time.Millisecond, 66 * time.Second,
		},
	} {
		w, err := WorkloadNamed(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(w.Trace.Arrivals); n != c.jobs || len(w.Fleet.Shares) != c.tenants || len(w.Fleet.Queues()) != c.queues || w.Fleet.Machines[0].Count != c.nodes {
			t.Errorf("%s has %d jobs, %d tenants, %d queues", c.name, n, len(w.Fleet.Shares), len(w.Fleet.Queues()))
		}
		classes := map[string]int{}
		for i := range w.Trace.Arrivals {
			classes[w.Trace.Arrivals[i].Spec.Name]++
		}
		for class, n := range c.classes {
			if classes[class] != n {
				t.Errorf("%s has %d jobs of class %s", c.name, classes[class], class)
			}
		}
		if last := w.Trace.Arrivals[c.jobs-1].At; last != c.last || w.Bound != c.bound {
			t.Errorf("%s: the last comes after %s, and nobody is done before %s", c.name, last, w.Bound)
		}
	}
	if _, err := WorkloadNamed("kueue"); err == nil {
		t.Error("there is a workload kueue")
	}
}

// TestKueueUnderLaws simulates a Kueue workload and checks some decisions against every law. The
// test then repeats the simulation with four times as many machines. Then only quotas can limit
// jobs.
func TestKueueUnderLaws(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kueue-baseline", "kueue-topology"} {
		var took []float64
		for _, times := range []int{1, 4} {
			w, err := WorkloadNamed(name)
			if err != nil {
				t.Fatal(err)
			}
			w.Fleet.Machines[0].Count *= times
			world := NewWorld(w.Fleet, Policy{Engine: config.Default()})
			world.CheckLaws(25)
			if err := world.Run(w.Trace, 8*time.Second, nil); err != nil {
				t.Fatal(err)
			}
			if v := world.LawReport(); v.Violations != 0 || v.AllLaws < 2 {
				t.Errorf("%s: judged %+v", name, v)
			}
			took = append(took, float64(world.allocated.peak), world.allocated.area)
		}
		if took[0] != took[2] || took[1] != took[3] {
			t.Errorf("%s: four times the machines make a difference: %v", name, took)
		}
	}
}
