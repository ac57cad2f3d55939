package topology

import "slices"

// maxKnapsackSteps limits the size of the table in the exact algorithm. Larger problems are solved by a greedy
// algorithm.
const maxKnapsackSteps = 1 << 11

// A `knapsack` finds the cheapest nodes for the members in one leaf. It is used if only a limited number of
// nodes may be used. If few nodes may be used, a large node may be better than a cheap one. The algorithm
// is dynamic programming over the number of nodes used and the number of members placed.
type knapsack struct {
	// The field `costs` is a table. It holds the lowest cost for each number of nodes used and each
	// number of members placed. Invariant: each entry except the first has nodes == 0 until a placement
	// for it is found.
	costs   []leafCost
	members []int           // members on a candidate, by candidate, nodes used and members placed
	sorted  []candidateNode // scratch memory of the greedy algorithm
}

// The method `solve` places members at the lowest cost. The argument `limit` is the maximum number of nodes. If
// the argument `exactly` is true, the method uses exactly that number of nodes. The caller must ensure that the
// members fit. If the problem needs more than maxKnapsackSteps steps, the method uses the nodes with the largest
// capacity instead.
func (k *knapsack) solve(candidates []candidateNode, members, limit int, exactly bool, out *[]Assignment) leafCost {
	limit = min(limit, members, len(candidates))
	row := members + 1
	table := (limit + 1) * row
	if len(candidates)*table > maxKnapsackSteps {
		k.sorted = append(k.sorted[:0], candidates...)
		slices.SortStableFunc(k.sorted, func(a, b candidateNode) int { return b.capacity - a.capacity })
		return fillOneEach(k.sorted[:limit], members-limit, out)
	}
	k.costs = append(k.costs[:0], make([]leafCost, table)...)
	k.members = append(k.members[:0], make([]int, len(candidates)*table)...)
	for i := range candidates {
		k.addNode(&candidates[i], k.members[i*table:(i+1)*table], limit, members)
	}
	best := limit
	if !exactly {
		for n := limit; n > 0; n-- {
			if c, o := &k.costs[n*row+members], &k.costs[best*row+members]; c.nodes > 0 && (o.nodes == 0 || !o.less(c)) {
				best = n
			}
		}
	}
	return k.extract(candidates, best, members, table, out)
}

// addNode updates the cost table with placements that use one more candidate. For each updated entry, addNode stores
// the number of members on this candidate in the slice `placed`.
func (k *knapsack) addNode(c *candidateNode, placed []int, limit, members int) {
	row := members + 1
	for n := limit; n > 0; n-- {
		for q := members; q >= n; q-- {
			at := n*row + q
			for x := 1; x <= min(c.capacity, q-(n-1)); x++ {
				from := &k.costs[(n-1)*row+q-x]
				if from.nodes != n-1 || n == 1 && q != x {
					continue
				}
				cost := leafCost{movedMembers: from.movedMembers + c.moved*x, waste: from.waste + c.waste*x, nodes: n}
				if k.costs[at].nodes == 0 || cost.less(&k.costs[at]) {
					k.costs[at], placed[at] = cost, x
				}
			}
		}
	}
}

// The method `extract` returns the cost of the table entry for the given numbers of nodes and members. If `out` is
// not nil, the method appends the assignments of that entry to it, in reverse order of the candidates.
func (k *knapsack) extract(candidates []candidateNode, nodes, members, table int, out *[]Assignment) leafCost {
	cost := k.costs[nodes*(members+1)+members]
	if out == nil {
		return cost
	}
	row := members + 1
	for i := len(candidates) - 1; nodes > 0; i-- {
		if x := k.members[i*table+nodes*row+members]; x > 0 {
			*out = append(*out, Assignment{candidates[i].node, x})
			nodes--
			members -= x
		}
	}
	return cost
}
