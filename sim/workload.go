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
// the jobs that come.
type Workload struct {
	Name  string
	About string
	Fleet *Fleet
	Trace *Trace
	// Bound is the time in which no scheduler can be done: the work of a queue
	// divided by what it is promised, or the end of a job that starts as it comes.
	Bound time.Duration
	// Published is what Kueue takes for it, on a cluster with everything that
	// belongs to one.
	Published time.Duration
}

// workloads are those with a name.
var workloads = map[string]func() *Workload{
	"kueue-baseline":    kueueBaseline,
	"kueue-large-scale": kueueLargeScale,
	"kueue-topology":    kueueTopology,
}

// Workloads lists the names of the built-in workloads.
func Workloads() []string { return slices.Sorted(maps.Keys(workloads)) }

// WorkloadNamed is one of the built-in workloads.
func WorkloadNamed(name string) (*Workload, error) {
	build, ok := workloads[name]
	if !ok {
		return nil, ares.Errorf(ares.Invalid, "%q is no workload: use one of %s", name, strings.Join(Workloads(), ", ")).At("workload")
	}
	w := build()
	w.Name = name
	w.Trace.Format, w.Fleet.Digest = "workload", digest([]byte(name))
	w.Trace.Digest = w.Fleet.Digest
	return w, nil
}

// sorted puts arrivals in order.
func (t *Trace) sorted() *Trace {
	slices.SortStableFunc(t.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	for i := range t.Arrivals {
		t.Arrivals[i].Line = i + 1
	}
	return t
}
