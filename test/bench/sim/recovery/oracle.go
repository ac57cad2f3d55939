package recovery

import (
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// The type `room` holds the number of free nodes of each leaf. It also holds
// how many of these nodes one gang used before.
type room struct{ free, own []int }

// The method `fewest` returns the minimum number of members that must move. The
// search considers only the placements that the topology rules rate as best.
// The topology rules prefer one leaf if the gang fits in one leaf. For a larger
// gang, the rules prefer the fewest leaves of one spine. If possible, these
// leaves are adjacent. The search tries every set of leaves. The result `ok` is
// false if the gang fits in no spine. The search shares no code with the
// engine.
func (r *room) fewest(members int) (moved int, ok bool) {
	for size := 1; size <= members; size++ {
		best := [2]int{-1, -1} // members that stay, for adjacent leaves and for other leaves
		for s := range spines {
			r.sets(s*leaves, (s+1)*leaves, size, members, nil, &best)
		}
		for _, kept := range best {
			if kept >= 0 {
				return members - min(kept, members), true
			}
		}
	}
	return 0, false
}

// This method adds leaves to the chosen leaves, and tries every combination.
// The parameter `size` is the number of leaves to add. Their indices are in the
// range [from, end). The added leaves must have free nodes for all members that
// are left to place.
func (r *room) sets(from, end, size, left int, chosen []int, best *[2]int) {
	if size == 0 {
		if left > 0 {
			return
		}
		apart, kept := 0, 0
		for i, l := range chosen {
			kept += r.own[l]
			if i > 0 && l != chosen[i-1]+1 {
				apart = 1
			}
		}
		best[apart] = max(best[apart], kept)
		return
	}
	for l := from; l <= end-size; l++ {
		if r.free[l] > 0 && left <= r.free[l]+(size-1)*most {
			r.sets(l+1, end, size-1, left-r.free[l], append(chosen, l), best)
		}
	}
}

// roomFor returns the capacity that is available to a gang. The available
// capacity consists of the free nodes, and the live nodes of the gang's own
// last attempt. Nodes that the same plan assigned to other gangs count as used.
// If another gang also lost a node and waits, its nodes count as used too.
func (w *world) roomFor(id ares.JobID, before map[string]bool) (room, error) {
	r := room{make([]int, spines*leaves), make([]int, spines*leaves)}
	taken, closed := maps.Clone(before), map[string]bool{}
	for v := range w.State.Nodes() {
		closed[v.Node.ID] = v.Session == nil
	}
	var own []string
	err := w.each(func(other ares.JobID, run *ares.Run) error {
		for i := range run.Attempts {
			a := &run.Attempts[i]
			for k := range a.Seats {
				if h := &a.Seats[k]; !h.State.Free() || w.hit[other] && a == run.Last() {
					taken[h.Node] = true
				}
			}
			if other == id && a == run.Last() {
				for k := range a.Seats {
					own = append(own, a.Seats[k].Node)
				}
			}
		}
		return nil
	})
	for l := range spines * leaves {
		for n := range w.perLeaf {
			node := nodeID(l, n)
			if closed[node] || taken[node] {
				continue
			}
			r.free[l]++
			if slices.Contains(own, node) {
				r.own[l]++
			}
		}
		r.free[l] = min(r.free[l], most)
	}
	return r, err
}
