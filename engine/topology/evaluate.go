package topology

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Evaluate returns the cost and the score of a placement. Evaluate returns false if the placement breaks a rule. The
// rules limit three things: the number of members, the members on each node, and the members and nodes of one job in
// a leaf. The members must be in one domain of the required level, and must have the required bandwidth. Assignments
// must be sorted by node.
func (t *Tree) Evaluate(a *Request, f NodeEvaluator, picks []Assignment) (PlacementCost, ares.PlacementScore, bool) {
	t.leafScratch = t.leafScratch[:0]
	var v PlacementCost
	members, squares := 0, 0
	for i := 0; i < len(picks); {
		l, inside, from := t.leafOf[picks[i].Node], 0, i
		for ; i < len(picks) && t.leafOf[picks[i].Node] == l; i++ {
			p := picks[i]
			if p.Members < 1 || p.Members > f.Capacity(p.Node) {
				return v, ares.PlacementScore{}, false
			}
			inside += p.Members
			v.Penalty += p.Members * f.Penalty(p.Node)
			if len(a.PreviousNodes) > 0 && !slices.Contains(a.PreviousNodes, p.Node) {
				v.MovedMembers += p.Members
			}
		}
		if i-from > t.maxNodesPerLeaf || inside*a.DevicesPerMember > t.maxGPUsPerLeaf {
			return v, ares.PlacementScore{}, false
		}
		members += inside
		squares += inside * inside
		t.leafScratch = append(t.leafScratch, l)
	}
	v.Nodes = len(picks)
	if members < a.minMembers() || members > a.Members || !t.isAllowed(a, t.leafScratch, len(picks)) {
		return v, ares.PlacementScore{}, false
	}
	v.MissingMembers = a.Members - members
	if a.Strategy == Consolidated {
		v.ConsolidatedNodes = len(picks)
	} else {
		v.Imbalance = squares
	}
	merit := t.evaluateLeaves(a, t.leafScratch, members, len(picks), &v)
	return v, merit, true
}

// commonDomain returns the depth and the index of the narrowest domain that contains all of the given leaves.
// The leaves must be in ascending order.
func (t *Tree) commonDomain(leaves []int32) (depth, i int) {
	first, last := &t.ancestors[leaves[0]], &t.ancestors[leaves[len(leaves)-1]]
	for depth = leaf; first[depth] != last[depth]; depth-- {
	}
	return depth, int(first[depth])
}

// isAllowed reports whether a job may use the given number of nodes in these leaves. The method checks the required
// level and the required bandwidth.
func (t *Tree) isAllowed(a *Request, leaves []int32, nodes int) bool {
	depth, top := t.commonDomain(leaves)
	if want, ok := depthOf(a.RequiredLevel); ok && (depth < want && want <= leaf || want > leaf && nodes > 1) {
		return false
	}
	if a.MinGbps == 0 || nodes == 1 {
		return true
	}
	if t.domains[depth][top].gbps < a.MinGbps {
		return false
	}
	for _, l := range leaves {
		if !t.hasBandwidth(a.MinGbps, int(l), depth) {
			return false
		}
	}
	return true
}

// hasBandwidth checks the switches on the path from a leaf upwards. It reports whether all of them have at
// least the given bandwidth. The switch at the given depth is not included.
func (t *Tree) hasBandwidth(gbps, l, depth int) bool {
	for d := leaf; d > depth; d-- {
		if t.domains[d][t.ancestors[l][d]].gbps < gbps {
			return false
		}
	}
	return true
}

// evaluateLeaves sets the parts of the cost that depend on the leaves, and
// returns the placement score.
func (t *Tree) evaluateLeaves(a *Request, leaves []int32, members, nodes int, v *PlacementCost) ares.PlacementScore {
	depth, top := t.commonDomain(leaves)
	d := &t.domains[depth][top]
	v.Height = leaf - depth
	if a.PreferredDomain != "" && !t.isInNamedDomain(a.PreferredDomain, leaves[0], depth) {
		v.OutsidePreferredDomain = 1
	}
	if want, ok := depthOf(a.PreferredLevel); ok && (depth < want && want <= leaf || want > leaf && nodes > 1) {
		v.OutsidePreferredLevel = 1
	}
	if a.LatencySensitive && nodes > 1 {
		v.LatencyNanos = d.latencyNanos
	}
	gbps := t.gbpsBetween(leaves, depth, top)
	v.BandwidthLoss, v.NetworkNanos = t.maxGbps-gbps, d.latencyNanos
	disconnected := !t.areConnected(leaves)
	if a.Strategy == Distributed {
		v.SharedNodes, v.SharedLeaves = members-nodes, members-len(leaves)
	} else {
		v.Leaves = len(leaves)
		if disconnected {
			v.Disconnected = 1
		}
	}
	if len(a.PreviousNodes) > 0 {
		v.OutsidePreviousDomain, v.NewLeaves = t.compareWithPrevious(a, leaves, d)
	}
	m := t.scoreLeaves(a, leaves, members, depth, disconnected)
	v.ScoreLoss = 1000 - m.Weighted
	if a.Strategy != Distributed && m.Availability < 1000 {
		v.InexactFill = 1
	}
	m.Level, m.Domain, m.NetworkGbps, m.NetworkLatencyNanos = levelOf(depth), d.name, gbps, d.latencyNanos
	if nodes == 1 {
		m.Level, m.Domain, m.NetworkGbps, m.NetworkLatencyNanos = ares.LevelNode, "", 0, 0
	}
	return m
}

