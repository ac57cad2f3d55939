package planner

import (
	"fmt"
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// A unit is a set of pods that the engine places as one job.
type unit struct {
	job *ares.Job
	run ares.Run
	// ranks has the pods by rank. The entry of a pod that is gone is nil.
	ranks []*pod
	fence ares.Fence // of its plan, 0 while it waits
	// sequence orders the plans of all units.
	sequence int64
	// arrived has the pods that wait at Permit for the rest of the gang.
	arrived map[string]bool
	// parts has all units of a gang whose pods differ in what they request, or is nil. Each of them is a job of its own for
	// the engine, but their pods are bound together.
	parts []*unit
	// judged is true once the other parts of the gang were decided after this one was placed (see retryDomains).
	judged bool
	// leaving is true once its pods are evicted.
	leaving bool
}

// party returns the units whose pods are bound together with those of this unit.
func (u *unit) party() []*unit {
	if u.parts == nil {
		return []*unit{u}
	}
	return u.parts
}

// addUnit makes a job of pods that request the same. The argument `near` is a placed pod of the same gang, or nil.
func (p *Planner) addUnit(g *gang, list []*pod, near *pod) *unit {
	return p.addPart(g, list, near, false)
}

// labelGang is a label of the engine's job for the pods that choose the domain of their gang.
const labelGang = "ares.dev/gang"

// addPart is addUnit for a part of a gang. The last argument says that another unit of the gang chooses the domain, if one
// domain must hold the whole gang. That unit has a label, and this one waits until it is placed.
func (p *Planner) addPart(g *gang, list []*pod, near *pod, follows bool) *unit {
	g.made++
	first := list[0]
	spec := first.Spec
	spec.Members = len(list)
	spec.RequestID = fmt.Sprintf("%s#%d/%s", g.key, g.made, first.UID)
	where := spec.EditPlacement()
	if near != nil && where.PreferredDomain == "" {
		if r := p.nodes[near.seatNode()]; r != nil && r.record != nil {
			where.PreferredDomain = r.record.Labels[string(ares.LevelLeaf)]
		}
	}
	if level := first.Gang.Level; level != "" && near != nil {
		where.NodeRequirements = append(slices.Clone(where.NodeRequirements), p.sameDomain(near, level)...)
	} else if level != "" && follows {
		where.Affinity = []string{fmt.Sprintf("%s=%s @%s", labelGang, g.id(), level)}
	} else if level != "" {
		spec.Labels = maps.Clone(spec.Labels)
		if spec.Labels == nil {
			spec.Labels = map[string]string{}
		}
		spec.Labels[labelGang] = string(g.id())
	}
	if excluded := excludedNodes(list); len(excluded) > 0 {
		where.NodeRequirements = append(slices.Clone(where.NodeRequirements),
			ares.NodeRequirement{Key: ares.KeyNodeName, Operator: ares.OperatorNotIn, Values: excluded})
	}
	p.addTenant(spec.Tenant)
	spec = spec.WithDefaults()
	u := &unit{
		job:   &ares.Job{Spec: spec, ID: spec.JobID(), AcceptedAt: first.Created, Revision: p.revision + 1, Owner: first.Namespace, Trusted: true},
		run:   ares.NewRun(first.Created),
		ranks: list,
	}
	for rank, o := range list {
		o.unit, o.rank = u, rank
	}
	p.units[u.job.ID] = u
	p.events = append(p.events, ares.Event{Job: u.job}, ares.Event{Run: &ares.RunEvent{Job: u.job.ID, Run: u.run}})
	return u
}

// excludedNodes returns the nodes that rejected one of the pods.
func excludedNodes(list []*pod) []string {
	set := map[string]bool{}
	for _, o := range list {
		for name := range o.excluded {
			set[name] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// changeRun changes a unit's run and tells the engine.
func (p *Planner) changeRun(u *unit, change func(*ares.Run)) {
	r := u.run.Clone()
	change(&r)
	r.Revision = p.revision + 1
	u.run = r
	p.events = append(p.events, ares.Event{Run: &ares.RunEvent{Job: u.job.ID, Run: r}})
}

// release ends a pod's part in its unit. A gang that is not bound yet starts again with the pods that are left, because it
// needs all its pods, and so does a unit that waits. In a unit that is bound, only this pod's devices become free.
// The argument `how` says how the pod ended, and is nil if it did not. Invariant: no rank of a unit that waits is nil.
func (p *Planner) release(o *pod, how *ares.RankResult) {
	u := o.unit
	if u.fence == 0 || !u.partyBound() {
		p.startAgain(u)
		return
	}
	if s := u.seat(o.rank); s != nil {
		p.free(s.Seat, o.UID)
		p.changeRun(u, func(r *ares.Run) {
			s := &r.Last().Seats[o.seatIndex()]
			s.State, s.Result = ares.SeatReleased, how
		})
	}
	u.ranks[o.rank] = nil
	if !slices.ContainsFunc(u.ranks, func(other *pod) bool { return other != nil }) {
		p.end(u)
		p.forget(u)
	}
}

// startAgain takes a unit that waits back, with the other units of its gang unless some of their pods are bound.
func (p *Planner) startAgain(u *unit) {
	if !u.partyBound() {
		for _, part := range u.party() {
			p.dissolve(part)
		}
		return
	}
	p.dissolve(u)
}

// partyBound reports whether a pod that is bound together with those of this unit is bound already.
func (u *unit) partyBound() bool {
	for _, part := range u.party() {
		for _, o := range part.ranks {
			if o != nil && o.Node != "" {
				return true
			}
		}
	}
	return false
}

// dissolve takes a unit back, with its plan. Its pods wait again.
func (p *Planner) dissolve(u *unit) {
	if p.units[u.job.ID] != u {
		return // it ended before the other units of its gang
	}
	if u.fence != 0 {
		p.withdrawn = append(p.withdrawn, u.refs()...)
	}
	for _, o := range u.ranks {
		if o == nil {
			continue
		}
		if s := u.seat(o.rank); s != nil {
			p.free(s.Seat, o.UID)
		}
		o.unit = nil
		p.changed[o.gang] = true
	}
	p.forget(u)
}

func (p *Planner) forget(u *unit) {
	delete(p.units, u.job.ID)
	p.gone(ares.KindRun, string(u.job.ID))
	p.gone(ares.KindJob, string(u.job.ID))
}
