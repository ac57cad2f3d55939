package cluster

import (
	"cmp"
	"math/bits"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/queue"
	"github.com/ares-scheduler/ares/engine/topology"
)

// Cluster is the ledger of nodes and devices: their capacity, their allocations, and the indexes that find a node for a
// request. Callers must call RefreshIndex after they change nodes and before they search for nodes.
type Cluster struct {
	cfg *config.Config

	NodesByID             map[string]*Node
	Nodes                 []*Node // by location, then ID, as of the last layout
	firstByName           []*Node // the first firstFitNodes nodes in the order of their IDs
	Layout                int     // how often the nodes got new positions
	Topology              *ares.Topology
	locator               *topology.Locator
	Domains               *topology.Tree
	NodeTypes             nodeTypes
	CapacityChanges       changeLog     // nodes whose free capacity changed
	LastCapacityChange    []int         // by position: index of its last entry in CapacityChanges
	FreeCPUMem            []freeCPUMem  // by position
	Summaries             []nodeSummary // by position
	BlockMaxes            []BlockMax    // one for each 64 nodes
	TraitChanges          changeLog     // nodes whose traits changed: type, labels, taints, TrustedOnly, Images, ContainerRoot, OwnNetwork, Attachable, location
	RoomChanges           changeLog     // nodes that may have more free capacity than before
	UnschedulableRequests []*Request    // requests whose Gains are kept up to date
	Capacity              queue.Resources
	ModelsPresent         []int       // model indexes of the devices in the cluster, by name of the model
	preferredScratch      Set         // result of PreferredNodes
	largest               largestNode // maximum over all nodes
	changeCount           int         // number of changes of free capacity
	requestCount          int         // number of request IDs assigned so far
	models                modelTable
	Stale                 staleness
}

// modelTable assigns an index to each device model.
type modelTable struct {
	// The function `index` returns the index of a model in the queue tree. Quotas and devices must use the same
	// index for the same model.
	index    func(model string) int
	names    []string      // by index; "" for models that no node had
	supply   []ModelSupply // by index
	changes  int           // how often the supply changed
	matching []int         // scratch memory of ModelsOf
}

// The type `staleness` records what has changed since the last RefreshIndex.
type staleness struct {
	Nodes    []*Node // nodes whose records or seats changed
	layout   bool    // nodes were added or removed, or their location changed
	Capacity bool    // the total capacity may have changed
}

// New returns a cluster without nodes. New calls modelIndex to get the index of a device model.
func New(cfg *config.Config, modelIndex func(string) int) *Cluster {
	c := &Cluster{
		cfg: cfg, NodesByID: map[string]*Node{}, NodeTypes: nodeTypes{byKey: map[string]*NodeType{}},
		Topology: &ares.Topology{}, models: modelTable{index: modelIndex}, Stale: staleness{layout: true},
	}
	c.locator = topology.NewLocator(c.Topology)
	return c
}

// ExceedsLeafLimit reports whether one member alone needs too many devices. The topology limits how
// many devices one job may have in one leaf domain.
func (c *Cluster) ExceedsLeafLimit(w *Request) bool {
	return c.Topology.MaxGPUsPerLeaf > 0 && w.GPUs > c.Topology.MaxGPUsPerLeaf
}

// Node returns the node with the given ID. If the cluster has no node with this ID, Node adds one.
func (c *Cluster) Node(id string) *Node {
	n := c.NodesByID[id]
	if n == nil {
		n = &Node{ID: id, SeatLimit: c.cfg.RankLimit()}
		c.NodesByID[id] = n
		c.Stale.layout = true
		c.locateNode(n) // the topology may list the node before it has a record
	}
	return n
}

// MarkDirty ensures that the next call of RefreshIndex refreshes the node.
func (c *Cluster) MarkDirty(n *Node) {
	if !n.dirty {
		n.dirty = true
		c.Stale.Nodes = append(c.Stale.Nodes, n)
	}
}

// SetTopology replaces the topology and computes the location of every node again.
func (c *Cluster) SetTopology(t *ares.Topology) {
	c.Topology, c.locator = t, topology.NewLocator(t)
	c.Stale.layout = true
	for _, n := range c.NodesByID { // order-free: nodes are independent
		c.locateNode(n)
	}
}

// locateNode computes the location of a node from the topology and the node's labels, and stores it in the node.
func (c *Cluster) locateNode(n *Node) {
	var labels map[string]string
	if n.Record != nil {
		labels = n.Record.Labels
	}
	if place := c.locator.Locate(n.ID, labels); place != n.Place {
		n.Place, n.traitsChanged, c.Stale.layout = place, true, true
		c.MarkDirty(n)
	}
}

