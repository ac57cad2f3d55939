package recovery

import (
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// room is what each leaf has free for gangs of whole nodes, and what of it a gang
// had before.
type room struct{ free, own []int }

// fewest is how few members of a gang any placement moves that keeps the rules as
// well as the best: one leaf if any holds it, else the fewest leaves of one spine,
// adjacent ones if there are such. It looks at every set of leaves, and false means
// that no spine holds the gang. It shares nothing with the engine.
func (r *room) fewest(members int) (moved int, ok bool) {
	for size := 1; size <= members; size++ {
		best := [2]int{-1, -1} // kept, where the leaves are adjacent and where they are not
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

// sets tries the sets of so many leaves between two, beside those chosen.
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

// roomFor is the room of the fleet as a gang finds it: what is free, with what its
// last attempt had on nodes that live. What others got in the same plan is taken, and
// so is what other gangs had that lost a node and wait.
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
