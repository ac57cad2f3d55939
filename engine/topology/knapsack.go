package topology

import "slices"

// maxKnapsackSteps limits the table of the exact algorithm. Larger problems are
// solved greedily.
const maxKnapsackSteps = 1 << 11

// knapsack finds the cheapest nodes for the members of one leaf when the number
// of nodes is limited, so that a cheap node may have to give way to a larger one.
// It is a dynamic program over (nodes used, members placed).
type knapsack struct {
	// costs has the least cost by nodes used and members placed. Invariant: an
	// entry other than the first has nodes == 0 until it is reached.
	costs   []leafCost
	members []int           // members on a candidate, by candidate, nodes used and members placed
	sorted  []candidateNode // scratch memory of the greedy algorithm
}

// solve places members on limit nodes if exactly is set, else on at most limit
// nodes, at the least cost. The members must fit. A problem above
// maxKnapsackSteps uses the nodes with the largest capacity.
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

// addNode improves the cost table with placements that use one more candidate,
// and notes in placed how many members that candidate has in each entry.
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

// extract returns the cost of the table entry for so many nodes and members. It
// adds the picks of that entry to out, last candidate first, unless out is nil.
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
