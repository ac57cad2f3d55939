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
	// Bound is a lower bound on the makespan of any scheduler: the work of a queue
	// divided by its quota, or the end of a job that starts when it arrives.
	Bound time.Duration
	// Published is the makespan that Kueue has published, measured on a cluster
	// with all its components.
	Published time.Duration
}

// workloads are the built-in workloads by name.
var workloads = map[string]func() *Workload{
	"kueue-baseline":    kueueBaseline,
	"kueue-large-scale": kueueLargeScale,
	"kueue-topology":    kueueTopology,
}

// Workloads returns the names of the built-in workloads.
func Workloads() []string { return slices.Sorted(maps.Keys(workloads)) }

// WorkloadNamed returns a built-in workload.
func WorkloadNamed(name string) (*Workload, error) {
	build, ok := workloads[name]
	if !ok {
		return nil, ares.Errorf(ares.Invalid, "unknown workload %q: use one of %s", name, strings.Join(Workloads(), ", ")).At("workload")
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
