package topology

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Value is what picks are worth to a job, with the parts of their merit. False
// means that they break a rule: too few members or more than a node has room
// for, not in one domain of the required level, a network that is too narrow
// or not known, more of a leaf than one job may take. Picks are in the order of
// their nodes.
func (t *Tree) Value(a *Ask, f Fleet, picks []Pick) (Value, ares.Merit, bool) {
	t.judged = t.judged[:0]
	var v Value
	members, squares := 0, 0
	for i := 0; i < len(picks); {
		l, inside, from := t.leafOf[picks[i].Node], 0, i
		for ; i < len(picks) && t.leafOf[picks[i].Node] == l; i++ {
			p := picks[i]
			if p.Members < 1 || p.Members > f.Room(p.Node) {
				return v, ares.Merit{}, false
			}
			inside += p.Members
			v.Waste += p.Members * f.Waste(p.Node)
			if len(a.Before) > 0 && !slices.Contains(a.Before, p.Node) {
				v.Moved += p.Members
			}
		}
		if i-from > t.maxNodes || inside*a.Devices > t.maxGPUs {
			return v, ares.Merit{}, false
		}
		members += inside
		squares += inside * inside
		t.judged = append(t.judged, l)
	}
	v.Nodes = len(picks)
	if members < a.min() || members > a.Members || !t.allowed(a, t.judged, len(picks)) {
		return v, ares.Merit{}, false
	}
	v.Missing = a.Members - members
	if a.Strategy == Consolidated {
		v.Spread = len(picks)
	} else {
		v.Shape = squares
	}
	merit := t.judge(a, t.judged, members, len(picks), &v)
	return v, merit, true
}

// holder is the depth and domain that is the narrowest to hold these leaves,
// which ascend.
func (t *Tree) holder(leaves []int32) (depth, i int) {
	first, last := &t.up[leaves[0]], &t.up[leaves[len(leaves)-1]]
	for depth = leaf; first[depth] != last[depth]; depth-- {
	}
	return depth, int(first[depth])
}

// allowed says whether a job may be on so many nodes in these leaves.
func (t *Tree) allowed(a *Ask, leaves []int32, nodes int) bool {
	depth, top := t.holder(leaves)
	if want, ok := depthOf(a.Required); ok && (depth < want && want <= leaf || want > leaf && nodes > 1) {
		return false
	}
	if a.Gbps == 0 || nodes == 1 {
		return true
	}
	if t.domains[depth][top].gbps < a.Gbps {
		return false
	}
	for _, l := range leaves {
		if !t.reaches(a.Gbps, int(l), depth) {
			return false
		}
	}
	return true
}

// reaches says whether the switches from a leaf up to just below a depth carry
// so much.
func (t *Tree) reaches(gbps, l, depth int) bool {
	for d := leaf; d > depth; d-- {
		if t.domains[d][t.up[l][d]].gbps < gbps {
			return false
		}
	}
	return true
}

// judge fills in the parts of a value that the leaves decide, and the merit.
func (t *Tree) judge(a *Ask, leaves []int32, members, nodes int, v *Value) ares.Merit {
	depth, top := t.holder(leaves)
	d := &t.domains[depth][top]
	v.Wide = leaf - depth
	if a.PreferredDomain != "" && !t.inside(a.PreferredDomain, leaves[0], depth) {
		v.OffDomain = 1
	}
	if want, ok := depthOf(a.Preferred); ok && (depth < want && want <= leaf || want > leaf && nodes > 1) {
		v.OffLevel = 1
	}
	if a.LatencySensitive && nodes > 1 {
		v.Nanos = d.nanos
	}
	apart := !t.connected(leaves)
	if a.Strategy == Distributed {
		v.Doubled, v.Crowded = members-nodes, members-len(leaves)
	} else {
		v.Leaves = len(leaves)
		if apart {
			v.Apart = 1
		}
	}
	if len(a.Before) > 0 {
		v.Stray, v.Away = t.moved(a, leaves, d)
	}
	m := t.weigh(a, leaves, members, depth, apart)
	v.Merit = 1000 - m.Weighted
	if a.Strategy != Distributed && m.Availability < 1000 {
		v.Loose = 1
	}
	m.Level, m.Domain = levelOf(depth), d.name
	if nodes == 1 {
		m.Level, m.Domain = ares.LevelNode, ""
	}
	return m
}

