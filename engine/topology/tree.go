package topology

import (
	"math"

	ares "github.com/ares-scheduler/ares"
)

// unknown is the latency of a domain that does not declare its switches.
const unknown = math.MaxInt32

// domain is a place with its nodes, which are next to each other, as are its
// leaves. A leaf has itself as its only leaf.
type domain struct {
	name       string
	lo, hi     int // nodes
	first, end int // leaves
	gbps       int // of its own switch, 0 when that is not known
	nanos      int // between its two farthest nodes, unknown when a switch on the way is
}

// Tree is the fleet as ranges of nodes, with how many devices are free where.
type Tree struct {
	domains  [depths][]domain
	up       [][depths]int32 // by leaf: the domain it is in at each depth
	leafOf   []int32         // by node
	byName   map[string][]*domain
	adjacent [][]int32 // by leaf: leaves one hop away, ascending
	weights  ares.Weights
	maxNodes int // of a leaf that one job may take
	maxGPUs  int // of a leaf that one job may take

	free, total []int // devices by node; free is -1 where nothing may be placed
	history     []int // by node
	width       int   // seats for 0 to width-1 devices a member are counted
	// counts of domain i at a depth begin at i*width: the open nodes, and then
	// how many members of 1, 2, … whole devices each fit.
	counts [depths][]int32
	more   []int32    // memory of recount
	sums   []leafSums // by leaf
	// bits[n] has the nodes with n free devices.
	bits [][]uint64

	log    []int32 // leaves that changed, the latest last
	logged int     // changes that are no longer in the log
	read   int     // changes in the log that some board knows

	search          search
	judged, reached []int32 // memory of Value
}

// leafSums is what counts of leaves when they are compared.
type leafSums struct {
	devices, free  int // of open nodes
	history, nodes int // of all nodes
	seats          int // for the members in question; not kept with the leaf
}

// DefaultHistory is the history of a node of which nothing is known against it.
const DefaultHistory = 1000

// Build makes the tree of nodes at these places, in the order of Compare. A nil
// topology declares nothing. Every node is closed until it is Set.
func Build(places []Place, t *ares.Topology) *Tree {
	tree := &Tree{
		leafOf: make([]int32, len(places)), free: make([]int, len(places)), total: make([]int, len(places)),
		history: make([]int, len(places)), weights: ares.DefaultWeights(), maxNodes: math.MaxInt32, maxGPUs: math.MaxInt32,
	}
	if t != nil {
		if t.Weights != (ares.Weights{}) {
			tree.weights = t.Weights
		}
		if t.MaxNodesPerLeaf > 0 {
			tree.maxNodes = t.MaxNodesPerLeaf
		}
		if t.MaxGPUsPerLeaf > 0 {
			tree.maxGPUs = t.MaxGPUsPerLeaf
		}
	}
	b := builder{tree: tree, atlas: NewAtlas(t), places: places}
	b.divide()
	tree.byName = map[string][]*domain{}
	for depth := region; depth <= leaf; depth++ {
		for i := range tree.domains[depth] {
			if d := &tree.domains[depth][i]; d.name != "" {
				tree.byName[d.name] = append(tree.byName[d.name], d)
			}
		}
	}
	b.wire(t)
	for i := range places {
		tree.free[i] = -1
		tree.history[i] = DefaultHistory
		tree.sums[tree.leafOf[i]].history += DefaultHistory
		tree.sums[tree.leafOf[i]].nodes++
	}
	tree.widen(9)
	return tree
}

// builder finds the domains of a tree.
type builder struct {
	tree   *Tree
	atlas  *Atlas
	places []Place
	named  [depths]bool // some node names its domain at that depth
}

