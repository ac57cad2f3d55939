package queue

import (
	"cmp"
	"iter"
	"slices"

	"github.com/ares-scheduler/ares"
)

// Tree holds all tenants and queues. For each tenant and queue, the tree records the waiting jobs, the current
// allocation, the past usage, and the limits and quotas.
//
// A Tree has one owner and is not safe for concurrent use, because even methods that only read may rebuild sums or
// sort new arrivals.
type Tree[J any] struct {
	cfg        Config
	prefixBase int64     // cfg.prefixBase(), computed once
	capacity   Resources // of the whole cluster
	root       *node[J]
	tenants    map[string]*tenantEntry[J]
	stale      bool // a record changed after the last rebuild
	adaptive   bool // at least one tenant has a weight that adapts to its past usage

	// The field `models` holds the names of the device models, ordered by index. A model keeps its index
	// forever. Invariant: len(modelPatterns) == len(models).
	models        []string
	patterns      []string       // model patterns of all quotas, in lower case, sorted, without duplicates
	modelPatterns [][]int        // by model: the indexes of the patterns that match it
	pools         []quotaAccount // by pattern: the sum of the topmost quotas

	recentQueues []*shapeQueue[J] // by shape: where an item of the shape was last pushed, or nil
	spareBuffers [][]slot[J]      // empty buffers of maxChunk slots. Invariant: at most maxSpareBuffers
	sortScratch  []slot[J]        // scratch memory for sorting
	round        Round[J]         // the only round; open while one is under way
}

// tenantEntry is a tenant that was declared, or to which a job or a queue refers.
type tenantEntry[J any] struct {
	node   *node[J]
	record *ares.Tenant // nil when it is not declared
	queues map[string]*queueEntry[J]
}

// queueEntry is a queue that was declared, or to which a job or a child queue refers.
type queueEntry[J any] struct {
	node   *node[J]
	leaf   *LeafQueue[J]
	record *ares.Queue // nil when it is not declared
}

// A `node` is one node of the queue tree: the root, a tenant, a queue, or the leaf queue of a queue.
type node[J any] struct {
	parent   *node[J]
	name     string     // unique among its siblings; "" for a leaf queue
	children []*node[J] // sorted by name
	index    int        // Invariant: parent.children[index] is this node, after a rebuild
	weight   int64      // in thousandths. Invariant: weight > 0

	// These fields are the bounds of an adaptive weight, in thousandths. Both bounds are 0 if the weight is fixed.
	minWeight int64
	maxWeight int64

	tenant    string
	queue     string // "" for a tenant
	limits    ares.Limits
	hasLimits bool          // Invariant: when false, limits are not read
	leaf      *LeafQueue[J] // nil unless this is the node of a leaf queue

	// These fields are sums over the leaf queues at and below the node. The sums are valid while the tree is not
	// stale. The sums of a leaf queue are always valid.
	waiting   int            // items
	allocated Resources      // amounts that count for shares
	limitUse  ares.Use       // amounts that count for limits; only set at leaf queues and where hasLimits is set
	history   usageHistory   // past use
	quotas    []quotaAccount // by pattern; empty when the node has no quota

	// These fields are the state of the current round. Between rounds these fields are empty.
	pastUse         Resources      // past use at the time of the round
	effectiveWeight int64          // the weight after its adjustment to past use
	heap            []candidate[J] // children that have items left
}

// isActive reports whether the node has allocations or waiting items. Only active nodes take part in the division of
// shares.
func (n *node[J]) isActive() bool { return n.waiting > 0 || n.allocated != Resources{} }

// New returns an empty tree.
func New[J any](cfg Config) *Tree[J] {
	t := &Tree[J]{cfg: cfg, prefixBase: cfg.prefixBase(), root: &node[J]{weight: 1000}, tenants: map[string]*tenantEntry[J]{}}
	t.round.tree = t
	return t
}

// Config returns the configuration with which the tree was created.
func (t *Tree[J]) Config() Config { return t.cfg }

// SetCapacity sets the total resources of the cluster.
func (t *Tree[J]) SetCapacity(total Resources) { t.capacity = total }

// SetTenant sets the record of a tenant. If `record` is nil, SetTenant removes the record.
func (t *Tree[J]) SetTenant(id string, record *ares.Tenant) {
	t.tenant(id).record = record
	t.stale = true
}

// SetQueue sets the record of a queue. If the parent queue is not known yet, SetQueue creates it, so that records may
// arrive in any order.
func (t *Tree[J]) SetQueue(record *ares.Queue) {
	t.queue(record.Tenant, record.Name).record = record
	if record.Parent != "" {
		t.queue(record.Tenant, record.Parent)
	}
	t.stale = true
}

// DropQueue removes the record of a queue, but not the queue itself. Items in the queue continue to wait.
func (t *Tree[J]) DropQueue(tenant, name string) {
	t.queue(tenant, name).record = nil
	t.stale = true
}

// Leaf returns the leaf queue of a queue, and creates it if necessary. The name "" means the default queue. For the
// same names, Leaf always returns the same leaf queue.
func (t *Tree[J]) Leaf(tenant, name string) *LeafQueue[J] {
	if name == "" {
		name = DefaultQueue
	}
	return t.queue(tenant, name).leaf
}

// The method `tenant` returns the entry of a tenant, and creates it if necessary.
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

// The method `queue` returns the entry of a queue, and creates it if necessary.
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

// CountWaiting returns the number of waiting items, and the number of shape queues that contain them.
func (t *Tree[J]) CountWaiting() (items, shapeQueues int) {
	for _, entry := range t.tenants { // order-free: sums
		for _, q := range entry.queues { // order-free: sums
			items += q.leaf.node.waiting
			shapeQueues += len(q.leaf.shapeQueues)
		}
	}
	return items, shapeQueues
}

// QueueRecords yields the record of every declared queue, ordered by tenant and name.
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

// QueueRecord returns the record of a queue, or nil if the queue was not declared.
func (t *Tree[J]) QueueRecord(tenant, name string) *ares.Queue {
	if entry := t.tenants[tenant]; entry != nil && entry.queues[name] != nil {
		return entry.queues[name].record
	}
	return nil
}

// If a record changed, the method `rebuild` computes the parents, weights, limits, quotas and sums of all nodes
// again. It reads only the records and the leaf queues, and never changes a leaf queue. So its result depends
// neither on the time of the call nor on the order in which records arrived.
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

// sortChildren sorts the children of n and of all nodes below it. It also clears the sums of all these nodes except
// leaf queues.
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

// parentOf returns the parent node of a queue. The parent is the queue that its record names, or the tenant. When
// the parents of queues form a cycle, all queues of the cycle become children of the tenant.
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
