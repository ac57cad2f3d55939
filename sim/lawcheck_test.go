package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
)

// TestEveryDecisionKeepsTheLaws simulates a crowded cluster and checks every
// decision against all laws.
func TestEveryDecisionKeepsTheLaws(t *testing.T) {
	t.Parallel()
	f := &Fleet{
		Machines: []Machine{{Name: "m", Count: 6, GPUs: 8, CPUs: 64, MemoryMB: 256_000}},
		Shares:   []Tenant{{Name: "t0", Weight: 3}, {Name: "t1", Weight: 1}},
	}
	w := NewWorld(f, Policy{Engine: config.Default()})
	w.MeasureFairness()
	w.CheckLaws(1)
	w.probes = append(w.probes, func(w *World) {
		if plan := engine.Decide(w.state, w.now); !plan.Empty() {
			t.Errorf("after %s something was left to do: %+v", w.now.Sub(Epoch), plan)
		}
	})
	if err := w.Run(crowd(600, 5), 0, nil); err != nil {
		t.Fatal(err)
	}
	v := w.LawReport()
	if v.Violations != 0 || v.Placings != 600 || v.AllLaws != v.Decisions || v.Unchecked != 0 {
		t.Errorf("judged %+v", v)
	}
	if v.Ahead == 0 {
		t.Error("nobody ever waited: the law was not put to the test")
	}
	for _, p := range w.accounting.tenants {
		if p.held != (resources{}) || p.wanted != (resources{}) {
			t.Errorf("at the end %s holds %v and wants %v", p.name, p.held, p.wanted)
		}
	}
	if f := w.Fairness(); f.Gap <= 0 || f.Jain.Min >= 1 || f.Jain.Mean < f.Jain.Min || f.Attained.Mean > 1 {
		t.Errorf("measured %+v", f)
	}
}

// In TestOutOfTurnIsReported, two tenants have waiting jobs, and one tenant already uses
// resources. A plan that places this tenant's job must be reported as a violation.
func TestOutOfTurnIsReported(t *testing.T) {
	t.Parallel()
	w := NewWorld(&Fleet{Machines: []Machine{{Name: "m", Count: 2, GPUs: 4, CPUs: 8, MemoryMB: 1000}}}, Policy{Engine: config.Default()})
	w.CheckLaws(0)
	for i, tenant := range []string{"rich", "rich", "poor"} {
		w.arrive(&Arrival{At: time.Duration(i), Runs: time.Minute, Spec: ares.Spec{Tenant: tenant, GPUs: 4}})
		w.now = w.now.Add(time.Second)
		w.flush()
		if i == 0 {
			if _, err := w.decide(); err != nil {
				t.Fatal(err)
			}
		}
	}
	job, _ := w.state.Job("job-0000001")
	pl, refusal := engine.Place(w.state, job, w.now)
	if refusal != nil {
		t.Fatal(refusal)
	}
	w.laws.check(w.state, &ares.Plan{Revision: w.revision, Now: w.now, Place: []ares.Placing{pl}})
	if v := w.LawReport(); v.Violations != 1 || !strings.Contains(v.First[0], "job-0000002 of poor") {
		t.Errorf("judged %+v", v)
	}
}

// This function returns a trace of jobs that cannot all run at once.
func crowd(jobs, tenants int) *Trace {
	dice := rand.New(rand.NewPCG(1, 2))
	trace := &Trace{}
	at := time.Duration(0)
	for range jobs {
		at += time.Duration(dice.IntN(60)) * time.Second
		spec := ares.Spec{Tenant: fmt.Sprintf("t%d", dice.IntN(tenants)), GPUs: 1 << dice.IntN(4), CPUs: dice.IntN(16), MemoryMB: dice.IntN(9) * 1000}
		switch dice.IntN(8) {
		case 0:
			spec.GPUs, spec.Members = 4, 2+dice.IntN(3)
		case 1:
			spec.GPUs, spec.GPUMilli = 0, 100*(1+dice.IntN(9))
		case 2:
			spec.Priority = new(700)
		}
		trace.Arrivals = append(trace.Arrivals, Arrival{At: at, Runs: time.Duration(60+dice.IntN(900)) * time.Second, Spec: spec})
	}
	return trace
}