// RefreshIndex brings the indexes over the nodes up to date. RefreshIndex runs before a search and not after every
// batch of events. Otherwise a cluster whose nodes register one at a time would get a new layout for each node.
func (c *Cluster) RefreshIndex() {
	for _, n := range c.Stale.Nodes {
		n.recountFree()
		if n.IsUnknown() {
			delete(c.NodesByID, n.ID)
			c.Stale.layout = true
		}
	}
	if c.Stale.layout {
		c.rebuildLayout()
	}
	for _, n := range c.Stale.Nodes {
		if n.traitsChanged && c.NodesByID[n.ID] == n {
			c.TraitChanges.Add(n.Pos)
		}
		if n.GainedRoom && c.NodesByID[n.ID] == n {
			c.RoomChanges.Add(n.Pos)
		}
		if c.NodesByID[n.ID] == n {
			c.Domains.SetHistory(n.Pos, n.HistoryScore())
			c.CapacityChanged(n)
		}
		n.dirty, n.traitsChanged, n.GainedRoom = false, false, false
	}
	if c.Stale.Capacity {
		c.Stale.Capacity = false
		c.measureCapacity()
	}
	clear(c.Stale.Nodes)
	c.Stale.Nodes = c.Stale.Nodes[:0]
}

// rebuildLayout sorts the nodes by location and ID and assigns each node its position, so that each domain is a range
// of positions. It also rebuilds everything that is indexed by a node's position.
func (c *Cluster) rebuildLayout() {
	c.Stale.layout = false
	c.Layout++
	c.Nodes = c.Nodes[:0]
	for _, n := range c.NodesByID { // order-free: sorted right below
		c.Nodes = append(c.Nodes, n)
	}
	slices.SortFunc(c.Nodes, CompareByPlace)
	c.firstByName = slices.SortedFunc(slices.Values(c.Nodes), func(a, b *Node) int { return cmp.Compare(a.ID, b.ID) })
	c.firstByName = c.firstByName[:min(len(c.firstByName), firstFitNodes)]
	places := make([]topology.Location, len(c.Nodes))
	for i, n := range c.Nodes {
		n.Pos, places[i] = i, n.Place
	}
	c.Domains = topology.NewTree(places, c.Topology)
	c.TraitChanges.reset()
	c.RoomChanges.reset()
	c.CapacityChanges.reset()
	c.FreeCPUMem = slices.Grow(c.FreeCPUMem[:0], len(c.Nodes))[:len(c.Nodes)]
	c.Summaries = slices.Grow(c.Summaries[:0], len(c.Nodes))[:len(c.Nodes)]
	c.LastCapacityChange = slices.Grow(c.LastCapacityChange[:0], len(c.Nodes))[:len(c.Nodes)]
	c.BlockMaxes = make([]BlockMax, (len(c.Nodes)+63)/64)
	for _, n := range c.Nodes {
		c.Domains.SetHistory(n.Pos, n.HistoryScore())
		c.CapacityChanged(n)
	}
}

// CompareByPlace orders nodes by location, then by ID.
func CompareByPlace(a, b *Node) int {
	return cmp.Or(topology.CompareLocations(a.Place, b.Place), cmp.Compare(a.ID, b.ID))
}

// measureCapacity computes the total capacity of all nodes that have a session. Fair shares are computed from this
// total capacity. The size of the largest node, the list of device models and the number of devices of each model are
// computed here too.
func (c *Cluster) measureCapacity() {
	var sum queue.Resources
	c.ModelsPresent, c.largest = c.ModelsPresent[:0], largestNode{}
	seen, supply := make([]bool, len(c.models.names)), make([]ModelSupply, len(c.models.names))
	for _, n := range c.Nodes {
		if n.Record == nil {
			continue
		}
		for i := range n.Type.Devices {
			if m := n.Type.Devices[i].ModelIndex; !seen[m] {
				seen[m] = true
				c.ModelsPresent = append(c.ModelsPresent, m)
			}
		}
		if n.Session == nil {
			continue
		}
		for i := range n.Type.Devices {
			if d := &n.Type.Devices[i]; d.mig == "" {
				supply[d.ModelIndex].Accelerator = d.kind
				supply[d.ModelIndex].Devices++
			}
		}
		c.largest.cpus = max(c.largest.cpus, n.Type.MilliCPUs/1000)
		c.largest.gpus = max(c.largest.gpus, len(n.Type.Devices)*WholeMilli)
		has := n.Type.capacity()
		has.Memory = int64(n.Record.MemoryMB) // not rounded
		sum = sum.Add(has, 1)
	}
	slices.SortFunc(c.ModelsPresent, func(a, b int) int { return cmp.Compare(c.models.names[a], c.models.names[b]) })
	c.Capacity = sum
	if !slices.Equal(c.models.supply, supply) {
		c.models.supply = supply
		c.models.changes++
	}
}