// isInNamedDomain finds the domain of leaf l at the given depth. It reports whether this domain has the given name,
// or is inside a domain with this name.
func (t *Tree) isInNamedDomain(name string, l int32, depth int) bool {
	for ; depth > root; depth-- {
		if t.domains[depth][t.ancestors[l][depth]].name == name {
			return true
		}
	}
	return false
}

// compareWithPrevious compares a placement with the nodes of the last attempt. The argument d is the domain that
// contains the leaves of the placement. The first result is 1 if d contains no node of the last attempt, and 0
// otherwise. The second result is the number of leaves that contain no node of the last attempt.
func (t *Tree) compareWithPrevious(a *Request, leaves []int32, d *domain) (stray, away int) {
	away = len(leaves)
	if !t.hasPreviousNode(a, d) {
		stray = 1
	}
	for _, l := range leaves {
		if slices.ContainsFunc(a.PreviousNodes, func(n int) bool { return t.leafOf[n] == l }) {
			away--
		}
	}
	return stray, away
}

// areConnected reports whether the leaves in the list are connected. They are connected if every leaf can be reached
// from every other leaf through adjacent leaves of the list. The list of leaves must be in ascending order.
func (t *Tree) areConnected(leaves []int32) bool {
	if len(leaves) == 1 {
		return true
	}
	t.reachedScratch = append(t.reachedScratch[:0], leaves[0])
	for i := 0; i < len(t.reachedScratch) && len(t.reachedScratch) < len(leaves); i++ {
		for _, next := range t.adjacent[t.reachedScratch[i]] {
			if _, among := slices.BinarySearch(leaves, next); among && !slices.Contains(t.reachedScratch, next) {
				t.reachedScratch = append(t.reachedScratch, next)
			}
		}
	}
	return len(t.reachedScratch) == len(leaves)
}

// The list `alignment` holds scores for how close leaves are to each other. The score depends on the depth of the
// narrowest domain that contains all the leaves.
var alignment = [depthCount]int{root: 0, region: 250, zone: 500, spine: 750, leaf: 1000}

// alignmentAdjacent is the lowest alignment of leaves that are connected through adjacent leaves.
const alignmentAdjacent = 900

// scoreLeaves returns the weighted score of leaves for a request.
func (t *Tree) scoreLeaves(a *Request, leaves []int32, members, depth int, disconnected bool) ares.PlacementScore {
	align := alignment[depth]
	if !disconnected {
		align = max(align, alignmentAdjacent)
	}
	var stats leafStats
	for _, l := range leaves {
		t.addLeafStats(&stats, int(l), a.DevicesPerMember)
	}
	return t.weightedScore(&stats, members, align)
}

// addLeafStats adds the statistics of leaf l, including its capacity for members that need the given number of
// devices.
func (t *Tree) addLeafStats(stats *leafStats, l, devices int) {
	s := &t.leafStats[l]
	stats.devices += s.devices
	stats.free += s.free
	stats.history += s.history
	stats.nodes += s.nodes
	if devices > 0 {
		stats.capacity += t.capacityBound(leaf, l, devices)
	}
}

// weightedScore combines four parts, each from 0 to 1000:
//
//   - availability: the job's share of the free capacity in its leaves (1000 if the job fills the leaves exactly,
//     low if it fragments them);
//   - alignment: 1000 for one leaf, 900 for adjacent leaves, 750 for one spine,
//     500 for one zone, 250 for one region, 0 otherwise;
//   - utilization: the share of the leaves' devices that are already in use, so that empty leaves stay empty;
//   - history: the mean history score of the nodes in these leaves.
func (t *Tree) weightedScore(stats *leafStats, members, align int) ares.PlacementScore {
	m := ares.PlacementScore{Availability: 1000, Alignment: align, History: stats.history / stats.nodes}
	if stats.capacity > members {
		m.Availability = members * 1000 / stats.capacity
	}
	if stats.devices > 0 {
		m.Utilization = (stats.devices - stats.free) * 1000 / stats.devices
	}
	w := t.weights
	m.Weighted = (w.Availability*m.Availability + w.Alignment*m.Alignment + w.Utilization*m.Utilization + w.History*m.History) / 1000
	return m
}
