package queue

import (
	"cmp"
	"iter"
	"slices"

	"github.com/ares-scheduler/ares"
)

// Tree holds the tenants and queues: which jobs wait in them, what they have
// allocated, what they used in the past, and how much they may have.
//
// It has one owner, and is not safe for concurrent use: methods that only read may
// rebuild sums after a change of records, or sort new arrivals.
type Tree[J any] struct {
	cfg        Config
	prefixBase int64     // cfg.prefixBase(), computed once
	capacity   Resources // of the whole cluster
	root       *node[J]
	tenants    map[string]*tenantEntry[J]
	stale      bool // a record changed after the last rebuild
	adaptive   bool // at least one tenant has a weight that follows its past use

	// models are the device models, by index. A model keeps its index for ever.
	// Invariant: len(modelPatterns) == len(models).
	models        []string
	patterns      []string       // model patterns of all quotas, in lower case, sorted, without duplicates
	modelPatterns [][]int        // by model: the indexes of the patterns that match it
	pools         []quotaAccount // by pattern: the sum of the topmost quotas

	recentQueues []*shapeQueue[J] // by shape: where an item of the shape was last pushed, or nil
	spareBuffers [][]slot[J]      // empty buffers of maxChunk slots. Invariant: at most maxSpareBuffers
	sortScratch  []slot[J]        // memory to sort in
	round        Round[J]         // the only round; open while one is under way
}

// tenantEntry is a tenant that was declared, or named by a job or a queue.
type tenantEntry[J any] struct {
	node   *node[J]
	record *ares.Tenant // nil when it is not declared
	queues map[string]*queueEntry[J]
}

// queueEntry is a queue that was declared, or named by a job or as a parent.
type queueEntry[J any] struct {
	node   *node[J]
	leaf   *LeafQueue[J]
	record *ares.Queue // nil when it is not declared
}

// node is a vertex of the tree: the root, a tenant, a queue, or the leaf queue
// of a queue.
type node[J any] struct {
	parent   *node[J]
	name     string     // unique among its siblings; "" for a leaf queue
	children []*node[J] // sorted by name
	index    int        // Invariant: parent.children[index] is this node, after a rebuild
	weight   int64      // in thousandths. Invariant: weight > 0

	// Bounds of a weight that follows past use, in thousandths. Both are 0 when
	// the weight is fixed.
	minWeight int64
	maxWeight int64

	tenant    string
	queue     string // "" for a tenant
	limits    ares.Limits
	hasLimits bool          // Invariant: when false, limits are not read
	leaf      *LeafQueue[J] // nil unless this is the node of a leaf queue

	// Sums over the leaf queues at and below the node. They are right whenever
	// the tree is not stale; those of a leaf queue are always right.
	waiting   int            // items
	allocated Resources      // what counts for shares
	limitUse  ares.Use       // what counts for limits; kept only at leaf queues and where hasLimits
	history   usageHistory   // past use
	quotas    []quotaAccount // by pattern; empty when the node has no quota

	// State of the round under way; empty otherwise.
	pastUse         Resources      // past use at the time of the round
	effectiveWeight int64          // the weight after its adjustment to past use
	heap            []candidate[J] // children that have items left
}

// isActive reports whether the node takes part in the division: it has something
// allocated or waiting.
func (n *node[J]) isActive() bool { return n.waiting > 0 || n.allocated != Resources{} }

// New returns an empty tree.
func New[J any](cfg Config) *Tree[J] {
	t := &Tree[J]{cfg: cfg, prefixBase: cfg.prefixBase(), root: &node[J]{weight: 1000}, tenants: map[string]*tenantEntry[J]{}}
	t.round.tree = t
	return t
}

// Config returns the configuration the tree was made with.
func (t *Tree[J]) Config() Config { return t.cfg }

// SetCapacity sets the total resources of the cluster.
func (t *Tree[J]) SetCapacity(total Resources) { t.capacity = total }

// SetTenant sets the record of a tenant; nil removes it.
func (t *Tree[J]) SetTenant(id string, record *ares.Tenant) {
	t.tenant(id).record = record
	t.stale = true
}

// SetQueue sets the record of a queue. It creates the parent when that is not known
// yet, so that records may arrive in any order.
func (t *Tree[J]) SetQueue(record *ares.Queue) {
	t.queue(record.Tenant, record.Name).record = record
	if record.Parent != "" {
		t.queue(record.Tenant, record.Parent)
	}
	t.stale = true
}

// DropQueue removes the record of a queue. Items in the queue go on waiting.
func (t *Tree[J]) DropQueue(tenant, name string) {
	t.queue(tenant, name).record = nil
	t.stale = true
}

// Leaf returns the leaf queue of a queue, and creates it when necessary; "" is
// the default queue. The same names return the same leaf queue for ever.
func (t *Tree[J]) Leaf(tenant, name string) *LeafQueue[J] {
	if name == "" {
		name = DefaultQueue
	}
	return t.queue(tenant, name).leaf
}

// tenant returns the entry of a tenant, and creates it when necessary.
func (t *Tree[J]) tenant(id string) *tenantEntry[J] {
	if known, ok := t.tenants[id]; ok {
		return known
	}
	made := &tenantEntry[J]{
		node:   &node[J]{parent: t.root, name: id, weight: 1000, tenant: id},
		queues: map[string]*queueEntry[J]{},
	}
	t.tenants[id] = made
	t.stale = true
	return made
}

