package topology_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// rulesOnly returns only some parts of the cost: those that are compared before the number of moved members.
func rulesOnly(v topology.PlacementCost) topology.PlacementCost {
	return topology.PlacementCost{
		MissingMembers: v.MissingMembers, OutsidePreferredDomain: v.OutsidePreferredDomain, OutsidePreferredLevel: v.OutsidePreferredLevel, SharedNodes: v.SharedNodes, SharedLeaves: v.SharedLeaves,
		LatencyNanos: v.LatencyNanos, Height: v.Height, Leaves: v.Leaves, Disconnected: v.Disconnected,
	}
}

// leafSpine returns a cluster of free nodes. The leaves form a row below two spines, and each leaf is adjacent to
// its neighbours in the row.
func leafSpine(r *rand.Rand, leaves, each int) *cluster {
	w := &cluster{topology: &ares.Topology{Domains: []ares.Domain{{Name: "s0", Level: ares.LevelSpine}, {Name: "s1", Level: ares.LevelSpine}}}}
	for l := range leaves {
		d := ares.Domain{Name: fmt.Sprintf("l%d", l), Level: ares.LevelLeaf, Parent: fmt.Sprintf("s%d", l*2/leaves)}
		if l > 0 {
			d.Adjacent = []string{fmt.Sprintf("l%d", l-1)}
		}
		w.topology.Domains = append(w.topology.Domains, d)
	}
	atlas := topology.NewLocator(w.topology)
	for i := range leaves * each {
		w.places = append(w.places, atlas.Locate("", map[string]string{"leaf": fmt.Sprintf("l%d", i/each)}))
	}
	slices.SortFunc(w.places, topology.CompareLocations)
	for range w.places {
		w.free, w.total, w.history = append(w.free, 8), append(w.total, 8), append(w.history, topology.DefaultHistory)
		w.room, w.waste = append(w.room, 1), append(w.waste, r.IntN(3))
	}
	return w
}

// The method `occupy` makes nodes unavailable, as if they were closed or allocated to other jobs.
func (w *cluster) occupy(t *topology.Tree, free int, nodes ...int) {
	for _, n := range nodes {
		w.free[n], w.room[n] = free, 0
		t.SetFree(n, free, 8)
	}
}

// minMoves considers all placements that satisfy the rules best. It returns the smallest number of moved members
// among them.
func (w *cluster) minMoves(t *topology.Tree) (best topology.PlacementCost, moved int, ok bool) {
	var try []topology.Assignment
	var walk func(node, left int)
	walk = func(node, left int) {
		if node == len(w.places) || left == 0 {
			if len(try) == 0 {
				return
			}
			v, _, allowed := t.Evaluate(&w.ask, w, try)
			if !allowed {
				return
			}
			mine := rulesOnly(v)
			if against := mine.Compare(&best); !ok || against < 0 || against == 0 && v.MovedMembers < moved {
				best, moved, ok = mine, v.MovedMembers, true
			}
			return
		}
		walk(node+1, left)
		if w.room[node] > 0 {
			try = append(try, topology.Assignment{Node: node, Members: 1})
			walk(node+1, left-1)
			try = try[:len(try)-1]
		}
	}
	walk(0, w.ask.Members)
	return best, moved, ok
}

// TestRecoveryMovesTheFewest checks the placement of a gang that lost nodes. The placement must follow the rules, and
// no other placement that satisfies the rules equally well may move fewer members.
func TestRecoveryMovesTheFewest(t *testing.T) {
	t.Parallel()
	worlds := 3_000
	if testing.Short() {
		worlds = 300
	}
	more, moves, least, placed := 0, 0, 0, 0
	for seed := range worlds {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		w := leafSpine(r, 4, oneOf(r, 2, 3, 4))
		tree := w.tree()
		for i := range w.places {
			if r.IntN(4) == 0 {
				w.occupy(tree, 0, i)
			}
		}
		w.ask = topology.Request{Members: oneOf(r, 2, 3, 4, 4, 5, 6), DevicesPerMember: 8, Strategy: oneOf(r, "", "", topology.Consolidated, topology.Distributed)}
		w.ask.RequiredLevel = oneOf(r, "", "", "", ares.LevelSpine)
		if r.IntN(3) == 0 {
			w.ask.MinMembers = 1 + r.IntN(w.ask.Members)
		}
		picks, _, ok := tree.Choose(&w.ask, w)
		if !ok {
			continue
		}
		for _, p := range picks {
			w.ask.PreviousNodes = append(w.ask.PreviousNodes, p.Node)
		}
		if r.IntN(2) == 0 { // the gang may run anywhere by now
			w.ask.PreviousNodes = w.ask.PreviousNodes[:0]
			for _, n := range r.Perm(len(w.places))[:len(picks)] {
				w.ask.PreviousNodes = append(w.ask.PreviousNodes, n)
				w.room[n], w.free[n] = 1, 8
				tree.SetFree(n, 8, 8)
			}
			slices.Sort(w.ask.PreviousNodes)
		}
		w.loseNodes(r, tree)
		best, fewest, ok := w.minMoves(tree)
		again, _, found := tree.Choose(&w.ask, w)
		if ok != found {
			t.Fatalf("seed %d: found %v, there is %v", seed, found, ok)
		}
		if !ok {
			continue
		}
		v, _, _ := tree.Evaluate(&w.ask, w, slices.Clone(again))
		if got := rulesOnly(v); got != best {
			t.Errorf("seed %d: %+v keeps the rules less well than %+v", seed, got, best)
		}
		placed++
		moves += v.MovedMembers
		least += fewest
		if v.MovedMembers > fewest {
			if more++; more <= 3 {
				t.Logf("seed %d: %d members move to %v, %d would do: ask %+v free %v", seed, v.MovedMembers, again, fewest, w.ask, w.free)
			}
		}
	}
	t.Logf("%d gangs placed again: %d members moved, %d at least", placed, moves, least)
	if more > 0 {
		t.Errorf("%d of %d gangs moved more members than they had to", more, placed)
	}
}

// loseNodes closes one node of the gang, or all nodes of that node's leaf.
func (w *cluster) loseNodes(r *rand.Rand, tree *topology.Tree) {
	gone := w.ask.PreviousNodes[r.IntN(len(w.ask.PreviousNodes))]
	w.occupy(tree, -1, gone)
	if r.IntN(3) > 0 {
		return
	}
	for i := range w.places {
		if w.places[i].Leaf == w.places[gone].Leaf {
			w.occupy(tree, -1, i)
		}
	}
}
