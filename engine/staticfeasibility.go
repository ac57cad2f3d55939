package engine

import (
	"time"

	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
)

// StaticFeasibility is every node that has a record, as it would be if it were connected,
// healthy and empty. It tells what can never run here from what has to wait.
type StaticFeasibility struct {
	state         *State
	verdicts      map[string]*ares.Refusal       // by shape, until a node changes
	verdictsByKey map[job.ShapeKey]*ares.Refusal // of jobs without lists of wishes: found sooner
}

// maxVerdicts bounds what a fleet remembers.
const maxVerdicts = 10_000

// NewStaticFeasibility returns a fleet without nodes.
func NewStaticFeasibility() *StaticFeasibility {
	return &StaticFeasibility{state: New(), verdicts: map[string]*ares.Refusal{}, verdictsByKey: map[job.ShapeKey]*ares.Refusal{}}
}

// Apply takes what a batch says of nodes. It is as Apply of a State in all else.
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
		return // nothing of nodes
	}
	clear(f.verdicts)
	clear(f.verdictsByKey)
	f.state.Apply(b)
}

// idleEvents is what an event says of the fleet: how nodes are made and stand, not
// who is there, holds or waits.
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

// Infeasible says why a job of this kind can never run on these nodes, nil when it
// can, or when there are no nodes yet. It asks of a gang as much as of an empty
// fleet, and of no tenant.
func (f *StaticFeasibility) Infeasible(spec ares.Spec) *ares.Refusal {
	if len(f.state.core.Cluster.NodesByID) == 0 {
		return nil
	}
	spec.Tenant, spec.After, spec.Array = ares.DefaultTenant, nil, ares.Array{}
	spec.Placement.Affinity, spec.Placement.AntiAffinity = nil, nil // whom they speak of comes and goes
	b, plain := job.ShapeKeyOf(&ares.Job{Spec: spec})
	b.Queue = "" // it is nothing to the nodes
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

// evaluate is Never of a job that is like none before, or has lists of wishes.
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

// Split makes equal members of a job of one that can never run on these nodes,
// as few as will do; what it asks for in all stays the same. It answers with why
// the job can never run as it is where that does not help either.
func (f *StaticFeasibility) Split(said ares.Spec) (ares.Spec, *ares.Refusal) {
	never := f.Infeasible(said.WithDefaults())
	if never == nil {
		return said, nil
	}
	for k := 2; k <= min(said.GPUs, ares.MaxMembers); k++ {
		if said.GPUs%k != 0 {
			continue
		}
		part := said
		part.Members, part.GPUs = k, said.GPUs/k
		part.GPUMemoryMB, part.CPUs, part.MemoryMB = ceilDiv(said.GPUMemoryMB, k), ceilDiv(said.CPUs, k), ceilDiv(said.MemoryMB, k)
		if f.Infeasible(part.WithDefaults()) == nil {
			return part, nil
		}
	}
	return said, never
}

// ceilDiv is one of k equal parts, rounded up.
func ceilDiv(whole, k int) int { return (whole + k - 1) / k }

// isAboutNodes says whether only the nodes speak against a job. What this version
// cannot honour waits for one that can.
func isAboutNodes(r *ares.Refusal) bool {
	for _, b := range r.Blockers {
		if b.Kind != ares.BlockerNodes && b.Kind != ares.BlockerCapacity {
			return false
		}
	}
	return true
}
