package topology

import (
	"cmp"
	"slices"
)

// candidateNode is a node on which members fit. It includes the cost of placing one member there.
type candidateNode struct {
	node, capacity int // index of the node, and how many members it can take
	moved, waste   int // cost per member; moved is 1 if the last attempt did not use the node
}

// compareCost orders nodes by the cost of one member, the cheapest node first.
func (c *candidateNode) compareCost(o *candidateNode) int {
	return cmp.Or(cmp.Compare(c.moved, o.moved), cmp.Compare(c.waste, o.waste))
}

// leafCandidates holds the nodes of a leaf on which members fit.
type leafCandidates struct {
	round      int             // the search round that the nodes belong to
	nodes      []candidateNode // in the order in which they are used
	isComplete bool            // nodes has every node with capacity
	costs      []leafCost      // by number of members
	costsRound int             // the search round that costs belong to
}

// leafCost is the contribution of one leaf to the cost of a placement. The fields of a leafCost are compared in the
// order of their declaration. For consolidated jobs, the field `primary` is the number of nodes. For distributed
// jobs, it is the negative number of nodes. For balanced jobs, it is 0.
type leafCost struct{ primary, movedMembers, imbalance, waste, nodes int }

// The method `plus` returns the sum of two costs.
func (c leafCost) plus(o leafCost) leafCost {
	return leafCost{c.primary + o.primary, c.movedMembers + o.movedMembers, c.imbalance + o.imbalance, c.waste + o.waste, c.nodes + o.nodes}
}

// The method `less` reports whether the cost c is lower than the cost o.
func (c *leafCost) less(o *leafCost) bool {
	switch {
	case c.primary != o.primary:
		return c.primary < o.primary
	case c.movedMembers != o.movedMembers:
		return c.movedMembers < o.movedMembers
	case c.imbalance != o.imbalance:
		return c.imbalance < o.imbalance
	case c.waste != o.waste:
		return c.waste < o.waste
	}
	return c.nodes < o.nodes
}

// In a leaf with more than maxFullScanNodes nodes, the search samples candidate nodes instead of scanning all nodes.
// For each number of free devices, the search samples enough nodes to hold the job. It also samples spareNodes
// additional nodes.
const (
	maxFullScanNodes = 16
	spareNodes       = 4
)

// candidatesOf returns the candidate nodes of leaf l. If `complete` is true, the candidates include every node
// with capacity.
func (s *search) candidatesOf(l int, complete bool) *leafCandidates {
	lc := &s.candidates[l]
	if lc.round == s.round && (lc.isComplete || !complete) {
		return lc
	}
	lc.round, lc.nodes, lc.isComplete = s.round, lc.nodes[:0], true
	d := &s.tree.domains[leaf][l]
	if d.endNode-d.firstNode <= maxFullScanNodes || complete {
		for n := d.firstNode; n < d.endNode; n++ {
			if s.tree.free[n] >= s.ask.DevicesPerMember {
				s.addCandidate(lc, n)
			}
		}
	} else {
		lc.isComplete = false
		for _, n := range s.ask.PreviousNodes {
			if n >= d.firstNode && n < d.endNode && s.tree.free[n] >= s.ask.DevicesPerMember {
				s.addCandidate(lc, n)
			}
		}
		for free := s.ask.DevicesPerMember; free < s.tree.capacityWidth; free++ {
			s.sampleNodes(lc, d, free)
		}
	}
	consolidated := s.ask.Strategy == Consolidated
	slices.SortFunc(lc.nodes, func(a, b candidateNode) int {
		if consolidated && a.capacity != b.capacity {
			return b.capacity - a.capacity
		}
		return cmp.Or(a.compareCost(&b), b.capacity-a.capacity, a.node-b.node)
	})
	return lc
}

// sampleNodes adds nodes with the given number of free devices until these nodes can hold the job. Then it
// adds spareNodes further nodes.
func (s *search) sampleNodes(lc *leafCandidates, d *domain, free int) {
	capacity, left := 0, spareNodes
	for n := s.tree.nextWithFree(free, d.firstNode, d.endNode); n < d.endNode && left > 0; n = s.tree.nextWithFree(free, n+1, d.endNode) {
		if len(s.ask.PreviousNodes) > 0 && slices.Contains(s.ask.PreviousNodes, n) {
			continue
		}
		if capacity += s.addCandidate(lc, n); capacity >= s.members {
			left--
		}
	}
}

// addCandidate adds node n to the candidates if it has capacity, and returns its capacity.
func (s *search) addCandidate(lc *leafCandidates, n int) int {
	capacity := min(s.nodes.Capacity(n), s.members)
	if capacity <= 0 {
		return 0
	}
	candidate := candidateNode{node: n, capacity: capacity, waste: s.nodes.Penalty(n)}
	if len(s.ask.PreviousNodes) > 0 && !slices.Contains(s.ask.PreviousNodes, n) {
		candidate.moved = 1
	}
	lc.nodes = append(lc.nodes, candidate)
	return capacity
}

