package engine

import (
	"time"

	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
)

// StaticFeasibility has every node with a record as if it were connected, uncordoned,
// healthy and empty. It tells jobs that can never run on these nodes from jobs that
// have to wait.
type StaticFeasibility struct {
	state         *State
	verdicts      map[string]*ares.Refusal       // by shape, nil if feasible; cleared when a node changes
	verdictsByKey map[job.ShapeKey]*ares.Refusal // the same, of specs without list fields, which have a cheaper key
}

// maxVerdicts bounds each cache of verdicts.
const maxVerdicts = 10_000

// NewStaticFeasibility returns one without nodes.
func NewStaticFeasibility() *StaticFeasibility {
	return &StaticFeasibility{state: New(), verdicts: map[string]*ares.Refusal{}, verdictsByKey: map[job.ShapeKey]*ares.Refusal{}}
}

// Apply applies the events of a batch that describe nodes and the topology. Revisions
// and Reset are treated as in State.Apply.
func (f *StaticFeasibility) Apply(b ares.Batch) {
	if !b.Reset && b.Revision <= f.state.core.Revision {
		return
	}
	events := b.Events
	b.Events = []ares.Event{{Tenant: &ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits()}}}
	for i := range events {
		b.Events = append(b.Events, idleEvents(&events[i])...)
	}
	if len(b.Events) == 1 && !b.Reset {
		return // no event about nodes
	}
	clear(f.verdicts)
	clear(f.verdictsByKey)
	f.state.Apply(b)
}

// idleEvents returns the events that an event causes here: nodes with a session,
// healthy and cool, and the topology. Jobs, cordons and other records are left out.
func idleEvents(ev *ares.Event) []ares.Event {
	switch {
	case ev.Node != nil:
		n := *ev.Node
		n.Unfit, n.Devices = "", append([]ares.Device(nil), n.Devices...)
		for i := range n.Devices {
			n.Devices[i].Healthy, n.Devices[i].Celsius = true, 0
		}
		return []ares.Event{{Revision: ev.Revision, Node: &n}, {Revision: ev.Revision, Session: &ares.Session{Node: n.ID}}}
	case ev.Gone.Kind == ares.KindNode:
		return []ares.Event{*ev, {Revision: ev.Revision, Gone: ares.Gone{Kind: ares.KindSession, ID: ev.Gone.ID}}}
	case ev.Topology != nil, ev.Gone.Kind == ares.KindTopology:
		return []ares.Event{*ev}
	default:
		return nil
	}
}

// Infeasible says why a job with this spec can never run on these nodes. It returns
// nil if the job can run, or if there are no nodes yet. Limits, quotas, dependencies
// and affinity to other jobs are ignored: these change.
func (f *StaticFeasibility) Infeasible(spec ares.Spec) *ares.Refusal {
	if len(f.state.core.Cluster.NodesByID) == 0 {
		return nil
	}
	spec.Tenant, spec.After, spec.Array = ares.DefaultTenant, nil, ares.Array{}
	spec.Placement.Affinity, spec.Placement.AntiAffinity = nil, nil // other jobs come and go
	b, plain := job.ShapeKeyOf(&ares.Job{Spec: spec})
	b.Queue = "" // the verdict does not depend on the queue
	if verdict, known := f.verdictsByKey[b]; plain && known {
		return verdict
	}
	verdict := f.evaluate(spec)
	if plain {
		if len(f.verdictsByKey) >= maxVerdicts {
			clear(f.verdictsByKey)
		}
		f.verdictsByKey[b] = verdict
	}
	return verdict
}

// evaluate returns the verdict for a spec without a verdict by key.
func (f *StaticFeasibility) evaluate(spec ares.Spec) *ares.Refusal {
	job := &ares.Job{Spec: spec}
	key := f.state.core.Jobs.NewShape(job).Key
	verdict, known := f.verdicts[key]
	if known {
		return verdict
	}
	if _, r := Place(f.state, job, time.Time{}); r != nil && isAboutNodes(r) {
		verdict = r
	}
	if len(f.verdicts) >= maxVerdicts {
		clear(f.verdicts)
	}
	f.verdicts[key] = verdict
	return verdict
}

// Split splits a job of one member that can never run on these nodes into the fewest
// equal members that can. The total request stays the same, up to rounding. If no
// split is feasible it returns the spec and why it is infeasible.
func (f *StaticFeasibility) Split(spec ares.Spec) (ares.Spec, *ares.Refusal) {
	infeasible := f.Infeasible(spec.WithDefaults())
	if infeasible == nil {
		return spec, nil
	}
	for k := 2; k <= min(spec.GPUs, ares.MaxMembers); k++ {
		if spec.GPUs%k != 0 {
			continue
		}
		part := spec
		part.Members, part.GPUs = k, spec.GPUs/k
		part.GPUMemoryMB, part.CPUs, part.MemoryMB = ceilDiv(spec.GPUMemoryMB, k), ceilDiv(spec.CPUs, k), ceilDiv(spec.MemoryMB, k)
		if f.Infeasible(part.WithDefaults()) == nil {
			return part, nil
		}
	}
	return spec, infeasible
}

// ceilDiv returns one of k equal parts, rounded up.
func ceilDiv(whole, k int) int { return (whole + k - 1) / k }

// isAboutNodes reports whether all blockers are about nodes or their capacity.
func isAboutNodes(r *ares.Refusal) bool {
	for _, b := range r.Blockers {
		if b.Kind != ares.BlockerNodes && b.Kind != ares.BlockerCapacity {
			return false
		}
	}
	return true
}
