package planner_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/planner"
	"github.com/ares-scheduler/ares/kube/watch"
)

// leafState is the oracle's view of a cluster: how many nodes of each leaf are wholly free.
type leafState []int

// allows reports whether a gang of whole nodes can be placed by the leaf rules: 2 nodes in one leaf, 4 in a complete
// leaf, 8 in two adjacent complete leaves, and 16 in four that follow each other. The leaves of a spine are adjacent in
// their order.
func (l leafState) allows(nodes int) bool {
	const leavesPerSpine = 8
	switch nodes {
	case 2:
		for _, free := range l {
			if free >= 2 {
				return true
			}
		}
		return false
	}
	run := 0
	for i, free := range l {
		if i%leavesPerSpine == 0 {
			run = 0
		}
		if run++; free < 4 {
			run = 0
		}
		if run >= nodes/4 {
			return true
		}
	}
	return false
}

// obeys reports whether a gang is placed by the rules.
func obeys(nodes []int) bool {
	leaves := map[int]int{}
	lowest, highest := nodes[0]/4, nodes[0]/4
	for _, n := range nodes {
		leaves[n/4]++
		lowest, highest = min(lowest, n/4), max(highest, n/4)
	}
	if len(nodes) == 2 {
		return len(leaves) == 1
	}
	want := len(nodes) / 4
	return len(leaves) == want && highest-lowest+1 == want && highest/8 == lowest/8
}

// Random gangs come and go on a cluster of 128 nodes. Whenever some placement obeys the leaf rules, the plan does. The
// target of the project is 99.99 % of 10,000 gangs.
func TestLeafRulesOfRandomGangs(t *testing.T) {
	t.Parallel()
	const nodes = 128
	gangs := 10_000
	if testing.Short() {
		gangs = 1_000
	}
	random := rand.New(rand.NewPCG(20, 26))
	c := &cluster{Planner: planner.New(scheduler, nil), t: t, now: start, pods: map[string]*watch.Pod{}}
	for i := range nodes {
		c.SetNode(gpuNode(i), true, false)
	}
	type running struct {
		names []string
		nodes []int
	}
	var alive []running
	free := make(leafState, nodes/4)
	for i := range free {
		free[i] = 4
	}
	end := func(i int) {
		for k, name := range alive[i].names {
			c.DeletePod("uid-"+name, c.now)
			delete(c.pods, name)
			free[alive[i].nodes[k]/4]++
		}
		alive[i] = alive[len(alive)-1]
		alive = alive[:len(alive)-1]
	}
	judged, broken, waited := 0, 0, 0
	for g := range gangs {
		for len(alive) > 0 && random.IntN(100) < 45 {
			end(random.IntN(len(alive)))
		}
		size := []int{2, 2, 2, 4, 4, 8, 16, 1}[random.IntN(8)]
		possible := size > 1 && free.allows(size)
		r := running{}
		for i := range size {
			name := fmt.Sprintf("g%d-%d", g, i)
			c.pod(name, 8, fmt.Sprintf("gang%d", g), size)
			r.names = append(r.names, name)
		}
		c.cycle()
		for _, name := range r.names {
			if a, planned := c.Assignment("uid-" + name); planned {
				var n int
				_, _ = fmt.Sscanf(a.Node, "node-%d", &n)
				r.nodes = append(r.nodes, n)
				free[n/4]--
			}
		}
		if len(r.nodes) == 0 { // it does not fit now; it leaves, so that the oracle stays simple
			waited++
			for _, name := range r.names {
				c.DeletePod("uid-"+name, c.now)
				delete(c.pods, name)
			}
			if possible {
				t.Errorf("gang %d of %d nodes waits although the rules allow a placement", g, size)
			}
			continue
		}
		c.bind(r.names...)
		alive = append(alive, r)
		if possible {
			judged++
			if !obeys(r.nodes) {
				broken++
				t.Logf("gang %d of %d nodes is on %v, free %v", g, size, r.nodes, free)
			}
		}
	}
	t.Logf("%d gangs: %d could obey the rules, %d of them did not; %d waited", gangs, judged, broken, waited)
	if judged < gangs/3 || broken*10_000 > judged {
		t.Errorf("%d of %d gangs do not obey the rules", broken, judged)
	}
}

// TestLimitsWithoutLeaves checks that the limits for leaves do not restrict a cluster whose nodes name no leaves.
func TestLimitsWithoutLeaves(t *testing.T) {
	for _, labelled := range []bool{false, true} {
		c := newCluster(t, 0)
		c.SetTopology(ares.Topology{Weights: ares.DefaultWeights(), MaxNodesPerLeaf: 4, MaxGPUsPerLeaf: 32})
		for i := range 5 {
			n := gpuNode(i)
			n.Labels = nil
			if labelled {
				n.Labels = map[string]string{"leaf": "leaf-1"}
			}
			c.SetNode(n, true, false)
		}
		for i := range 5 {
			c.pod(fmt.Sprint("rank-", i), 8, "gang", 5)
		}
		c.cycle()
		if planned := c.plan("rank-0") != ""; planned == labelled {
			t.Errorf("nodes with leaves: %t; the gang of five nodes is planned: %t", labelled, planned)
		}
	}
}
