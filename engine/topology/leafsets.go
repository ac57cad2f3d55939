package topology

import (
	"cmp"
	"slices"
)

// These constants limit the search for the best leaves of a domain.
const (
	poolSize    = 24      // number of leaves that are combined
	maxTiedSets = 8       // number of sets that are filled although they can only equal the best
	maxSteps    = 2048    // total number of steps
	maxSplits   = 1 << 12 // entries of the table that splits members over leaves
)

// leafOption is a leaf that a set of leaves may use.
type leafOption struct {
	leaf, members int // members is its capacity, or an upper bound on it
	waste         int // waste of its cheapest node, if known
}

// leafSetSearch searches for the best set of leaves in one domain.
type leafSetSearch struct {
	domain       *domain
	depth        int
	byBound      []leafOption // all leaves with a positive capacity bound, highest first
	byCapacity   []leafOption // leaves whose capacity was computed, highest first
	pool         []leafOption // leaves that are combined
	size         int          // number of leaves of a set
	stepsLeft    int          // steps left of maxSteps
	tiedSets     int          // number of filled sets that could only equal the best
	chosen       []int32      // leaves of the current set
	chosenSorted []int32      // chosen, ascending
	frontiers    [][]int32    // leaves adjacent to the chosen ones, by number of chosen leaves
	nearPrevious []int32      // leaves that can be connected with a previous leaf, ascending
	nearQueue    []int32      // the same leaves in the order of discovery
	sortOffsets  []int        // scratch memory of the counting sort
	split        []int        // members of each leaf of chosenSorted
	splitTable   []splitStep  // by number of leaves and members placed
	fast         []fastLeaf   // scratch memory of fastest
}

// splitStep describes the cheapest way to place a given number of members in the first leaves of a set.
type splitStep struct {
	cost        leafCost
	lastMembers int  // members in the last of these leaves
	isReached   bool // false if it is impossible
}

// The method `reset` lists the leaves of a domain, sorted by their capacity bounds with a counting sort.
func (z *leafSetSearch) reset(s *search, d *domain, depth int) {
	z.domain, z.depth = d, depth
	z.sortOffsets = append(z.sortOffsets[:0], make([]int, s.members+2)...)
	for l := d.firstLeaf; l < d.endLeaf; l++ {
		z.sortOffsets[s.members-s.leafCapacityBound(l, depth)+1]++
	}
	for i := 1; i < len(z.sortOffsets); i++ {
		z.sortOffsets[i] += z.sortOffsets[i-1]
	}
	z.byBound = append(z.byBound[:0], make([]leafOption, d.endLeaf-d.firstLeaf)...)
	for l := d.firstLeaf; l < d.endLeaf; l++ {
		n := s.leafCapacityBound(l, depth)
		z.byBound[z.sortOffsets[s.members-n]] = leafOption{leaf: l, members: n}
		z.sortOffsets[s.members-n]++
	}
	for len(z.byBound) > 0 && z.byBound[len(z.byBound)-1].members == 0 {
		z.byBound = z.byBound[:len(z.byBound)-1]
	}
}

// searchFewest evaluates the sets with the smallest number of leaves that can hold the job. It reports whether such
// a set exists.
func (z *leafSetSearch) searchFewest(s *search) bool {
	if z.size = z.minLeaves(s); z.size < 2 {
		return false
	}
	z.chosen = z.chosen[:0]
	need := s.members // capacity that a leaf needs in addition to the largest leaves
	for i, r := range z.byCapacity[:z.size] {
		z.chosen = append(z.chosen, int32(r.leaf))
		if i < z.size-1 {
			need -= r.members
		}
	}
	z.fillChosen(s)
	if z.size > poolSize {
		return true
	}
	if z.searchConnected(s); s.best.Disconnected == 0 && s.best.Leaves == z.size && s.best.Height == leaf-z.depth {
		return true // no disconnected set can be better
	}
	z.fillPool(s, need)
	z.chosen = z.chosen[:0]
	z.combinePool(s, 0, s.members)
	return true
}

