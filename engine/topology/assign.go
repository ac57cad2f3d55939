package topology

import (
	"cmp"
	"slices"
)

// candidateNode is a node that can take members, with the cost of each of them.
type candidateNode struct {
	node, capacity int // index, and how many members it can take
	moved, waste   int // per member; moved is 1 if the last attempt did not use the node
}

// compareCost orders nodes by the cost of a member, the cheapest first.
func (c *candidateNode) compareCost(o *candidateNode) int {
	return cmp.Or(cmp.Compare(c.moved, o.moved), cmp.Compare(c.waste, o.waste))
}

// leafCandidates has the nodes of a leaf that can take members.
type leafCandidates struct {
	round      int             // the search round that the nodes belong to
	nodes      []candidateNode // in the order in which they are used
	isComplete bool            // nodes has every node with capacity
	costs      []leafCost      // by number of members
	costsRound int             // the search round that costs belong to
}

// leafCost is the contribution of one leaf to the cost of a placement, compared
// in this order. primary is the number of nodes for consolidated jobs, its
// negative for distributed jobs, and 0 for balanced ones.
type leafCost struct{ primary, movedMembers, imbalance, waste, nodes int }

// plus returns the sum of two costs.
func (c leafCost) plus(o leafCost) leafCost {
	return leafCost{c.primary + o.primary, c.movedMembers + o.movedMembers, c.imbalance + o.imbalance, c.waste + o.waste, c.nodes + o.nodes}
}

// less reports whether c is the lower cost.
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

// In a leaf with more than maxFullScanNodes nodes, candidates are sampled: of
// each number of free devices as many as hold the job, and spareNodes more.
const (
	maxFullScanNodes = 16
	spareNodes       = 4
)

// candidatesOf returns the candidates of leaf l. With complete set, they
// include every node with capacity.
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

// sampleNodes adds nodes with this number of free devices until they hold the
// job, with spareNodes to choose from.
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

// addCandidate adds node n if it has capacity, and returns its capacity.
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

// leafCapacity returns how many members leaf l can take on at most limit nodes,
// up to the members of the job.
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

// capacityOnNodes returns how many members fit on the limit largest candidates.
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

// assign places members on at most limit nodes of leaf l at the lowest cost,
// and adds the picks to out unless it is nil. It returns false if they do not
// fit.
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

// assignFewestNodes uses the fewest nodes. The nodes must be sorted by
// capacity, the largest first.
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

// assignMostNodes uses as many nodes as possible, at most limit. The nodes must
// be sorted by cost, the cheapest first.
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

// fillInOrder fills one node after the other.
func fillInOrder(nodes []candidateNode, members int, out *[]Assignment) (c leafCost) {
	for i := 0; members > 0; i++ {
		n := min(nodes[i].capacity, members)
		members -= n
		c.add(&nodes[i], n, out)
	}
	return c
}

// fillOneEach places one member on each node, and more on the first ones with
// capacity.
func fillOneEach(nodes []candidateNode, more int, out *[]Assignment) (c leafCost) {
	for i := range nodes {
		n := min(nodes[i].capacity-1, more)
		more -= n
		c.add(&nodes[i], n+1, out)
	}
	return c
}

// add adds the cost of members on node n, and the pick unless out is nil.
func (c *leafCost) add(n *candidateNode, members int, out *[]Assignment) {
	c.movedMembers += n.moved * members
	c.waste += n.waste * members
	c.nodes++
	if out != nil {
		*out = append(*out, Assignment{n.node, members})
	}
}

// sortByNode sorts picks by node.
func sortByNode(picks []Assignment) {
	slices.SortFunc(picks, func(a, b Assignment) int { return a.Node - b.Node })
}
