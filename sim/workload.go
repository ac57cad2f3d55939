package sim

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Workload is a built-in simulation: a fleet with its tenants and queues, and
// the arriving jobs.
type Workload struct {
	Name  string
	About string
	Fleet *Fleet
	Trace *Trace
	// Draw draws the jobs by seed, for a workload that is random. It is nil for the others.
	Draw func(seed uint64) *Trace
	// Bound is a lower bound on the makespan under any scheduler. For each queue, the bound is at
	// least the queue's total work divided by its quota. For each job, the bound is at least the
	// time at which the job ends if it starts on arrival.
	Bound time.Duration
	// Published is the makespan that the Kueue project has published. Kueue measured it on a
	// cluster that runs all of Kueue's components.
	Published time.Duration
}

// This map contains the built-in workloads by name.
var workloads = map[string]func() *Workload{
	"kueue-baseline":    kueueBaseline,
	"kueue-large-scale": kueueLargeScale,
	"kueue-topology":    kueueTopology,
}

// Workloads returns the names of the built-in workloads.
func Workloads() []string { return slices.Sorted(maps.Keys(workloads)) }

// WorkloadNamed returns a built-in workload. A name such as regime:philly-64-l0.5 stands for a Regime.
func WorkloadNamed(name string) (*Workload, error) {
	if of, found := strings.CutPrefix(name, RegimePrefix); found {
		r, err := RegimeNamed(of)
		if err != nil {
			return nil, err
		}
		return &Workload{Name: name, About: r.About(), Fleet: r.Fleet(), Trace: r.Trace(1), Draw: r.Trace}, nil
	}
	build, ok := workloads[name]
	if !ok {
		return nil, ares.Errorf(ares.Invalid, "unknown workload %q: use %s, or %sNAME", name, strings.Join(Workloads(), ", "), RegimePrefix).At("workload")
	}
	w := build()
	w.Name = name
	w.Trace.Format, w.Fleet.Digest = "workload", digest([]byte(name))
	w.Trace.Digest = w.Fleet.Digest
	return w, nil
}

// This method sorts arrivals by their time.
func (t *Trace) sorted() *Trace {
	slices.SortStableFunc(t.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	for i := range t.Arrivals {
		t.Arrivals[i].Line = i + 1
	}
	return t
}