// minLeaves returns the smallest number of leaves that can hold the job. To find this number, it computes the
// capacity of the largest leaves, one after the other. minLeaves returns 0 if all leaves together cannot hold the
// job.
func (z *leafSetSearch) minLeaves(s *search) int {
	z.byCapacity = z.byCapacity[:0]
	total := 0
	for _, bound := range z.byBound {
		if total >= s.members {
			if k := z.leavesFor(s.members); k == 1 || bound.members <= z.byCapacity[k-2].members {
				return k
			}
		}
		r := leafOption{leaf: bound.leaf, members: s.leafCapacity(bound.leaf, s.tree.maxNodesPerLeaf)}
		total += r.members
		at := len(z.byCapacity)
		for at > 0 && z.byCapacity[at-1].members < r.members {
			at--
		}
		z.byCapacity = slices.Insert(z.byCapacity, at, r)
	}
	return z.leavesFor(s.members)
}

// leavesFor uses the largest leaves first. It returns how many leaves are needed for the given number of
// members. It considers only leaves whose capacity has been computed, and returns 0 if these leaves are
// not enough.
func (z *leafSetSearch) leavesFor(members int) int {
	for i, r := range z.byCapacity {
		if members -= r.members; members <= 0 {
			return i + 1
		}
	}
	return 0
}

// fillPool selects the leaves to combine. These are the previous leaves of the job, the largest leaves, and
// leaves that are just large enough to complete a set.
func (z *leafSetSearch) fillPool(s *search, need int) {
	z.pool = z.pool[:0]
	for _, n := range s.ask.PreviousNodes {
		l := int(s.tree.leafOf[n])
		if i := slices.IndexFunc(z.byBound, func(r leafOption) bool { return r.leaf == l }); i >= 0 && z.byBound[i].members >= need {
			z.addToPool(z.byBound[i])
		}
	}
	for _, r := range z.byCapacity[:z.size] {
		z.addToPool(r)
	}
	fromFastest := len(z.pool)
	for _, r := range z.fastest(s, need, poolSize/2) {
		z.addToPool(r)
	}
	fromFastest = len(z.pool) - fromFastest
	for i := len(z.byBound) - 1; i >= 0 && len(z.pool) < fromFastest+poolSize/2+z.size; i-- {
		if z.byBound[i].members >= need {
			z.addToPool(z.byBound[i])
		}
	}
	for i := 0; i < len(z.byBound) && z.byBound[i].members >= need && len(z.pool) < fromFastest+poolSize+z.size; i++ {
		z.addToPool(z.byBound[i])
	}
	z.sortPool()
}

// addToPool adds a leaf to the pool unless the pool already contains it.
func (z *leafSetSearch) addToPool(r leafOption) {
	if !slices.ContainsFunc(z.pool, func(o leafOption) bool { return o.leaf == r.leaf }) {
		z.pool = append(z.pool, r)
	}
}

// sortPool sorts the leaves by capacity, the smallest first, because a set that is just large enough for the job
// causes the least fragmentation.
func (z *leafSetSearch) sortPool() {
	slices.SortFunc(z.pool, func(a, b leafOption) int {
		return cmp.Or(cmp.Compare(a.members, b.members), cmp.Compare(a.waste, b.waste), cmp.Compare(a.leaf, b.leaf))
	})
}

// combinePool adds leaves from pool[from:] to the chosen leaves, and tries the resulting sets. The argument `left`
// is the number of members that the chosen leaves cannot hold.
func (z *leafSetSearch) combinePool(s *search, from, left int) {
	missing := z.size - len(z.chosen)
	if missing == 0 {
		z.tryChosen(s)
		return
	}
	rest := left // members left over if the largest leaves complete the set
	for i := len(z.pool) - missing + 1; i < len(z.pool); i++ {
		rest -= z.pool[i].members
	}
	for i := from; i <= len(z.pool)-missing && z.stepsLeft > 0; i++ {
		if z.stepsLeft--; z.pool[i].members < rest || i > from && z.tiedSets == maxTiedSets && s.areInterchangeable(z.pool[i], z.pool[i-1]) {
			continue
		}
		z.chosen = append(z.chosen, int32(z.pool[i].leaf))
		z.combinePool(s, i+1, left-z.pool[i].members)
		z.chosen = z.chosen[:len(z.chosen)-1]
	}
}

