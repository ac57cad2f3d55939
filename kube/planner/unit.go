package planner

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/watch"
)

// A gang is a set of pods that are placed together at first. A pod that comes later, because another one of the gang was
// lost, is placed near the rest.
type gang struct {
	key  string
	pods map[string]*pod
	made int // units made so far; it numbers them
	// lost is true from the loss of a node with pods of the gang until the gang is whole again.
	lost bool
	size int // the number of pods that a whole gang has
}

// id names the gang for the observer.
func (g *gang) id() ares.JobID { return ares.NewJobID("gang", g.key) }

// lost records that a pod of the gang ended with its node.
func (p *Planner) lost(g *gang, now time.Time) {
	if p.observer != nil && !g.lost {
		g.lost = true
		p.observer.Lost(g.id(), now)
	}
}

// recovered records that a gang that lost pods is whole again.
func (p *Planner) recovered(g *gang, now time.Time) {
	if !g.lost {
		return
	}
	bound := 0
	for _, o := range g.pods {
		if o.Node != "" && !o.Leaving {
			bound++
		}
	}
	if bound >= g.size {
		g.lost = false
		p.observer.Recovered(g.id(), now)
	}
}

func (p *Planner) gang(g watch.Gang) *gang {
	if p.gangs[g.Key] == nil {
		p.gangs[g.Key] = &gang{key: g.Key, pods: map[string]*pod{}}
	}
	p.gangs[g.Key].size = g.Size
	return p.gangs[g.Key]
}

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
	// leaving is true once its pods are evicted.
	leaving bool
}

// waiting returns the gang's pods that are in no unit, are this scheduler's and can be planned, ordered by index and name.
func (p *Planner) waiting(g *gang) []*pod {
	var out []*pod
	for _, o := range g.pods {
		if o.unit == nil && o.Node == "" && !o.Gated && !o.Leaving && p.problem(o) == "" && p.ours(o.Pod) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), a.Created.Compare(b.Created), cmp.Compare(a.FullName(), b.FullName()))
	})
	return out
}

// placed returns a pod of the gang that has a seat and keeps it, or nil.
func (g *gang) placed() *pod {
	for _, uid := range slices.Sorted(maps.Keys(g.pods)) {
		if o := g.pods[uid]; o.unit != nil && o.unit.fence != 0 && !o.unit.leaving && !o.Leaving {
			return o
		}
	}
	return nil
}

// evicted reports whether pods of the gang are on their way out because another workload preempts it. Then the new pods
// of the gang wait until all of them exist.
func (g *gang) evicted() bool {
	for _, o := range g.pods {
		if o.unit != nil && o.unit.leaving {
			return true
		}
	}
	return false
}

// formUnits makes units of the waiting pods of changed gangs.
func (p *Planner) formUnits() {
	for _, g := range slices.SortedFunc(maps.Keys(p.changed), func(a, b *gang) int { return cmp.Compare(a.key, b.key) }) {
		list := p.waiting(g)
		if len(list) == 0 {
			continue
		}
		if near := g.placed(); near != nil {
			for _, part := range alike(list) {
				p.addUnit(g, part, near)
			}
			continue
		}
		size := max(list[0].Gang.Size, 1)
		if len(list) < size || g.evicted() || g.hasUnit() {
			continue
		}
		p.addGang(g, list[:size])
		for _, o := range list[size:] {
			p.addUnit(g, []*pod{o}, nil)
		}
	}
	clear(p.changed)
}

func (g *gang) hasUnit() bool {
	for _, o := range g.pods {
		if o.unit != nil {
			return true
		}
	}
	return false
}

// addGang makes the units of a whole gang: one, or several if its pods differ.
func (p *Planner) addGang(g *gang, list []*pod) {
	groups := alike(list)
	parts := make([]*unit, len(groups))
	for i, part := range groups {
		parts[i] = p.addUnit(g, part, nil)
	}
	if len(parts) > 1 {
		for _, u := range parts {
			u.parts = parts
		}
	}
}

