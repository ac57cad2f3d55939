package topology

import (
	"math"

	ares "github.com/ares-scheduler/ares"
)

// A `domain` is a range of consecutive nodes. It is also a range of consecutive leaves. The domain of a leaf
// contains only that leaf. Invariant: the nodes of a domain are consecutive, and the leaves of a domain are
// consecutive.
type domain struct {
	name               string
	firstNode, endNode int // its nodes are [firstNode, endNode)
	firstLeaf, endLeaf int // its leaves are [firstLeaf, endLeaf)
	gbps               int // bandwidth of its own switch, 0 if unknown
	latencyNanos       int // latency between its two most distant nodes
}

// Tree groups the nodes of the cluster into domains and tracks their free
// devices.
type Tree struct {
	domains         [depthCount][]domain // by depth
	ancestors       [][depthCount]int32  // by leaf: its domain at each depth
	leafOf          []int32              // by node
	byName          map[string][]*domain // widest first
	adjacent        [][]int32            // by leaf: the leaves one hop away, ascending; symmetric
	weights         ares.Weights
	maxNodesPerLeaf int  // nodes of one leaf that one job may use
	maxGPUsPerLeaf  int  // devices of one leaf that one job may use
	maxGbps         int  // highest bandwidth of any switch, 0 if no switch is declared
	unevenGbps      bool // domains of one level have different bandwidths

	free, total   []int // devices by node; free is -1 if nothing may be placed there
	history       []int // history score by node, 0 to 1000
	capacityWidth int   // capacityTable covers 0 to capacityWidth-1 devices per member
	// capacityTable holds the capacities of all domains of a depth. Each domain has capacityWidth entries, and
	// the entries of domain i begin at index i*capacityWidth. The first entry of a domain is its number of
	// schedulable nodes. Entry d of a domain is the number of members that fit on its free devices if each member
	// needs d devices.
	capacityTable [depthCount][]int32
	capacityDelta []int32     // scratch memory of updateCapacity
	leafStats     []leafStats // by leaf; capacity is always 0 here
	// nodesByFree[n] is the bit set of the nodes with n free devices.
	nodesByFree [][]uint64

	changeLog       []int32 // leaves that changed, latest last
	droppedChanges  int     // number of changes removed from the log
	consumedChanges int     // number of changes in the log that some boundCache has applied

	search                      search
	leafScratch, reachedScratch []int32 // scratch memory of Evaluate and areConnected
}

// leafStats holds the sums from which the score of one or more leaves is computed.
type leafStats struct {
	devices, free  int // of open nodes
	history, nodes int // of all nodes
	capacity       int // members of the current request that fit; not stored with the leaf
}

// DefaultHistory is the history score of a node without recorded problems. DefaultHistory is also the highest
// possible score.
const DefaultHistory = 1000

// NewTree makes a tree of the nodes at the given locations. The locations must be sorted by CompareLocations. A nil
// topology declares no domains. Nothing can be placed on a node until SetFree is called for it.
func NewTree(places []Location, t *ares.Topology) *Tree {
	tree := &Tree{
		leafOf: make([]int32, len(places)), free: make([]int, len(places)), total: make([]int, len(places)),
		history: make([]int, len(places)), weights: ares.DefaultWeights(), maxNodesPerLeaf: math.MaxInt32, maxGPUsPerLeaf: math.MaxInt32,
	}
	if t != nil {
		if t.Weights != (ares.Weights{}) {
			tree.weights = t.Weights
		}
		if t.MaxNodesPerLeaf > 0 {
			tree.maxNodesPerLeaf = t.MaxNodesPerLeaf
		}
		if t.MaxGPUsPerLeaf > 0 {
			tree.maxGPUsPerLeaf = t.MaxGPUsPerLeaf
		}
	}
	b := builder{tree: tree, atlas: NewLocator(t), places: places}
	b.splitDomains()
	tree.byName = map[string][]*domain{}
	for depth := region; depth <= leaf; depth++ {
		for i := range tree.domains[depth] {
			if d := &tree.domains[depth][i]; d.name != "" {
				tree.byName[d.name] = append(tree.byName[d.name], d)
			}
		}
	}
	b.linkSwitches(t)
	for i := range places {
		tree.free[i] = -1
		tree.history[i] = DefaultHistory
		tree.leafStats[tree.leafOf[i]].history += DefaultHistory
		tree.leafStats[tree.leafOf[i]].nodes++
	}
	tree.growCapacityTable(9)
	return tree
}

// The type `builder` divides the nodes into domains and sets the connections between domains.
type builder struct {
	tree    *Tree
	atlas   *Locator
	places  []Location
	isNamed [depthCount]bool // whether some node names its domain at that depth
}

