package engine

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
	"github.com/ares-scheduler/ares/engine/topology"
)

// Cluster is the ledger of nodes and devices: what each has, what is taken of it,
// and the indexes that find a node for a request.
type Cluster struct {
	cfg *config.Config

	nodesByID             map[string]*node
	nodes                 []*node // by place, then ID, as of the last layout
	firstByName           []*node // the first of them by ID
	layout                int     // counts the times nodes got other positions
	topology              *ares.Topology
	atlas                 *topology.Locator
	domains               *topology.Tree
	nodeTypes             nodeTypes
	capacityChanges       changeLog     // nodes that have other things left than before
	lastCapacityChange    []int         // by position: the last of its shifts
	freeCPUMem            []freeCPUMem  // by position
	summaries             []nodeSummary // by position
	blockMaxes            []blockMax    // of each 64 nodes
	traitChanges          changeLog     // nodes that became another kind of node
	roomChanges           changeLog     // nodes that may have more room than before
	unschedulableRequests []*request    // of shapes that found no place
	capacity              queue.Resources
	models                []int       // that some node has, by name, as the order numbers them
	preferredScratch      set         // scratch of welcome
	largest               largestNode // of any node
	changeCount           int         // counts the changes of nodes
	dirtyNodes            []*node     // changed since the index was last brought up to date
	layoutStale           bool        // nodes came, went or moved since then
	capacityStale         bool        // what the fleet has changed since then
	// modelIndex is the number of a device model in the queues: quotas and
	// devices must number models alike.
	modelIndex   func(model string) int
	modelNames   []string // by that number; "" for models that no node had
	requestCount int      // counts those that were ever made
}

func newCluster(cfg *config.Config, modelIndex func(string) int) *Cluster {
	c := &Cluster{
		cfg: cfg, nodesByID: map[string]*node{}, nodeTypes: nodeTypes{byKey: map[string]*nodeType{}},
		topology: &ares.Topology{}, layoutStale: true, modelIndex: modelIndex,
	}
	c.atlas = topology.NewLocator(c.topology)
	return c
}

// exceedsLeafLimit says whether one member alone asks for more devices than one job may
// take of a leaf.
func (c *Cluster) exceedsLeafLimit(w *request) bool {
	return c.topology.MaxGPUsPerLeaf > 0 && w.gpus > c.topology.MaxGPUsPerLeaf
}

func (c *Cluster) node(id string) *node {
	n := c.nodesByID[id]
	if n == nil {
		n = &node{id: id}
		c.nodesByID[id] = n
		c.layoutStale = true
		c.locateNode(n) // the topology may list it before it has a record
	}
	return n
}

func (c *Cluster) markDirty(n *node) {
	if !n.dirty {
		n.dirty = true
		c.dirtyNodes = append(c.dirtyNodes, n)
	}
}

// setTopology takes over a topology: every node may be somewhere else now.
func (c *Cluster) setTopology(t *ares.Topology) {
	c.topology, c.atlas = t, topology.NewLocator(t)
	c.layoutStale = true
	for _, n := range c.nodesByID { // order-free: each by itself
		c.locateNode(n)
	}
}

// locateNode finds where a node stands.
func (c *Cluster) locateNode(n *node) {
	var labels map[string]string
	if n.record != nil {
		labels = n.record.Labels
	}
	if place := c.atlas.Locate(n.id, labels); place != n.place {
		n.place, n.traitsChanged, c.layoutStale = place, true, true
		c.markDirty(n)
	}
}

// refreshIndex brings the index over the nodes up to date. It is done when somebody
// asks, not with each batch, because a fleet that comes up one node at a time
// would be laid out anew for each.
func (c *Cluster) refreshIndex() {
	for _, n := range c.dirtyNodes {
		n.recountFree()
		if n.isUnknown() {
			delete(c.nodesByID, n.id)
			c.layoutStale = true
		}
	}
	if c.layoutStale {
		c.rebuildLayout()
	}
	for _, n := range c.dirtyNodes {
		if n.traitsChanged && c.nodesByID[n.id] == n {
			c.traitChanges.add(n.pos)
		}
		if n.gainedRoom && c.nodesByID[n.id] == n {
			c.roomChanges.add(n.pos)
		}
		if c.nodesByID[n.id] == n {
			c.domains.SetHistory(n.pos, n.historyScore())
			c.capacityChanged(n)
		}
		n.dirty, n.traitsChanged, n.gainedRoom = false, false, false
	}
	if c.capacityStale {
		c.capacityStale = false
		c.measureCapacity()
	}
	clear(c.dirtyNodes)
	c.dirtyNodes = c.dirtyNodes[:0]
}

