package topology

import (
	"math"

	ares "github.com/ares-scheduler/ares"
)

// unknownLatency is the latency of a domain whose switch is not declared.
const unknownLatency = math.MaxInt32

// domain is a range of nodes and of leaves. A leaf contains itself as its only
// leaf. Invariant: the nodes of a domain are consecutive, and so are its
// leaves.
type domain struct {
	name               string
	firstNode, endNode int // its nodes are [firstNode, endNode)
	firstLeaf, endLeaf int // its leaves are [firstLeaf, endLeaf)
	gbps               int // bandwidth of its own switch, 0 if unknown
	latencyNanos       int // latency between its two most distant nodes, or unknownLatency
}

// Tree groups the nodes of the fleet into domains and tracks their free
// devices.
type Tree struct {
	domains         [depthCount][]domain // by depth
	ancestors       [][depthCount]int32  // by leaf: its domain at each depth
	leafOf          []int32              // by node
	byName          map[string][]*domain // widest first
	adjacent        [][]int32            // by leaf: the leaves one hop away, ascending; symmetric
	weights         ares.Weights
	maxNodesPerLeaf int // nodes of one leaf that one job may use
	maxGPUsPerLeaf  int // devices of one leaf that one job may use

	free, total   []int // devices by node; free is -1 if nothing may be placed there
	history       []int // history score by node, 0 to 1000
	capacityWidth int   // capacityTable covers 0 to capacityWidth-1 devices per member
	// capacityTable has, from i*capacityWidth on for domain i of a depth, the
	// number of open nodes, and then the number of members with 1, 2, … devices
	// each that its free devices can hold.
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

// leafStats sums up what the score of one or more leaves depends on.
type leafStats struct {
	devices, free  int // of open nodes
	history, nodes int // of all nodes
	capacity       int // members of the current request that fit; not kept with the leaf
}

// DefaultHistory is the history score of a node without recorded problems. It
// is also the highest score.
const DefaultHistory = 1000

// NewTree makes the tree of nodes at these locations, which must be sorted by
// CompareLocations. A nil topology declares nothing. Every node is closed until SetFree is
// called for it.
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

// builder splits the nodes into domains and connects them.
type builder struct {
	tree    *Tree
	atlas   *Locator
	places  []Location
	isNamed [depthCount]bool // whether some node names its domain at that depth
}

// splitDomains splits the nodes into domains at every depth, from the fleet
// down to the leaves.
func (b *builder) splitDomains() {
	t := b.tree
	for i := range b.places {
		for depth := region; depth <= leaf; depth++ {
			b.isNamed[depth] = b.isNamed[depth] || *b.places[i].nameAt(depth) != ""
		}
	}
	for i := range b.places {
		var same [depthCount]bool // depths at which it shares the domain of the previous node
		if i > 0 {
			same = b.sharedDepths(i)
		}
		for depth := fleet; depth <= leaf; depth++ {
			ds := t.domains[depth]
			if !same[depth] {
				d := domain{firstNode: i, firstLeaf: len(t.domains[leaf])}
				if depth != fleet {
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

// knownDepths returns the depths at which the node names its domain, or at
// which no node does.
func (b *builder) knownDepths(p *Location) (known [depthCount]bool) {
	known[fleet] = true
	for depth := region; depth <= leaf; depth++ {
		known[depth] = *p.nameAt(depth) != "" || !b.isNamed[depth] && known[depth-1]
	}
	return known
}

// sharedDepths returns the depths at which node i is in the domain of the
// previous node. A node that names no domain at a depth is alone there, unless
// the two share a domain below it.
func (b *builder) sharedDepths(i int) (same [depthCount]bool) {
	same[fleet] = true
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
// switches. A level that no node names has the switch of the level above.
func (b *builder) linkSwitches(t *ares.Topology) {
	tree := b.tree
	tree.adjacent = make([][]int32, len(tree.domains[leaf]))
	for i := range tree.domains[fleet] {
		tree.domains[fleet][i].latencyNanos = unknownLatency
	}
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
	for depth := fleet; depth <= leaf; depth++ {
		hops[depth] = make([]int, len(tree.domains[depth]))
		for i := range tree.domains[depth] {
			d := &tree.domains[depth][i]
			hops[depth][i] = unknownLatency
			if declared := b.atlas.declaredDomain(depth, d.name); declared != nil {
				if class, ok := classes[declared.Switch]; ok {
					d.gbps, hops[depth][i] = class.Gbps, class.LatencyNanos
				}
			} else if depth > fleet && !b.isNamed[depth] {
				above := tree.ancestors[d.firstLeaf][depth-1]
				d.gbps, hops[depth][i] = tree.domains[depth-1][above].gbps, hops[depth-1][above]
			}
		}
	}
	b.computeLatencies(hops)
	b.linkAdjacentLeaves(t)
}

// computeLatencies sets the latency of each domain: one pass through its own
// switch, and the way up to it and down from it through its slowest subdomain.
func (b *builder) computeLatencies(hops [depthCount][]int) {
	tree := b.tree
	for depth := leaf; depth >= fleet; depth-- {
		for i := range tree.domains[depth] {
			d := &tree.domains[depth][i]
			d.latencyNanos = hops[depth][i]
			if depth == leaf || d.latencyNanos == unknownLatency {
				continue
			}
			slowest := 0
			for l := d.firstLeaf; l < d.endLeaf; l++ {
				slowest = max(slowest, tree.domains[depth+1][tree.ancestors[l][depth+1]].latencyNanos)
			}
			d.latencyNanos = min(unknownLatency, d.latencyNanos+2*slowest)
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
