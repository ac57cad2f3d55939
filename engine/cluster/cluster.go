package cluster

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
// and the indexes that find a node for a request. RefreshIndex must run between changes
// to the nodes and a search.
type Cluster struct {
	cfg *config.Config

	NodesByID             map[string]*Node
	Nodes                 []*Node // by location, then ID, as of the last layout
	firstByName           []*Node // the first firstFitNodes of them by ID
	Layout                int     // number of times that the nodes got new positions
	Topology              *ares.Topology
	locator               *topology.Locator
	Domains               *topology.Tree
	NodeTypes             nodeTypes
	CapacityChanges       changeLog     // nodes with other free capacity than before
	LastCapacityChange    []int         // by position: index of its last entry in CapacityChanges
	FreeCPUMem            []freeCPUMem  // by position
	Summaries             []nodeSummary // by position
	BlockMaxes            []blockMax    // one for each 64 nodes
	TraitChanges          changeLog     // nodes with other traits than before: type, labels, taints, location
	RoomChanges           changeLog     // nodes that may have more free capacity than before
	UnschedulableRequests []*Request    // requests whose Gains are kept
	Capacity              queue.Resources
	ModelsPresent         []int       // model indexes of the devices in the cluster, by name of the model
	preferredScratch      Set         // result of PreferredNodes
	largest               largestNode // of any node
	changeCount           int         // number of changes of free capacity
	requestCount          int         // number of request IDs ever given
	models                modelTable
	Stale                 staleness
}

// modelTable numbers device models.
type modelTable struct {
	// index returns the index of a model in the queue tree: quotas and devices must
	// use the same index.
	index func(model string) int
	names []string // by index; "" for models that no node had
}

// staleness is what has changed since the last RefreshIndex.
type staleness struct {
	Nodes    []*Node // nodes with other records or seats
	layout   bool    // nodes were added or removed, or have another location
	Capacity bool    // the total capacity may have changed
}

// New returns a cluster without nodes. modelIndex returns the index of a device model.
func New(cfg *config.Config, modelIndex func(string) int) *Cluster {
	c := &Cluster{
		cfg: cfg, NodesByID: map[string]*Node{}, NodeTypes: nodeTypes{byKey: map[string]*NodeType{}},
		Topology: &ares.Topology{}, models: modelTable{index: modelIndex}, Stale: staleness{layout: true},
	}
	c.locator = topology.NewLocator(c.Topology)
	return c
}

// ExceedsLeafLimit reports whether one member alone needs more devices than the topology
// allows one job to have on a leaf.
func (c *Cluster) ExceedsLeafLimit(w *Request) bool {
	return c.Topology.MaxGPUsPerLeaf > 0 && w.GPUs > c.Topology.MaxGPUsPerLeaf
}

// Node returns the node with an ID, and adds it when it is new.
func (c *Cluster) Node(id string) *Node {
	n := c.NodesByID[id]
	if n == nil {
		n = &Node{ID: id}
		c.NodesByID[id] = n
		c.Stale.layout = true
		c.locateNode(n) // the topology may list it before it has a record
	}
	return n
}

// MarkDirty makes the next RefreshIndex refresh the node.
func (c *Cluster) MarkDirty(n *Node) {
	if !n.dirty {
		n.dirty = true
		c.Stale.Nodes = append(c.Stale.Nodes, n)
	}
}

// SetTopology replaces the topology and locates every node again.
func (c *Cluster) SetTopology(t *ares.Topology) {
	c.Topology, c.locator = t, topology.NewLocator(t)
	c.Stale.layout = true
	for _, n := range c.NodesByID { // order-free: each by itself
		c.locateNode(n)
	}
}

// locateNode sets the location of a node, from the topology and its labels.
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

// RefreshIndex brings the indexes over the nodes up to date. It runs before a search and
// not after every batch of events, because a cluster that registers one node at a time
// would get a new layout for each.
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