// splitDomains divides the nodes into domains at every depth, from the root down to the leaves.
func (b *builder) splitDomains() {
	t := b.tree
	for i := range b.places {
		for depth := region; depth <= leaf; depth++ {
			b.isNamed[depth] = b.isNamed[depth] || *b.places[i].nameAt(depth) != ""
		}
	}
	for i := range b.places {
		var same [depthCount]bool // depths at which the node shares the domain of the previous node
		if i > 0 {
			same = b.sharedDepths(i)
		}
		for depth := root; depth <= leaf; depth++ {
			ds := t.domains[depth]
			if !same[depth] {
				d := domain{firstNode: i, firstLeaf: len(t.domains[leaf])}
				if depth != root {
					d.name = *b.places[i].nameAt(depth)
				}
				ds = append(ds, d)
			}
			last := &ds[len(ds)-1]
			last.endNode = i + 1
			if depth == leaf {
				last.endLeaf = last.firstLeaf + 1
			}
			t.domains[depth] = ds
		}
		leaves := len(t.domains[leaf])
		if !same[leaf] {
			var up [depthCount]int32
			for depth := range t.domains {
				up[depth] = int32(len(t.domains[depth]) - 1)
			}
			t.ancestors = append(t.ancestors, up)
		}
		for depth := range leaf {
			t.domains[depth][len(t.domains[depth])-1].endLeaf = leaves
		}
		t.leafOf[i] = int32(leaves - 1)
	}
	t.leafStats = make([]leafStats, len(t.domains[leaf]))
}

// knownDepths returns two kinds of depths: those at which this node names its domain, and those at which no node of
// the cluster names a domain.
func (b *builder) knownDepths(p *Location) (known [depthCount]bool) {
	known[root] = true
	for depth := region; depth <= leaf; depth++ {
		known[depth] = *p.nameAt(depth) != "" || !b.isNamed[depth] && known[depth-1]
	}
	return known
}

// sharedDepths returns the depths at which node i is in the same domain as the previous node. If a node names no
// domain at a depth, it is alone at that depth. The exception is a node that shares a deeper domain with the
// previous node.
func (b *builder) sharedDepths(i int) (same [depthCount]bool) {
	same[root] = true
	p, before := b.places[i], b.places[i-1]
	known := b.knownDepths(&p)
	alike := leaf // the deepest depth down to which both have the same names
	for depth := leaf; depth >= region; depth-- {
		if *p.nameAt(depth) != *before.nameAt(depth) {
			alike = depth - 1
		}
	}
	for depth := alike; depth >= region; depth-- {
		same[depth] = known[depth] || depth < leaf && same[depth+1]
	}
	return same
}

// linkSwitches sets the bandwidth and latency of every domain from the declared
// switches. If no node names a domain at some level, the switch of the level above applies to that level.
func (b *builder) linkSwitches(t *ares.Topology) {
	tree := b.tree
	tree.adjacent = make([][]int32, len(tree.domains[leaf]))
	classes := map[string]ares.Switch{}
	for _, s := range ares.DefaultSwitches() {
		classes[s.Name] = s
	}
	if t != nil {
		for _, s := range t.Switches {
			classes[s.Name] = s
		}
	}
	hops := [depthCount][]int{} // the latency of each domain's own switch
	for depth := root; depth <= leaf; depth++ {
		hops[depth] = make([]int, len(tree.domains[depth]))
		for i := range tree.domains[depth] {
			d := &tree.domains[depth][i]
			hops[depth][i] = ares.AssumedHopNanos
			if declared := b.atlas.declaredDomain(depth, d.name); declared != nil {
				if class, ok := classes[declared.Switch]; ok {
					d.gbps, hops[depth][i] = class.Gbps, class.LatencyNanos
				}
			} else if depth > root && !b.isNamed[depth] {
				above := tree.ancestors[d.firstLeaf][depth-1]
				d.gbps, hops[depth][i] = tree.domains[depth-1][above].gbps, hops[depth-1][above]
			}
			tree.maxGbps = max(tree.maxGbps, d.gbps)
			tree.unevenGbps = tree.unevenGbps || d.gbps != tree.domains[depth][0].gbps
		}
	}
	b.computeLatencies(hops)
	b.linkAdjacentLeaves(t)
}

// computeLatencies sets the latency of each domain. The latency of a domain is the latency of its own switch
// plus twice the latency of its slowest subdomain. The factor is two because a path goes up and down.
func (b *builder) computeLatencies(hops [depthCount][]int) {
	tree := b.tree
	for depth := leaf; depth >= root; depth-- {
		for i := range tree.domains[depth] {
			d := &tree.domains[depth][i]
			d.latencyNanos = hops[depth][i]
			if depth == leaf {
				continue
			}
			slowest := 0
			for l := d.firstLeaf; l < d.endLeaf; l++ {
				slowest = max(slowest, tree.domains[depth+1][tree.ancestors[l][depth+1]].latencyNanos)
			}
			d.latencyNanos = min(d.latencyNanos+2*slowest, math.MaxInt32)
		}
	}
}

// linkAdjacentLeaves records which leaves are adjacent, in both directions.
func (b *builder) linkAdjacentLeaves(t *ares.Topology) {
	if t == nil {
		return
	}
	tree := b.tree
	byName := map[string]int32{}
	for i := range tree.domains[leaf] {
		if d := &tree.domains[leaf][i]; b.atlas.declaredDomain(leaf, d.name) != nil {
			byName[d.name] = int32(i)
		}
	}
	for i := range t.Domains {
		from, ok := byName[t.Domains[i].Name]
		if !ok {
			continue
		}
		for _, name := range t.Domains[i].Adjacent {
			if to, ok := byName[name]; ok && to != from {
				tree.adjacent[from] = insertSorted(tree.adjacent[from], to)
				tree.adjacent[to] = insertSorted(tree.adjacent[to], from)
			}
		}
	}
}
