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
// and the indexes that find a node for a request.
type Cluster struct {
	cfg *config.Config

	NodesByID             map[string]*Node
	Nodes                 []*Node // by place, then ID, as of the last layout
	firstByName           []*Node // the first of them by ID
	Layout                int     // counts the times nodes got other positions
	Topology              *ares.Topology
	atlas                 *topology.Locator
	Domains               *topology.Tree
	NodeTypes             nodeTypes
	CapacityChanges       changeLog     // nodes that have other things left than before
	LastCapacityChange    []int         // by position: the last of its shifts
	FreeCPUMem            []freeCPUMem  // by position
	Summaries             []NodeSummary // by position
	BlockMaxes            []blockMax    // of each 64 nodes
	TraitChanges          changeLog     // nodes that became another kind of node
	RoomChanges           changeLog     // nodes that may have more room than before
	UnschedulableRequests []*Request    // of shapes that found no place
	Capacity              queue.Resources
	ModelsPresent                []int       // that some node has, by name, as the order numbers them
	preferredScratch      Set         // scratch of welcome
	largest               largestNode // of any node
	changeCount           int         // counts the changes of nodes
	requestCount          int         // counts those that were ever made
	models            modelTable
	Stale                 staleness
}

// modelTable numbers device models.
type modelTable struct {
	// modelIndex is the number of a model in the queues: quotas and devices must
	// number models alike.
	index func(model string) int
	names []string // by that number; "" for models that no node had
}

// staleness is what has changed since RefreshIndex.
type staleness struct {
	Nodes    []*Node // with other records or seats
	layout   bool    // nodes came, went or have another location
	Capacity bool    // the cluster's capacity may be another
}

// New returns a cluster without nodes. modelIndex numbers device models.
func New(cfg *config.Config, modelIndex func(string) int) *Cluster {
	c := &Cluster{
		cfg: cfg, NodesByID: map[string]*Node{}, NodeTypes: nodeTypes{byKey: map[string]*NodeType{}},
		Topology: &ares.Topology{}, models: modelTable{index: modelIndex}, Stale: staleness{layout: true},
	}
	c.atlas = topology.NewLocator(c.Topology)
	return c
}

// ExceedsLeafLimit says whether one member alone asks for more devices than one job may
// take of a leaf.
func (c *Cluster) ExceedsLeafLimit(w *Request) bool {
	return c.Topology.MaxGPUsPerLeaf > 0 && w.GPUs > c.Topology.MaxGPUsPerLeaf
}

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

func (c *Cluster) MarkDirty(n *Node) {
	if !n.dirty {
		n.dirty = true
		c.Stale.Nodes = append(c.Stale.Nodes, n)
	}
}

// SetTopology takes over a topology: every node may be somewhere else now.
func (c *Cluster) SetTopology(t *ares.Topology) {
	c.Topology, c.atlas = t, topology.NewLocator(t)
	c.Stale.layout = true
	for _, n := range c.NodesByID { // order-free: each by itself
		c.locateNode(n)
	}
}

// locateNode finds where a node stands.
func (c *Cluster) locateNode(n *Node) {
	var labels map[string]string
	if n.Record != nil {
		labels = n.Record.Labels
	}
	if place := c.atlas.Locate(n.ID, labels); place != n.Place {
		n.Place, n.traitsChanged, c.Stale.layout = place, true, true
		c.MarkDirty(n)
	}
}

// RefreshIndex brings the index over the nodes up to date. It is done when somebody
// asks, not with each batch, because a fleet that comes up one node at a time
// would be laid out anew for each.
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

// rebuildLayout gives every node its position, by place and ID, so that each domain
// is a range.
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

// CompareByPlace is the order of the nodes.
func CompareByPlace(a, b *Node) int {
	return cmp.Or(topology.CompareLocations(a.Place, b.Place), cmp.Compare(a.ID, b.ID))
}

// measureCapacity counts what the fleet has: what shares are shares of, and the models
// that quotas have to be asked about.
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

// PreferredNodes is the allowed nodes that nothing speaks against.
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

func (c *Cluster) VisitSpan(node string, level ares.Level, tell func(lo, hi int)) {
	if n := c.NodesByID[node]; n != nil {
		tell(c.Domains.EnclosingDomain(n.Pos, level))
	}
}

// EmptyCapacity is how many members of a want the nodes of a set would take if they were empty.
func (c *Cluster) EmptyCapacity(of *Set, w *Request) (members int) {
	for at := of.Next(0); at >= 0; at = of.Next(at + 1) {
		members += c.Nodes[at].EmptyRoom(w)
	}
	return members
}

// largestNode is the largest machine's CPUs, and another's thousandths of devices.
type largestNode struct{ cpus, gpus int }

// LargestSize is the CPUs, and the thousandths of devices, of the fleet's largest
// machines, so that neither is 0.
func (c *Cluster) LargestSize() (cpus, gpus int) {
	return max(c.largest.cpus, 1), max(c.largest.gpus, 1)
}

// AnyNode finds a node with room, without a board.
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

// CapacityChanged notes that a node has other things left than before.
func (c *Cluster) CapacityChanged(n *Node) {
	c.changeCount++
	n.Changes = c.changeCount
	c.CapacityChanges.Add(n.Pos)
	c.LastCapacityChange[n.Pos] = c.CapacityChanges.Count - 1
	c.BlockMaxes[n.Pos/64].Stale = true
	if !n.Schedulable() {
		c.Domains.SetFree(n.Pos, -1, 0)
		c.Summaries[n.Pos], c.FreeCPUMem[n.Pos] = NodeSummary{}, freeCPUMem{-1, -1}
		return
	}
	c.Domains.SetFree(n.Pos, bits.OnesCount64(n.Free), len(n.Devices))
	c.Summaries[n.Pos] = summarize(n)
	c.FreeCPUMem[n.Pos] = freeCPUMem{int32(max(n.Type.CPUs-n.CPUs, 0)), int32(max(n.Record.MemoryMB-n.Memory, 0))}
}

// freeCPUMem is a node's CPUs and memory that are left, side by side with those of
// the others: most nodes that come into question and have no room lack these.
// It is never below 0, so that who asks for none finds room on a machine that
// has less than it had when others came, but for a node that is not open.
type freeCPUMem struct{ CPUs, Memory int32 }
