package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Fleet is every node that has a record, as it would be if it were connected,
// healthy and empty. It tells what can never run here from what has to wait.
type Fleet struct {
	state    *State
	verdicts map[string]*ares.Refusal // by shape, until a node changes
}

// maxVerdicts bounds what a fleet remembers.
const maxVerdicts = 10_000

// NewFleet returns a fleet without nodes.
func NewFleet() *Fleet { return &Fleet{state: New(), verdicts: map[string]*ares.Refusal{}} }

// Apply takes what a batch says of nodes. It is as Apply of a State in all else.
func (f *Fleet) Apply(b ares.Batch) {
	if !b.Reset && b.Revision <= f.state.revision {
		return
	}
	events := b.Events
	b.Events = []ares.Event{{Tenant: &ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits()}}}
	for i := range events {
		b.Events = append(b.Events, idle(&events[i])...)
	}
	if len(b.Events) == 1 && !b.Reset {
		return // nothing of nodes
	}
	clear(f.verdicts)
	f.state.Apply(b)
}

// idle is what an event says of the fleet: how nodes are made and stand, not
// who is there, holds or waits.
func idle(ev *ares.Event) []ares.Event {
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

// Never says why a job of this kind can never run on these nodes, nil when it
// can, or when there are no nodes yet. It asks of a gang as much as of an empty
// fleet, and of no tenant.
func (f *Fleet) Never(spec ares.Spec) *ares.Refusal {
	if len(f.state.byID) == 0 {
		return nil
	}
	spec.Tenant, spec.After, spec.Array = ares.DefaultTenant, nil, ares.Array{}
	spec.Placement.Affinity, spec.Placement.AntiAffinity = nil, nil // whom they speak of comes and goes
	job := &ares.Job{Spec: spec}
	key := f.state.shapeOf(job).key
	verdict, known := f.verdicts[key]
	if known {
		return verdict
	}
	if _, r := Place(f.state, job, time.Time{}); r != nil && aboutNodes(r) {
		verdict = r
	}
	if len(f.verdicts) >= maxVerdicts {
		clear(f.verdicts)
	}
	f.verdicts[key] = verdict
	return verdict
}

// aboutNodes says whether only the nodes speak against a job. What this version
// cannot honour waits for one that can.
func aboutNodes(r *ares.Refusal) bool {
	for _, b := range r.Blockers {
		if b.Kind != kindNodes && b.Kind != kindCapacity {
			return false
		}
	}
	return true
}
