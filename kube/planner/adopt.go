package planner

import (
	"cmp"
	"maps"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/watch"
)

// adopt makes units of pods that are bound and in no unit: after a restart, or because another scheduler bound them. A
// half-bound gang gets the rest of its plan back, so that the pods that are not bound yet go where the plan wanted them.
// The pods of other schedulers are never preempted. It returns the pods that have an assignment now.
func (p *Planner) adopt(now time.Time) (planned []Ref) {
	found := map[string][]*pod{}
	for g := range p.changed {
		for _, o := range g.pods {
			if o.unit != nil || o.Node == "" {
				continue
			}
			key := "pod:" + o.UID // one that Ares did not bind is a unit of its own
			if p.ours(o.Pod) && o.Plan.Fence > 0 {
				key = "gang:" + g.key + "/" + formatFence(o.Plan.Fence)
			}
			found[key] = append(found[key], o)
		}
	}
	// The devices of all bound pods are taken before a plan gives devices to a pod that is not bound: a plan may be older than
	// what was bound since.
	keys, seats := slices.Sorted(maps.Keys(found)), map[*pod]ares.Seat{}
	for _, key := range keys {
		slices.SortFunc(found[key], func(a, b *pod) int { return cmp.Compare(a.FullName(), b.FullName()) })
		for _, o := range found[key] {
			seats[o] = p.seatFor(o, o.Node, o.Plan.Devices)
		}
	}
	for _, key := range keys {
		u, waiting := p.adoptUnit(found[key], seats, now)
		if waiting {
			planned = append(planned, u.refs()...)
		}
		p.apply(now) // so that the next one sees which devices are taken
	}
	return planned
}

// adoptUnit makes one unit of bound pods, and of the pods that their gang's plan places with them. It reports whether
// pods of the unit are not bound yet.
func (p *Planner) adoptUnit(list []*pod, bound map[*pod]ares.Seat, now time.Time) (u *unit, waiting bool) {
	g := list[0].gang
	seats := make([]ares.Seat, 0, len(list))
	for _, o := range list {
		seats = append(seats, bound[o])
	}
	plan := gangPlan(list)
	for i := range plan {
		o := p.pods[plan[i].UID]
		if o == nil || o.unit != nil || o.Node != "" || o.gang != g || !p.ours(o.Pod) || o.Leaving || p.nodes[plan[i].Node] == nil {
			continue
		}
		seat := p.seatFor(o, plan[i].Node, plan[i].Devices)
		if len(seat.Shares) < o.GPUs {
			p.free(seat, o.UID) // others use the devices now, so the pod is planned anew, near its gang
			continue
		}
		list, seats, waiting = append(list, o), append(seats, seat), true
	}
	u = p.addUnit(g, list, nil)
	if first := list[0]; !p.ours(first.Pod) {
		p.events = append(p.events, ares.Event{Protect: &ares.Protection{Job: u.job.ID, Why: protection(first)}})
	}
	p.fence = max(p.fence, list[0].Plan.Fence)
	if u.fence = ares.Fence(list[0].Plan.Fence); u.fence == 0 {
		p.fence++
		u.fence = ares.Fence(p.fence)
	}
	u.sequence, u.arrived = int64(u.fence), map[string]bool{}
	for rank := range seats {
		seats[rank].Rank = rank
	}
	p.changeRun(u, func(r *ares.Run) {
		began := now
		if o := u.ranks[0]; !o.Started.IsZero() {
			began = o.Started
		}
		if r.Place(seats, 0, began) != nil {
			return // a new run can always be placed
		}
		r.Last().Fence = u.fence
		for rank, o := range u.ranks {
			if o.Node != "" {
				_ = r.Claim(u.job, u.fence, rank, o.Node, began) // the seat was just placed
			}
		}
	})
	return u, waiting
}

// gangPlan returns the plan of the whole gang, which its first bound pod carries.
func gangPlan(list []*pod) []watch.PlannedPod {
	for _, o := range list {
		if len(o.Plan.Gang) > 0 {
			return o.Plan.Gang
		}
	}
	return nil
}

// seatFor returns a pod's seat on a node. It uses the given devices as far as they exist and are free, and other free
// devices for the rest.
func (p *Planner) seatFor(o *pod, name string, wanted []int) ares.Seat {
	if o.ByClaim {
		return p.exactSeat(o, name, wanted)
	}
	n := p.node(name)
	count := 0
	if n.record != nil {
		count = len(n.record.Devices)
	}
	seat := ares.Seat{Node: name, CPUs: o.Spec.CPUs, CPUMilli: int(o.Spec.CPUMilli), Memory: o.Spec.MemoryMB, NUMA: -1}
	add := func(index int) {
		if _, taken := n.taken[index]; !taken && index < count && len(seat.Shares) < o.GPUs {
			n.taken[index] = o.UID
			seat.Shares = append(seat.Shares, ares.Share{Device: n.record.Devices[index].ID, Index: index, Milli: 1000})
		}
	}
	for _, index := range wanted {
		add(index)
	}
	for index := range count {
		add(index)
	}
	return seat
}
