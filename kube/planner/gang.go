package planner

import (
	"cmp"
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
	lost  bool
	size  int // the number of pods that a whole gang has
	group watch.GroupRef
	told  GroupState // the last state of the group that was reported
	// misfit is true while no domain was found that holds all parts of the gang.
	misfit bool
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
	p.gangs[g.Key].size, p.gangs[g.Key].group = g.Size, g.Group
	return p.gangs[g.Key]
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

// formUnits makes units of the waiting pods of changed gangs. Pods that replace lost ones are placed together, near the
// rest. A gang may have more pods than must be placed together. The others are placed one by one, near the first ones, once
// those are bound.
func (p *Planner) formUnits() {
	for _, g := range slices.SortedFunc(maps.Keys(p.changed), func(a, b *gang) int { return cmp.Compare(a.key, b.key) }) {
		list := p.waiting(g)
		if len(list) == 0 {
			continue
		}
		size := max(list[0].Gang.Size, 1)
		near := g.placed()
		if near == nil {
			if len(list) >= size && !g.evicted() && !g.hasUnit() {
				p.addGang(g, list[:size])
			}
			continue
		}
		inUnits, bound := g.count()
		missing := min(max(size-inUnits, 0), len(list))
		for _, part := range alike(list[:missing]) {
			p.addUnit(g, part, near)
		}
		if bound < size {
			continue
		}
		for _, o := range list[missing:] {
			p.addUnit(g, []*pod{o}, near)
		}
	}
	clear(p.changed)
}

// count returns how many pods of the gang are in a unit that stays, and how many of them are bound.
func (g *gang) count() (inUnits, bound int) {
	for _, o := range g.pods {
		if o.unit == nil || o.unit.leaving || o.Leaving {
			continue
		}
		inUnits++
		if o.Node != "" {
			bound++
		}
	}
	return inUnits, bound
}

func (g *gang) hasUnit() bool {
	for _, o := range g.pods {
		if o.unit != nil {
			return true
		}
	}
	return false
}

// addGang makes the units of a whole gang: one, or several if its pods differ. If one domain must hold the whole gang, the
// pods with the most GPUs choose it, because they fit into the fewest domains.
func (p *Planner) addGang(g *gang, list []*pod) {
	groups := alike(list)
	slices.SortStableFunc(groups, func(a, b []*pod) int { return cmp.Compare(len(b)*b[0].GPUs, len(a)*a[0].GPUs) })
	parts := make([]*unit, len(groups))
	for i, part := range groups {
		parts[i] = p.addPart(g, part, nil, i > 0)
	}
	if len(parts) > 1 {
		p.hasParts = true
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
	return a.GPUs == b.GPUs && a.MilliCPUs() == b.MilliCPUs() && a.MemoryMB == b.MemoryMB && reflect.DeepEqual(a.Constraints, b.Constraints)
}