// divide cuts the nodes into domains, from the fleet to the leaves.
func (b *builder) divide() {
	t := b.tree
	for i := range b.places {
		for depth := region; depth <= leaf; depth++ {
			b.named[depth] = b.named[depth] || *b.places[i].name(depth) != ""
		}
	}
	for i := range b.places {
		var same [depths]bool // domain as that of the node before
		if i > 0 {
			same = b.together(i)
		}
		for depth := fleet; depth <= leaf; depth++ {
			ds := t.domains[depth]
			if !same[depth] {
				d := domain{lo: i, first: len(t.domains[leaf])}
				if depth != fleet {
					d.name = *b.places[i].name(depth)
				}
				ds = append(ds, d)
			}
			last := &ds[len(ds)-1]
			last.hi = i + 1
			if depth == leaf {
				last.end = last.first + 1
			}
			t.domains[depth] = ds
		}
		leaves := len(t.domains[leaf])
		if !same[leaf] {
			var up [depths]int32
			for depth := range t.domains {
				up[depth] = int32(len(t.domains[depth]) - 1)
			}
			t.up = append(t.up, up)
		}
		for depth := range leaf {
			t.domains[depth][len(t.domains[depth])-1].end = leaves
		}
		t.leafOf[i] = int32(leaves - 1)
	}
	t.sums = make([]leafSums, len(t.domains[leaf]))
}

// known says at which depths the node says where it stands, or nobody does.
func (b *builder) known(p *Place) (known [depths]bool) {
	known[fleet] = true
	for depth := region; depth <= leaf; depth++ {
		known[depth] = *p.name(depth) != "" || !b.named[depth] && known[depth-1]
	}
	return known
}

// together says at which depths node i is in the domain of the one before. One
// that does not say is alone, with what is inside the domain that it does name.
func (b *builder) together(i int) (same [depths]bool) {
	same[fleet] = true
	p, before := b.places[i], b.places[i-1]
	known := b.known(&p)
	alike := leaf // the narrowest depth down to which they are called the same
	for depth := leaf; depth >= region; depth-- {
		if *p.name(depth) != *before.name(depth) {
			alike = depth - 1
		}
	}
	for depth := alike; depth >= region; depth-- {
		same[depth] = known[depth] || depth < leaf && same[depth+1]
	}
	return same
}

// wire notes what the topology says of switches and adjacency.
func (b *builder) wire(t *ares.Topology) {
	tree := b.tree
	tree.adjacent = make([][]int32, len(tree.domains[leaf]))
	for i := range tree.domains[fleet] {
		tree.domains[fleet][i].nanos = unknown
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
	hops := [depths][]int{} // the latency of each domain's own switch
	for depth := fleet; depth <= leaf; depth++ {
		hops[depth] = make([]int, len(tree.domains[depth]))
		for i := range tree.domains[depth] {
			d := &tree.domains[depth][i]
			hops[depth][i] = unknown
			if declared := b.atlas.declared(depth, d.name); declared != nil {
				if class, ok := classes[declared.Switch]; ok {
					d.gbps, hops[depth][i] = class.Gbps, class.LatencyNanos
				}
			} else if depth > fleet && !b.named[depth] {
				above := tree.up[d.first][depth-1]
				d.gbps, hops[depth][i] = tree.domains[depth-1][above].gbps, hops[depth-1][above]
			}
		}
	}
	b.measure(hops)
	b.join(t)
}

// measure finds how far apart the nodes of each domain are: once through its
// own switch, and up to it and down from it through the slowest part of it.
func (b *builder) measure(hops [depths][]int) {
	tree := b.tree
	for depth := leaf; depth >= fleet; depth-- {
		for i := range tree.domains[depth] {
			d := &tree.domains[depth][i]
			d.nanos = hops[depth][i]
			if depth == leaf || d.nanos == unknown {
				continue
			}
			slowest := 0
			for l := d.first; l < d.end; l++ {
				slowest = max(slowest, tree.domains[depth+1][tree.up[l][depth+1]].nanos)
			}
			d.nanos = min(unknown, d.nanos+2*slowest)
		}
	}
}

// join notes which leaves are adjacent. It holds both ways.
func (b *builder) join(t *ares.Topology) {
	if t == nil {
		return
	}
	tree := b.tree
	byName := map[string]int32{}
	for i := range tree.domains[leaf] {
		if d := &tree.domains[leaf][i]; b.atlas.declared(leaf, d.name) != nil {
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
				tree.adjacent[from] = insert(tree.adjacent[from], to)
				tree.adjacent[to] = insert(tree.adjacent[to], from)
			}
		}
	}
}