// leafCapacity returns how many members of the job fit in leaf l. The argument `limit` is the maximum number of
// nodes.
func (s *search) leafCapacity(l, limit int) int {
	most := min(s.members, s.maxMembersPerLeaf)
	if limit < most && s.ask.DevicesPerMember > 0 {
		most = min(most, limit*(s.tree.maxFreeDevices(l)/s.ask.DevicesPerMember))
	}
	lc := s.candidatesOf(l, false)
	if capacity := s.capacityOnNodes(lc, limit); capacity >= most || lc.isComplete {
		return min(capacity, most)
	}
	return min(s.capacityOnNodes(s.candidatesOf(l, true), limit), most)
}

// capacityOnNodes returns how many members fit on the candidate nodes with the largest capacity. The argument
// `limit` is the maximum number of nodes.
func (s *search) capacityOnNodes(lc *leafCandidates, limit int) int {
	capacity := 0
	if limit >= len(lc.nodes) {
		for i := range lc.nodes {
			capacity += lc.nodes[i].capacity
		}
		return capacity
	}
	s.capacities = s.capacities[:0]
	for i := range lc.nodes {
		s.capacities = append(s.capacities, lc.nodes[i].capacity)
	}
	slices.Sort(s.capacities)
	for _, r := range s.capacities[len(s.capacities)-limit:] {
		capacity += r
	}
	return capacity
}

// The method `assign` places members in leaf l at the lowest cost. The argument `limit` is the maximum number of
// nodes. If `out` is not nil, the method appends the assignments to it. The method returns false if the members do
// not fit.
func (s *search) assign(l, members, limit int, out *[]Assignment) (leafCost, bool) {
	if s.leafCapacity(l, limit) < members {
		return leafCost{}, false
	}
	nodes := s.candidates[l].nodes
	switch s.ask.Strategy {
	case Consolidated:
		return s.assignFewestNodes(nodes, members, out), true
	case Distributed:
		return s.assignMostNodes(nodes, members, limit, out), true
	}
	used, left := 0, members
	for i := 0; left > 0; i++ {
		left -= min(nodes[i].capacity, left)
		used++
	}
	var c leafCost
	if used > limit {
		c = s.knapsack.solve(nodes, members, limit, false, out)
	} else {
		c = fillInOrder(nodes[:used], members, out)
	}
	c.imbalance = members * members
	return c, true
}

// assignFewestNodes places the members on as few nodes as possible. The nodes must be sorted by capacity, the largest
// first.
func (s *search) assignFewestNodes(nodes []candidateNode, members int, out *[]Assignment) leafCost {
	capacity, used := 0, 0
	for ; capacity < members; used++ {
		capacity += nodes[used].capacity
	}
	var c leafCost
	if capacity == members || nodes[0].capacity == nodes[len(nodes)-1].capacity {
		c = fillInOrder(nodes[:used], members, out)
	} else {
		c = s.knapsack.solve(nodes, members, used, true, out)
	}
	c.primary = c.nodes
	return c
}

// assignMostNodes places the members on as many nodes as possible. The argument limit is the maximum number of nodes.
// The nodes must be sorted by cost, the cheapest first.
func (s *search) assignMostNodes(nodes []candidateNode, members, limit int, out *[]Assignment) leafCost {
	var c leafCost
	switch {
	case members <= min(len(nodes), limit):
		c = fillOneEach(nodes[:members], 0, out)
	case len(nodes) <= limit:
		c = fillOneEach(nodes, members-len(nodes), out)
	default:
		c = s.knapsack.solve(nodes, members, limit, true, out)
	}
	c.primary, c.imbalance = -c.nodes, members*members
	return c
}

// fillInOrder fills one node after the other with members.
func fillInOrder(nodes []candidateNode, members int, out *[]Assignment) (c leafCost) {
	for i := 0; members > 0; i++ {
		n := min(nodes[i].capacity, members)
		members -= n
		c.add(&nodes[i], n, out)
	}
	return c
}

// fillOneEach places one member on each node, and the remaining members on the first nodes that have capacity left.
func fillOneEach(nodes []candidateNode, more int, out *[]Assignment) (c leafCost) {
	for i := range nodes {
		n := min(nodes[i].capacity-1, more)
		more -= n
		c.add(&nodes[i], n+1, out)
	}
	return c
}

// The method `add` adds the cost of placing members on node n. If `out` is not nil, the
// method appends the assignment to it.
func (c *leafCost) add(n *candidateNode, members int, out *[]Assignment) {
	c.movedMembers += n.moved * members
	c.waste += n.waste * members
	c.nodes++
	if out != nil {
		*out = append(*out, Assignment{n.node, members})
	}
}

// sortByNode sorts assignments by node.
func sortByNode(picks []Assignment) {
	slices.SortFunc(picks, func(a, b Assignment) int { return a.Node - b.Node })
}