// inside says whether what has its narrowest domain at a depth above this leaf
// is in a domain of that name.
func (t *Tree) inside(name string, l int32, depth int) bool {
	for ; depth > fleet; depth-- {
		if t.domains[depth][t.up[l][depth]].name == name {
			return true
		}
	}
	return false
}

// moved compares leaves and the domain that holds them with the nodes of before.
func (t *Tree) moved(a *Ask, leaves []int32, d *domain) (stray, away int) {
	away = len(leaves)
	if !t.held(a, d) {
		stray = 1
	}
	for _, l := range leaves {
		if slices.ContainsFunc(a.Before, func(n int) bool { return t.leafOf[n] == l }) {
			away--
		}
	}
	return stray, away
}

// connected says whether one gets from each leaf to each over adjacent ones
// among them.
func (t *Tree) connected(leaves []int32) bool {
	if len(leaves) == 1 {
		return true
	}
	t.reached = append(t.reached[:0], leaves[0])
	for i := 0; i < len(t.reached) && len(t.reached) < len(leaves); i++ {
		for _, next := range t.adjacent[t.reached[i]] {
			if _, among := slices.BinarySearch(leaves, next); among && !slices.Contains(t.reached, next) {
				t.reached = append(t.reached, next)
			}
		}
	}
	return len(t.reached) == len(leaves)
}

// How well leaves are aligned, by the narrowest level that holds them.
var alignment = [depths]int{fleet: 0, region: 250, zone: 500, spine: 750, leaf: 1000}

// alignedNeighbours is the alignment of adjacent leaves, if nothing narrower
// holds them.
const alignedNeighbours = 900

// weigh finds the weighted merit of leaves for a job.
func (t *Tree) weigh(a *Ask, leaves []int32, members, depth int, apart bool) ares.Merit {
	align := alignment[depth]
	if !apart {
		align = max(align, alignedNeighbours)
	}
	var sums leafSums
	for _, l := range leaves {
		t.add(&sums, int(l), a.Devices)
	}
	return t.merit(&sums, members, align)
}

// add adds what counts of a leaf.
func (t *Tree) add(sums *leafSums, l, devices int) {
	s := &t.sums[l]
	sums.devices += s.devices
	sums.free += s.free
	sums.history += s.history
	sums.nodes += s.nodes
	if devices > 0 {
		sums.seats += t.seats(leaf, l, devices)
	}
}

// merit weighs, each from 0 to 1000:
//
//   - availability: the job's share of the seats that its leaves have free, so
//     1000 when it fills them exactly and little when it breaks up much;
//   - alignment: 1000 for one leaf, 900 for adjacent leaves, 750 for one spine,
//     500 for one zone, 250 for one region, 0 beyond;
//   - utilization: the share of their devices that are taken already, so that
//     empty leaves stay whole;
//   - history: the mean of what Remember was told of their nodes.
func (t *Tree) merit(sums *leafSums, members, align int) ares.Merit {
	m := ares.Merit{Availability: 1000, Alignment: align, History: sums.history / sums.nodes}
	if sums.seats > members {
		m.Availability = members * 1000 / sums.seats
	}
	if sums.devices > 0 {
		m.Utilization = (sums.devices - sums.free) * 1000 / sums.devices
	}
	w := t.weights
	m.Weighted = (w.Availability*m.Availability + w.Alignment*m.Alignment + w.Utilization*m.Utilization + w.History*m.History) / 1000
	return m
}