// rebuildLayout gives every node its position, by location and ID, so that each domain
// is a range of positions. It rebuilds everything that is indexed by position.
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
	c.BlockMaxes = make([]blockMax, (len(c.Nodes)+63)/64)
	for _, n := range c.Nodes {
		c.Domains.SetHistory(n.Pos, n.HistoryScore())
		c.CapacityChanged(n)
	}
}

// CompareByPlace orders nodes by location, then by ID.
func CompareByPlace(a, b *Node) int {
	return cmp.Or(topology.CompareLocations(a.Place, b.Place), cmp.Compare(a.ID, b.ID))
}

// measureCapacity computes the total capacity of the nodes with a session, which is the
// base of fair shares, the largest node, and the models present.
func (c *Cluster) measureCapacity() {
	var sum queue.Resources
	c.ModelsPresent, c.largest = c.ModelsPresent[:0], largestNode{}
	seen := make([]bool, len(c.models.names))
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
		c.largest.cpus = max(c.largest.cpus, n.Type.CPUs)
		c.largest.gpus = max(c.largest.gpus, len(n.Type.Devices)*WholeMilli)
		has := n.Type.capacity()
		has.Memory = int64(n.Record.MemoryMB) // not rounded
		sum = sum.Add(has, 1)
	}
	slices.SortFunc(c.ModelsPresent, func(a, b int) int { return cmp.Compare(c.models.names[a], c.models.names[b]) })
	c.Capacity = sum
}

// PreferredNodes returns the allowed nodes that are preferred. The result is valid until
// the next call.
func (c *Cluster) PreferredNodes(f *feasibleSet, allowed *Set) *Set {
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

// VisitSpan calls tell with the range of positions of the domain that encloses the node
// at a level. It does nothing for an unknown node.
func (c *Cluster) VisitSpan(node string, level ares.Level, tell func(lo, hi int)) {
	if n := c.NodesByID[node]; n != nil {
		tell(c.Domains.EnclosingDomain(n.Pos, level))
	}
}

// EmptyCapacity returns the number of members that would fit on the nodes of a set if
// these were empty.
func (c *Cluster) EmptyCapacity(of *Set, w *Request) (members int) {
	for at := of.Next(0); at >= 0; at = of.Next(at + 1) {
		members += c.Nodes[at].EmptyRoom(w)
	}
	return members
}

// largestNode is the maximum of each resource over the nodes; devices in thousandths.
type largestNode struct{ cpus, gpus int }

// LargestSize returns the most CPUs and the most thousandths of devices that any node
// has, and at least 1 of each, so that a caller can divide by them.
func (c *Cluster) LargestSize() (cpus, gpus int) {
	return max(c.largest.cpus, 1), max(c.largest.gpus, 1)
}

// AnyNode returns the first allowed node from position lo up to, but not including, hi
// on which one member fits, nil if none. It needs no scores.
func (c *Cluster) AnyNode(w *Request, allowed *Set, lo, hi int) *Node {
	for i := allowed.Next(lo); i >= 0 && i < hi; i = allowed.Next(i + 1) {
		if sp := &c.FreeCPUMem[i]; int(sp.CPUs) < w.CPUs || int(sp.Memory) < w.Memory {
			continue
		}
		if n := c.Nodes[i]; n.Fits(w) {
			return n
		}
	}
	return nil
}

// CapacityChanged updates the indexes after a change to the free capacity of a node.
// Whoever changes the account of a node must call it before the next search.
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
	c.FreeCPUMem[n.Pos] = freeCPUMem{int32(max(n.Type.CPUs-n.CPUs, 0)), int32(max(n.Record.MemoryMB-n.Memory, 0))}
}

// freeCPUMem is the free CPUs and memory (MB) of a node. They lie next to those of the
// other nodes, because most feasible nodes that are full lack one of them.
// Invariant: both are -1 if the node is not schedulable, and at least 0 otherwise, even
// if the node shrank below its allocations, so that a request for none still fits.
type freeCPUMem struct{ CPUs, Memory int32 }