// areInterchangeable reports whether leaf b can replace leaf a in a set. The cost of the set must stay
// the same, except for its waste.
func (s *search) areInterchangeable(a, b leafOption) bool {
	t := s.tree
	return a.members == b.members && t.leafStats[a.leaf] == t.leafStats[b.leaf] && len(s.ask.PreviousNodes) == 0 &&
		t.capacityBound(leaf, a.leaf, s.ask.DevicesPerMember) == t.capacityBound(leaf, b.leaf, s.ask.DevicesPerMember) &&
		len(t.adjacent[a.leaf]) == 0 && len(t.adjacent[b.leaf]) == 0 &&
		(!t.unevenGbps || t.uplinkGbps(a.leaf, s.leafSets.depth) == t.uplinkGbps(b.leaf, s.leafSets.depth))
}

// tryChosen places the job in the chosen leaves. It does so only if the result can be better than the best placement
// so far.
func (z *leafSetSearch) tryChosen(s *search) {
	z.stepsLeft -= 8 * z.size
	if s.found {
		switch order := z.compareToBest(s); {
		case order > 0 || order == 0 && z.tiedSets == maxTiedSets:
			return
		case order == 0:
			z.tiedSets++
		}
	}
	z.fillChosen(s)
}

// compareToBest computes a lower bound on the cost of the chosen leaves, and compares it with the best placement so
// far. It compares all parts of the cost except waste and nodes.
func (z *leafSetSearch) compareToBest(s *search) int {
	z.chosenSorted = append(z.chosenSorted[:0], z.chosen...)
	slices.Sort(z.chosenSorted)
	b := &s.best
	bound := PlacementCost{MissingMembers: b.MissingMembers, Penalty: b.Penalty, Nodes: b.Nodes}
	if len(s.ask.PreviousNodes) > 0 {
		bound.MovedMembers = s.members
		for _, n := range s.ask.PreviousNodes {
			if _, chosen := slices.BinarySearch(z.chosenSorted, s.tree.leafOf[n]); chosen {
				bound.MovedMembers = max(bound.MovedMembers-s.keepableMembers(n), 0)
			}
		}
	}
	s.tree.evaluateLeaves(s.ask, z.chosenSorted, s.members, s.members, &bound)
	if s.ask.Strategy == Consolidated {
		bound.ConsolidatedNodes = z.size
	} else {
		each, more := s.members/z.size, s.members%z.size
		bound.Imbalance = (z.size-more)*each*each + more*(each+1)*(each+1)
	}
	bound.OutsidePreferredLevel = b.OutsidePreferredLevel
	return bound.Compare(b)
}

// searchMost evaluates sets with as many leaves as the job can use. It reports whether the job can use at least two
// leaves.
func (z *leafSetSearch) searchMost(s *search) bool {
	z.pool = z.pool[:0]
	for _, n := range s.ask.PreviousNodes {
		l := int(s.tree.leafOf[n])
		if slices.ContainsFunc(z.byBound, func(r leafOption) bool { return r.leaf == l }) {
			z.addLeafToPool(s, l, len(z.pool))
		}
	}
	for _, r := range z.fastest(s, 1, s.members+poolSize/2) {
		z.addLeafToPool(s, r.leaf, len(z.pool))
	}
	kept := len(z.pool)
	for i := len(z.byBound) - 1; i >= 0 && len(z.pool) < s.members+poolSize; i-- {
		z.addLeafToPool(s, z.byBound[i].leaf, kept)
	}
	z.size = min(s.members, len(z.pool))
	if z.size < 2 {
		return false
	}
	z.sortPool()
	z.chosen = z.chosen[:0]
	for _, r := range z.pool[:z.size] {
		z.chosen = append(z.chosen, int32(r.leaf))
	}
	z.fillChosen(s)
	if z.chosen = z.chosen[:0]; z.size <= poolSize {
		z.combinePool(s, 0, s.members)
	}
	return true
}