// rebuildLayout gives every node its position, by place and ID, so that each domain
// is a range.
func (c *Cluster) rebuildLayout() {
	c.layoutStale = false
	c.layout++
	c.nodes = c.nodes[:0]
	for _, n := range c.nodesByID { // order-free: sorted right below
		c.nodes = append(c.nodes, n)
	}
	slices.SortFunc(c.nodes, compareByPlace)
	c.firstByName = slices.SortedFunc(slices.Values(c.nodes), func(a, b *node) int { return cmp.Compare(a.id, b.id) })
	c.firstByName = c.firstByName[:min(len(c.firstByName), firstFitNodes)]
	places := make([]topology.Location, len(c.nodes))
	for i, n := range c.nodes {
		n.pos, places[i] = i, n.place
	}
	c.domains = topology.NewTree(places, c.topology)
	c.traitChanges.reset()
	c.roomChanges.reset()
	c.capacityChanges.reset()
	c.freeCPUMem = slices.Grow(c.freeCPUMem[:0], len(c.nodes))[:len(c.nodes)]
	c.summaries = slices.Grow(c.summaries[:0], len(c.nodes))[:len(c.nodes)]
	c.lastCapacityChange = slices.Grow(c.lastCapacityChange[:0], len(c.nodes))[:len(c.nodes)]
	c.blockMaxes = make([]blockMax, (len(c.nodes)+63)/64)
	for _, n := range c.nodes {
		c.domains.SetHistory(n.pos, n.historyScore())
		c.capacityChanged(n)
	}
}

// compareByPlace is the order of the nodes.
func compareByPlace(a, b *node) int {
	return cmp.Or(topology.CompareLocations(a.place, b.place), cmp.Compare(a.id, b.id))
}

// measureCapacity counts what the fleet has: what shares are shares of, and the models
// that quotas have to be asked about.
func (c *Cluster) measureCapacity() {
	var sum queue.Resources
	c.models, c.largest = c.models[:0], largestNode{}
	seen := make([]bool, len(c.modelNames))
	for _, n := range c.nodes {
		if n.record == nil {
			continue
		}
		for i := range n.typ.devices {
			if m := n.typ.devices[i].modelIndex; !seen[m] {
				seen[m] = true
				c.models = append(c.models, m)
			}
		}
		if n.session == nil {
			continue
		}
		c.largest.cpus = max(c.largest.cpus, n.typ.cpus)
		c.largest.gpus = max(c.largest.gpus, len(n.typ.devices)*WholeMilli)
		has := n.typ.capacity()
		has.Memory = int64(n.record.MemoryMB) // not rounded
		sum = sum.Add(has, 1)
	}
	slices.SortFunc(c.models, func(a, b int) int { return cmp.Compare(c.modelNames[a], c.modelNames[b]) })
	c.capacity = sum
}

// preferredNodes is the allowed nodes that nothing speaks against.
func (c *Cluster) preferredNodes(f *feasibleSet, allowed *set) *set {
	if allowed == &f.nodes {
		return &f.preferred
	}
	c.preferredScratch.resize(len(c.nodes))
	allowed.common(&f.preferred, 0, len(c.nodes), func(i int) bool {
		c.preferredScratch.add(i)
		return false
	})
	return &c.preferredScratch
}

func (c *Cluster) visitSpan(node string, level ares.Level, tell func(lo, hi int)) {
	if n := c.nodesByID[node]; n != nil {
		tell(c.domains.EnclosingDomain(n.pos, level))
	}
}

// emptyCapacity is how many members of a want the nodes of a set would take if they were empty.
func (c *Cluster) emptyCapacity(of *set, w *request) (members int) {
	for at := of.next(0); at >= 0; at = of.next(at + 1) {
		members += c.nodes[at].emptyRoom(w)
	}
	return members
}

// largestNode is the largest machine's CPUs, and another's thousandths of devices.
type largestNode struct{ cpus, gpus int }

// largestSize is the CPUs, and the thousandths of devices, of the fleet's largest
// machines, so that neither is 0.
func (c *Cluster) largestSize() (cpus, gpus int) {
	return max(c.largest.cpus, 1), max(c.largest.gpus, 1)
}

// anyNode finds a node with room, without a board.
func (c *Cluster) anyNode(w *request, allowed *set, lo, hi int) *node {
	for i := allowed.next(lo); i >= 0 && i < hi; i = allowed.next(i + 1) {
		if sp := &c.freeCPUMem[i]; int(sp.cpus) < w.cpus || int(sp.memory) < w.memory {
			continue
		}
		if n := c.nodes[i]; n.fits(w) {
			return n
		}
	}
	return nil
}

// capacityChanged notes that a node has other things left than before.
func (c *Cluster) capacityChanged(n *node) {
	c.changeCount++
	n.changes = c.changeCount
	c.capacityChanges.add(n.pos)
	c.lastCapacityChange[n.pos] = c.capacityChanges.count - 1
	c.blockMaxes[n.pos/64].stale = true
	if !n.schedulable() {
		c.domains.SetFree(n.pos, -1, 0)
		c.summaries[n.pos], c.freeCPUMem[n.pos] = nodeSummary{}, freeCPUMem{-1, -1}
		return
	}
	c.domains.SetFree(n.pos, bits.OnesCount64(n.free), len(n.devices))
	c.summaries[n.pos] = summarize(n)
	c.freeCPUMem[n.pos] = freeCPUMem{int32(max(n.typ.cpus-n.cpus, 0)), int32(max(n.record.MemoryMB-n.memory, 0))}
}

// freeCPUMem is a node's CPUs and memory that are left, side by side with those of
// the others: most nodes that come into question and have no room lack these.
// It is never below 0, so that who asks for none finds room on a machine that
// has less than it had when others came, but for a node that is not open.
type freeCPUMem struct{ cpus, memory int32 }