// Supply returns the supply of each model, by model index, as of the last RefreshIndex. It also returns how often the supply
// changed.
func (c *Cluster) Supply() (byModel []ModelSupply, changes int) {
	return c.models.supply, c.models.changes
}

// PreferredNodes returns those allowed nodes that the request also prefers. The returned set is valid until the next
// call of PreferredNodes.
func (c *Cluster) PreferredNodes(f *FeasibleSet, allowed *Set) *Set {
	if allowed == &f.Nodes {
		return &f.Preferred
	}
	c.preferredScratch.Resize(len(c.Nodes))
	allowed.Common(&f.Preferred, 0, len(c.Nodes), func(i int) bool {
		c.preferredScratch.Add(i)
		return false
	})
	return &c.preferredScratch
}

// VisitSpan finds the domain of the given level that contains the node. It calls the function `tell` with
// the domain's range of positions. VisitSpan does nothing for an unknown node.
func (c *Cluster) VisitSpan(node string, level ares.Level, tell func(lo, hi int)) {
	if n := c.NodesByID[node]; n != nil {
		tell(c.Domains.EnclosingDomain(n.Pos, level))
	}
}

// EmptyCapacity returns the number of members that would fit on the nodes of a set if those nodes were empty.
func (c *Cluster) EmptyCapacity(of *Set, w *Request) (members int) {
	for at := of.Next(0); at >= 0; at = of.Next(at + 1) {
		members += c.Nodes[at].EmptyRoom(w)
	}
	return members
}

// largestNode holds, for each resource, the largest amount that any node has. Devices are counted in thousandths.
type largestNode struct{ cpus, gpus int }

// LargestSize returns the largest number of CPUs on any node, and the largest number of devices on any node, in
// thousandths. Both results are 1 or more, so that callers can divide by them.
func (c *Cluster) LargestSize() (cpus, gpus int) {
	return max(c.largest.cpus, 1), max(c.largest.gpus, 1)
}

// AnyNode considers the allowed nodes at positions p with lo <= p < hi. It returns the first node on which one
// member fits, or nil if there is none. AnyNode ignores scores.
func (c *Cluster) AnyNode(w *Request, allowed *Set, lo, hi int) *Node {
	for i := allowed.Next(lo); i >= 0 && i < hi; i = allowed.Next(i + 1) {
		if sp := &c.FreeCPUMem[i]; int(sp.MilliCPUs) < w.MilliCPUs || int(sp.Memory) < w.Memory {
			continue
		}
		if n := c.Nodes[i]; n.Fits(w) {
			return n
		}
	}
	return nil
}

// CapacityChanged updates the indexes after the free capacity of a node has changed. Code that changes a node's
// allocations must call CapacityChanged before the next search.
func (c *Cluster) CapacityChanged(n *Node) {
	c.changeCount++
	n.Changes = c.changeCount
	c.CapacityChanges.Add(n.Pos)
	c.LastCapacityChange[n.Pos] = c.CapacityChanges.Count - 1
	c.BlockMaxes[n.Pos/64].Stale = true
	if !n.Schedulable() {
		c.Domains.SetFree(n.Pos, -1, 0)
		c.Summaries[n.Pos], c.FreeCPUMem[n.Pos] = nodeSummary{}, freeCPUMem{-1, -1}
		return
	}
	c.Domains.SetFree(n.Pos, bits.OnesCount64(n.Free), len(n.Devices))
	c.Summaries[n.Pos] = summarize(n)
	c.FreeCPUMem[n.Pos] = freeCPUMem{int32(max(n.Type.MilliCPUs-n.MilliCPUs, 0)), int32(max(n.Record.MemoryMB-n.Memory, 0))}
}

// freeCPUMem holds the free CPUs (in thousandths) and the free memory (in MB) of a node. The values of all nodes are
// adjacent in memory, so that a search quickly skips nodes with too few free CPUs or too little free memory.
// Invariant: the free CPUs and the free memory are both -1 if the node is not schedulable. If the node is
// schedulable, both values are 0 or more, even if more is allocated on the node than it now has. So a request for
// no CPUs and no memory still fits on a schedulable node, even if all CPUs and all memory of the node are
// allocated.
type freeCPUMem struct{ MilliCPUs, Memory int32 }
