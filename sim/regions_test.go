package sim_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/sim"
)

// regionsTrace has bursts of small jobs on a fleet of 24 nodes of 4 GPUs, at about 90 % load.
func regionsTrace() (*sim.Trace, *sim.Fleet) {
	t := &sim.Trace{Format: "test"}
	for i := range 600 {
		spec := ares.Spec{Name: "a", GPUs: 1 + i%3, CPUs: 1}
		if i%5 == 0 {
			spec.GPUs, spec.GPUMilli = 0, 300
		}
		t.Arrivals = append(t.Arrivals, sim.Arrival{At: time.Duration(i/20*20) * 9 * time.Second, Runs: time.Duration(60+i*37%900) * time.Second, Spec: spec, Line: i + 2})
	}
	return t, &sim.Fleet{Machines: []sim.Machine{{Name: "m", Count: 24, GPUs: 4, CPUs: 32, MemoryMB: 64_000, Model: "H100"}}}
}

// TestRegions simulates every way to choose: all jobs start once, resident data stays at home, and the same seed gives the
// same result. With summary and bid, no job may wait in the cluster that it was bound to, because a cluster claims only
// what it can start.
func TestRegions(t *testing.T) {
	t.Parallel()
	policy, err := sim.PolicyNamed("ares")
	if err != nil {
		t.Fatal(err)
	}
	trace, fleet := regionsTrace()
	wait := map[string]float64{}
	for _, choose := range sim.RegionChoices() {
		r, err := sim.SimulateRegions(trace, fleet, policy, sim.Regions{Count: 3, Seed: 7}, choose)
		if err != nil {
			t.Fatal(choose, err)
		}
		started := 0
		for _, b := range r.ByRegion {
			started += b.Started
		}
		if started != len(trace.Arrivals) || r.Jobs != started || r.Violations != 0 || r.Use <= 0 || r.Compute <= 0 {
			t.Errorf("%s: %+v", choose, r)
		}
		if choose != sim.ChooseNearest && r.Egress == 0 {
			t.Errorf("%s moved no data", choose)
		}
		wait[choose] = r.Wait.Mean
		again, err := sim.SimulateRegions(trace, fleet, policy, sim.Regions{Count: 3, Seed: 7}, choose)
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%s: the same seed gives %+v and %+v (%v)", choose, r, again, err)
		}
	}
	t.Log(fmt.Sprint(wait))
	if wait[sim.ChooseBoth] > wait[sim.ChooseRandom] || wait[sim.ChooseBoth] > wait[sim.ChooseNearest] {
		t.Errorf("mean waits %v", wait)
	}
}

// TestRegionsErrors checks input that cannot be simulated.
func TestRegionsErrors(t *testing.T) {
	t.Parallel()
	trace, fleet := regionsTrace()
	policy, err := sim.PolicyNamed("fifo")
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"one region": func() error {
			_, err := sim.SimulateRegions(trace, fleet, policy, sim.Regions{Count: 1}, sim.ChooseBoth)
			return err
		},
		"unknown choice": func() error {
			_, err := sim.SimulateRegions(trace, fleet, policy, sim.Regions{Count: 3}, "best")
			return err
		},
		"no jobs": func() error {
			_, err := sim.SimulateRegions(&sim.Trace{}, fleet, policy, sim.Regions{Count: 3}, sim.ChooseBoth)
			return err
		},
		"an empty region": func() error {
			_, err := sim.SimulateRegions(trace, &sim.Fleet{Machines: []sim.Machine{{Name: "m", Count: 1, GPUs: 4}}}, policy, sim.Regions{Count: 3}, sim.ChooseBoth)
			return err
		},
	} {
		if ares.CodeOf(do()) != ares.Invalid {
			t.Errorf("%s: %v", name, do())
		}
	}
}