// queue returns the entry of a queue, and creates it when necessary.
func (t *Tree[J]) queue(tenant, name string) *queueEntry[J] {
	entry := t.tenant(tenant)
	if known, ok := entry.queues[name]; ok {
		return known
	}
	n := &node[J]{parent: entry.node, name: name, weight: 1000, tenant: tenant, queue: name}
	leaf := &LeafQueue[J]{tree: t, byShape: map[int]*shapeQueue[J]{}}
	leaf.node = &node[J]{parent: n, weight: 1000, tenant: tenant, queue: name, leaf: leaf}
	made := &queueEntry[J]{node: n, leaf: leaf}
	entry.queues[name] = made
	t.stale = true
	return made
}

// CountWaiting returns how many items wait, and in how many shape queues.
func (t *Tree[J]) CountWaiting() (items, shapeQueues int) {
	for _, entry := range t.tenants { // order-free: sums
		for _, q := range entry.queues { // order-free: sums
			items += q.leaf.node.waiting
			shapeQueues += len(q.leaf.shapeQueues)
		}
	}
	return items, shapeQueues
}

// QueueRecords yields the record of every declared queue, by tenant and name.
func (t *Tree[J]) QueueRecords() iter.Seq[*ares.Queue] {
	var all []*ares.Queue
	for _, entry := range t.tenants { // order-free: sorted right below
		for _, q := range entry.queues { // order-free: as above
			if q.record != nil {
				all = append(all, q.record)
			}
		}
	}
	slices.SortFunc(all, func(a, b *ares.Queue) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name))
	})
	return slices.Values(all)
}

// QueueRecord returns the record of a queue, or nil when it is not declared.
func (t *Tree[J]) QueueRecord(tenant, name string) *ares.Queue {
	if entry := t.tenants[tenant]; entry != nil && entry.queues[name] != nil {
		return entry.queues[name].record
	}
	return nil
}

// rebuild derives the parents, weights, limits, quotas and sums of all nodes from
// the records and the leaf queues, when a record changed. The state of leaf queues
// is never derived, so the result does not depend on when it is called or on the
// order in which records arrived.
func (t *Tree[J]) rebuild() {
	if !t.stale {
		return
	}
	t.stale, t.adaptive = false, false
	t.root.children = t.root.children[:0]
	var leaves []*LeafQueue[J]
	for _, entry := range t.tenants { // order-free: children are sorted below, and sums are exact
		n := entry.node
		n.children, n.weight, n.limits, n.hasLimits = n.children[:0], 1000, ares.Limits{}, false
		n.minWeight, n.maxWeight = 0, 0
		if entry.record != nil {
			if entry.record.WeightMax > 0 {
				n.minWeight, n.maxWeight, t.adaptive = weightMilli(entry.record.WeightMin), weightMilli(entry.record.WeightMax), true
			}
			n.weight, n.limits, n.hasLimits = weightMilli(entry.record.Weight), entry.record.Limits, entry.record.Limits != ares.NoLimits()
		}
		t.root.children = append(t.root.children, n)
		for _, q := range entry.queues { // order-free: as above
			q.node.children, q.node.weight, q.node.limits, q.node.hasLimits = q.node.children[:0], 1000, ares.Limits{}, false
			if q.record != nil {
				q.node.weight, q.node.limits, q.node.hasLimits = weightMilli(q.record.Weight), q.record.Limits, q.record.Limits != ares.NoLimits()
			}
		}
		for _, q := range entry.queues { // order-free: as above
			q.node.parent = entry.parentOf(q)
			q.node.parent.children = append(q.node.parent.children, q.node)
			q.node.children = append(q.node.children, q.leaf.node)
			leaves = append(leaves, q.leaf)
		}
	}
	t.root.sortChildren()
	t.rebuildQuotas(leaves)
	for _, leaf := range leaves {
		for n := leaf.node.parent; n != nil; n = n.parent {
			n.waiting += leaf.node.waiting
			n.allocated = n.allocated.Add(leaf.node.allocated, 1)
			if n.hasLimits {
				n.limitUse = n.limitUse.Add(leaf.node.limitUse)
			}
			n.history.merge(&leaf.node.history)
		}
	}
}

// sortChildren sorts the children of every node at and below n, and clears the
// sums of all nodes except leaf queues.
func (n *node[J]) sortChildren() {
	if n.leaf != nil {
		return
	}
	n.waiting, n.allocated, n.limitUse, n.history = 0, Resources{}, ares.Use{}, usageHistory{}
	slices.SortFunc(n.children, func(a, b *node[J]) int { return cmp.Compare(a.name, b.name) })
	for i, child := range n.children {
		child.index = i
		child.sortChildren()
	}
}

// parentOf returns the parent node of a queue: the queue that its record names, or
// the tenant. When the parents of queues form a cycle, all queues of the cycle
// become children of the tenant.
func (of *tenantEntry[J]) parentOf(q *queueEntry[J]) *node[J] {
	if q.record == nil || q.record.Parent == "" {
		return of.node
	}
	up, ok := of.queues[q.record.Parent]
	if !ok {
		return of.node
	}
	at := up
	for range len(of.queues) {
		if at == q {
			return of.node // q is part of a cycle
		}
		if at.record == nil {
			break
		}
		next, ok := of.queues[at.record.Parent]
		if !ok {
			break
		}
		at = next
	}
	return up.node
}