// alike divides pods into groups that request the same. The order of the pods stays.
func alike(list []*pod) [][]*pod {
	var groups [][]*pod
	for _, o := range list {
		i := slices.IndexFunc(groups, func(g []*pod) bool { return sameRequest(&g[0].Spec, &o.Spec) })
		if i < 0 {
			groups = append(groups, []*pod{o})
			continue
		}
		groups[i] = append(groups[i], o)
	}
	return groups
}

func sameRequest(a, b *ares.Spec) bool {
	return a.GPUs == b.GPUs && a.CPUs == b.CPUs && a.MemoryMB == b.MemoryMB && reflect.DeepEqual(a.Constraints, b.Constraints)
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

// seatNode is the node on which the pod has its seat, "" if it has none.
func (o *pod) seatNode() string {
	if o.Node != "" || o.unit == nil {
		return o.Node
	}
	if s := o.unit.seat(o.rank); s != nil {
		return s.Node
	}
	return ""
}

// seat returns the seat of a rank, or nil before the unit is placed.
func (u *unit) seat(rank int) *ares.SeatStatus {
	if a := u.run.Last(); a != nil {
		for i := range a.Seats {
			if a.Seats[i].Rank == rank {
				return &a.Seats[i]
			}
		}
	}
	return nil
}

// claim records that a pod of a unit is bound.
func (p *Planner) claim(o *pod, now time.Time) {
	u := o.unit
	if u.fence == 0 {
		p.dissolve(u) // another program bound it while it waited; adopt gives it a seat where it is
		return
	}
	if s := u.seat(o.rank); s == nil || s.State != ares.SeatPlaced {
		return
	} else if s.Node != o.Node || o.Plan.Fence > 0 && !slices.Equal(o.Plan.Devices, indexes(s)) {
		p.occupy(o) // also a binding of the leader before this one, which arrived late
		return
	}
	delete(u.arrived, o.UID)
	p.changeRun(u, func(r *ares.Run) {
		if r.Stop != nil {
			r.Last().Seats[o.seatIndex()].State = ares.SeatClaimed // Claim refuses a job that stops, but the pod is there
			return
		}
		_ = r.Claim(u.job, u.fence, o.rank, o.Node, now) // the seat is as Claim wants it, as checked above
	})
}

// occupy corrects a seat whose pod another program bound to another node, or with other devices, than planned. The pod
// becomes a unit of its own where it is.
func (p *Planner) occupy(o *pod) {
	p.release(o)
	o.unit = nil
	p.changed[o.gang] = true
}

func (o *pod) seatIndex() int {
	a := o.unit.run.Last()
	return slices.IndexFunc(a.Seats, func(s ares.SeatStatus) bool { return s.Rank == o.rank })
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
// Invariant: no rank of a unit that waits is nil.
func (p *Planner) release(o *pod) {
	u := o.unit
	bound := false
	for _, part := range u.party() {
		for _, other := range part.ranks {
			bound = bound || other != nil && other.Node != ""
		}
	}
	if !bound {
		for _, part := range u.party() {
			p.dissolve(part)
		}
		return
	}
	if u.fence == 0 {
		p.dissolve(u)
		return
	}
	if s := u.seat(o.rank); s != nil {
		p.free(s.Seat, o.UID)
		p.changeRun(u, func(r *ares.Run) { r.Last().Seats[o.seatIndex()].State = ares.SeatReleased })
	}
	u.ranks[o.rank] = nil
	if !slices.ContainsFunc(u.ranks, func(other *pod) bool { return other != nil }) {
		p.forget(u)
	}
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

// take marks the devices of a seat as used by a pod, and free gives them back.
func (p *Planner) take(s ares.Seat, uid string) {
	n := p.node(s.Node)
	for _, share := range s.Shares {
		n.taken[share.Index] = uid
	}
}

func (p *Planner) free(s ares.Seat, uid string) {
	n := p.node(s.Node)
	for _, share := range s.Shares {
		if n.taken[share.Index] == uid {
			delete(n.taken, share.Index)
		}
	}
}