// addLeafToPool adds a leaf to the pool if it has capacity. The argument `among` is a number of pool entries. Only
// these entries are checked for duplicates.
func (z *leafSetSearch) addLeafToPool(s *search, l, among int) {
	members := s.leafCapacity(l, s.tree.maxNodesPerLeaf)
	if members == 0 || slices.ContainsFunc(z.pool[:among], func(r leafOption) bool { return r.leaf == l }) {
		return
	}
	z.pool = append(z.pool, leafOption{l, members, s.candidates[l].nodes[0].waste})
}

// fillChosen places the job in the chosen leaves at the lowest cost, with one member or more in each leaf. If the
// table would be too large, fillChosen splits the members by the placement strategy alone.
func (z *leafSetSearch) fillChosen(s *search) {
	z.chosenSorted = append(z.chosenSorted[:0], z.chosen...)
	slices.Sort(z.chosenSorted)
	z.split = append(z.split[:0], make([]int, len(z.chosenSorted))...)
	if (len(z.chosenSorted)+1)*(s.members+1) <= maxSplits {
		if !z.splitCheapest(s) {
			return
		}
	} else if !z.splitGreedy(s) {
		return
	}
	s.trial = s.trial[:0]
	for i, members := range z.split {
		s.assign(int(z.chosenSorted[i]), members, s.tree.maxNodesPerLeaf, &s.trial)
	}
	sortByNode(s.trial)
	s.keepIfBetter(s.trial)
}

// splitCheapest splits the members over the chosen leaves at the lowest cost. splitCheapest uses dynamic programming
// over leaves and placed members. splitCheapest returns false if the members do not fit.
func (z *leafSetSearch) splitCheapest(s *search) bool {
	row := s.members + 1
	z.splitTable = append(z.splitTable[:0], make([]splitStep, (len(z.chosenSorted)+1)*row)...)
	z.splitTable[0].isReached = true
	for i, l := range z.chosenSorted {
		costs := s.leafCosts(int(l))
		before, after := z.splitTable[i*row:(i+1)*row], z.splitTable[(i+1)*row:(i+2)*row]
		most := s.members - (len(z.chosenSorted) - 1 - i) // every later leaf gets at least one member
		for placed := i; placed <= most; placed++ {
			if !before[placed].isReached {
				continue
			}
			for x := 1; x < len(costs) && placed+x <= most; x++ {
				c := before[placed].cost.plus(costs[x])
				if to := &after[placed+x]; !to.isReached || c.less(&to.cost) {
					*to = splitStep{c, x, true}
				}
			}
			z.stepsLeft -= len(costs)
		}
	}
	for i, left := len(z.chosenSorted), s.members; i > 0; i-- {
		way := &z.splitTable[i*row+left]
		if !way.isReached {
			return false
		}
		z.split[i-1] = way.lastMembers
		left -= way.lastMembers
	}
	return true
}

// splitGreedy splits the members by the placement strategy alone. For consolidated jobs, it fills leaf after
// leaf. For other jobs, it gives each leaf one member in turn. It returns false if the members do not fit.
func (z *leafSetSearch) splitGreedy(s *search) bool {
	left := s.members - len(z.chosenSorted)
	for i := range z.split {
		z.split[i] = 1
	}
	for placed := true; placed && left > 0; {
		placed = false
		for i, l := range z.chosenSorted {
			more := min(s.leafCapacity(int(l), s.tree.maxNodesPerLeaf)-z.split[i], left)
			if s.ask.Strategy != Consolidated {
				more = min(more, 1)
			}
			if more > 0 {
				z.split[i] += more
				left -= more
				placed = true
			}
		}
	}
	z.stepsLeft = 0
	return left == 0
}

// leafCosts returns a list of costs for leaf l. Entry n is the cost of placing n members in the leaf, and the
// last entry is for the leaf's capacity.
func (s *search) leafCosts(l int) []leafCost {
	st := &s.candidates[l]
	if st.costsRound == s.round {
		return st.costs
	}
	st.costsRound = s.round
	st.costs = append(st.costs[:0], leafCost{})
	for x := 1; x <= s.leafCapacity(l, s.tree.maxNodesPerLeaf); x++ {
		c, _ := s.assign(l, x, s.tree.maxNodesPerLeaf, nil)
		st.costs = append(st.costs, c)
	}
	return st.costs
}
