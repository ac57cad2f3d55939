package queue

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Config is how time counts.
type Config struct {
	// Step is how long a job waits for one point of priority. 0 for no ageing.
	Step time.Duration
	// HalfLife is after how long past use is worth half. 0 for no past use.
	// It is kept to the millisecond.
	HalfLife time.Duration
	// Ranked orders the items of a leaf by the class they were submitted with
	// and then by the rank their owner gave them, instead of by aged priority.
	// Nobody ages then.
	Ranked bool
}

// Defaults are 10 seconds a point and a day.
func Defaults() Config { return Config{Step: 10 * time.Second, HalfLife: 24 * time.Hour} }

// DefaultQueue is the queue of a job that names none.
const DefaultQueue = "default"

// Tree is tenants and queues with what waits in them, what they hold and held,
// and what they may hold. It has one owner. Rank, Before, Fairness, Room, Admit
// and Waiting only read, and may run beside each other, once Settle was called
// after the last change.
type Tree[J any] struct {
	cfg           Config
	prefixBase    int64 // of keys
	capacity      Use
	root          *node[J]
	tenants       map[string]*tenantEntry[J]
	stale         bool // records changed since the tree was last put together
	adaptive      bool // the weight of some tenant follows its past use
	models        []string
	patterns      []string // of the quotas, in lower case
	modelPatterns [][]int  // by model: the patterns that match it
	pools         []quotaAccount
	recentQueues  []*shapeQueue[J] // by shape
	spareBuffers  [][]slot[J]      // room of chunks that are gone
	sortScratch   []slot[J]        // to sort on
	round         Pass[J]
}

type tenantEntry[J any] struct {
	node   *node[J]
	record *ares.Tenant // nil when nobody declared it
	queues map[string]*queueEntry[J]
}

type queueEntry[J any] struct {
	node   *node[J]
	leaf   *Leaf[J]
	record *ares.Queue // nil when nobody declared it
}

// node is the root, a tenant, a queue, or the leaf of a queue.
type node[J any] struct {
	parent    *node[J]
	name      string // among its siblings, "" for a leaf
	children  []*node[J]
	index     int // in the parent's kids
	weight    int64
	minWeight int64 // the bounds of a weight that follows past use; 0 for one that does not
	maxWeight int64
	tenant    string
	queue     string // "" for a tenant
	limits    ares.Limits
	hasLimits bool
	leaf      *Leaf[J] // of a leaf

	// Of everything under it.
	waiting   int
	allocated Use
	limitUse  ares.Use
	history   usageHistory
	quotas    []quotaAccount // by pattern; empty when it has no quota

	// Of a pass.
	pastUse         Use   // past use at its time
	effectiveWeight int64 // what its weight comes to
	heap            []candidate[J]
}

// Leaf is the jobs that named one queue themselves.
type Leaf[J any] struct {
	tree        *Tree[J]
	node        *node[J]
	byShape     map[int]*shapeQueue[J]
	shapeQueues []*shapeQueue[J] // in no order
	heads       []head[J]        // of each line
	heldByModel []int64          // held, thousandths of devices by model
	archived    endedUsage

	// Of a pass.
	cursors    []cursor[J] // by line
	tournament []entrant   // whose turn it is
	remaining  int         // lines with something left
	snapshot   leafSnapshot
}

// Tenant and Queue are whose the leaf is.
func (l *Leaf[J]) Tenant() string { return l.node.tenant }

// Queue is the name of the leaf's queue.
func (l *Leaf[J]) Queue() string { return l.node.queue }

// New returns an empty tree.
func New[J any](cfg Config) *Tree[J] {
	t := &Tree[J]{cfg: cfg, prefixBase: cfg.prefixBase(), root: &node[J]{weight: 1000}, tenants: map[string]*tenantEntry[J]{}}
	t.round.tree = t
	return t
}

// Config is what the tree was made with.
func (t *Tree[J]) Config() Config { return t.cfg }

// Capacity sets what the fleet has.
func (t *Tree[J]) Capacity(total Use) { t.capacity = total }

// Tenant notes the record of a tenant, nil when there is none any more.
func (t *Tree[J]) Tenant(id string, record *ares.Tenant) {
	t.tenant(id).record = record
	t.stale = true
}

// Queue notes the record of a queue. Its parent need not be declared yet: it is
// there from now on, whoever else has named it before.
func (t *Tree[J]) Queue(record *ares.Queue) {
	t.queue(record.Tenant, record.Name).record = record
	if record.Parent != "" {
		t.queue(record.Tenant, record.Parent)
	}
	t.stale = true
}

// DropQueue forgets the record of a queue. What waits in it goes on waiting.
func (t *Tree[J]) DropQueue(tenant, name string) {
	t.queue(tenant, name).record = nil
	t.stale = true
}

// Leaf returns where the jobs of a queue wait, "" for the default one. It is
// the same one for ever.
func (t *Tree[J]) Leaf(tenant, name string) *Leaf[J] {
	if name == "" {
		name = DefaultQueue
	}
	return t.queue(tenant, name).leaf
}

func (t *Tree[J]) tenant(id string) *tenantEntry[J] {
	if have, ok := t.tenants[id]; ok {
		return have
	}
	made := &tenantEntry[J]{
		node:   &node[J]{parent: t.root, name: id, weight: 1000, tenant: id},
		queues: map[string]*queueEntry[J]{},
	}
	t.tenants[id] = made
	t.stale = true
	return made
}

func (t *Tree[J]) queue(tenant, name string) *queueEntry[J] {
	of := t.tenant(tenant)
	if have, ok := of.queues[name]; ok {
		return have
	}
	n := &node[J]{parent: of.node, name: name, weight: 1000, tenant: tenant, queue: name}
	leaf := &Leaf[J]{tree: t, byShape: map[int]*shapeQueue[J]{}}
	leaf.node = &node[J]{parent: n, weight: 1000, tenant: tenant, queue: name, leaf: leaf}
	made := &queueEntry[J]{node: n, leaf: leaf}
	of.queues[name] = made
	t.stale = true
	return made
}

// Settle puts the tree together after records changed. Whoever needs that does
// it by himself; it is for who lets several read at once.
func (t *Tree[J]) Settle() { t.rebuild() }

// rebuild works out who is under whom, with what weight and limits, and the sums
// of everything. What leaves hold is never derived, so it may be done at any
// time and in any order of the records.
func (t *Tree[J]) rebuild() {
	if !t.stale {
		return
	}
	t.stale, t.adaptive = false, false
	t.root.children = t.root.children[:0]
	var leaves []*Leaf[J]
	for _, of := range t.tenants { // order-free: kids are sorted below, sums are exact
		n := of.node
		n.children, n.weight, n.limits, n.hasLimits = n.children[:0], 1000, ares.Limits{}, false
		n.minWeight, n.maxWeight = 0, 0
		if of.record != nil {
			if of.record.WeightMax > 0 {
				n.minWeight, n.maxWeight, t.adaptive = weightMilli(of.record.WeightMin), weightMilli(of.record.WeightMax), true
			}
			n.weight, n.limits, n.hasLimits = weightMilli(of.record.Weight), of.record.Limits, of.record.Limits != ares.NoLimits()
		}
		t.root.children = append(t.root.children, n)
		for _, q := range of.queues { // order-free: as above
			q.node.children, q.node.weight, q.node.limits, q.node.hasLimits = q.node.children[:0], 1000, ares.Limits{}, false
			if q.record != nil {
				q.node.weight, q.node.limits, q.node.hasLimits = weightMilli(q.record.Weight), q.record.Limits, q.record.Limits != ares.NoLimits()
			}
		}
		for _, q := range of.queues { // order-free: as above
			q.node.parent = of.parentOf(q)
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

// sortChildren sorts the kids of every node under n and clears the sums of all that
// are not leaves.
func (n *node[J]) sortChildren() {
	if n.leaf != nil {
		return
	}
	n.waiting, n.allocated, n.limitUse, n.history = 0, Use{}, ares.Use{}, usageHistory{}
	slices.SortFunc(n.children, func(a, b *node[J]) int { return cmp.Compare(a.name, b.name) })
	for i, k := range n.children {
		k.index = i
		k.sortChildren()
	}
}

// parentOf is the node a queue hangs under: the queue its record names, or the
// tenant. Queues whose parents go in a circle hang under the tenant.
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
			return of.node // q is in the circle
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

// Charge adds what a job holds, sign -1 takes it off.
func (l *Leaf[J]) Charge(g Grant, sign int) { l.charge(&g, int64(sign)) }

func (l *Leaf[J]) charge(g *Grant, sign int64) {
	for n := l.node; n != nil; n = n.parent {
		n.allocated.addInPlace(&g.Use, sign)
		if n.hasLimits || n.leaf != nil { // what a limit would read, and what settling adds up
			addLimitUse(&n.limitUse, &g.Held, int(sign))
		}
	}
	for _, p := range g.GPUs {
		l.chargeModel(p.Model, sign*p.Milli)
	}
}

// Push lets an item wait.
func (l *Leaf[J]) Push(it *Item[J]) {
	if it.queue != nil || l.tree.round.open {
		panic("queue: pushed twice, or during a pass")
	}
	it.orderKey, it.boosted = itemKey(l.tree.cfg, it)
	of := l.tree.recentQueue(it.Shape)
	if of == nil || of.leaf != l {
		of = l.shapeQueue(it.Shape)
	}
	it.queue = of
	of.push(l.tree.slotOf(it))
	for n := l.node; n != nil; n = n.parent {
		n.waiting++
	}
}

// shapeQueue returns the one of a shape, which is known from then on.
func (l *Leaf[J]) shapeQueue(shape int) *shapeQueue[J] {
	of, ok := l.byShape[shape]
	if !ok {
		of = &shapeQueue[J]{shape: shape, leaf: l, index: len(l.shapeQueues)}
		l.byShape[shape] = of
		l.shapeQueues = append(l.shapeQueues, of)
		l.heads = append(l.heads, head[J]{})
	}
	if t := l.tree; shape >= 0 && shape < maxRecentShapes {
		for len(t.recentQueues) <= shape {
			t.recentQueues = append(t.recentQueues, nil)
		}
		t.recentQueues[shape] = of
	}
	return of
}

// recentQueue is the line where an item of a shape was last pushed, if there is still
// one. Most shapes are of one leaf, so it saves looking into the map.
func (t *Tree[J]) recentQueue(shape int) *shapeQueue[J] {
	if shape < 0 || shape >= len(t.recentQueues) {
		return nil
	}
	return t.recentQueues[shape]
}

// maxRecentShapes bounds for how many shapes that is kept, to 512 KB.
const maxRecentShapes = 1 << 16

// Remove takes an item out of its leaf; it may be anywhere in it, or not wait
// at all.
func (t *Tree[J]) Remove(it *Item[J]) {
	of := it.queue
	if of == nil {
		return
	}
	if t.round.open {
		panic("queue: removed during a pass")
	}
	it.queue = nil
	of.remove(it)
	l := of.leaf
	if of.count == 0 {
		delete(l.byShape, of.shape)
		if t.recentQueue(of.shape) == of {
			t.recentQueues[of.shape] = nil
		}
		last := len(l.shapeQueues) - 1
		l.shapeQueues[of.index], l.heads[of.index] = l.shapeQueues[last], l.heads[last]
		l.shapeQueues[of.index].index = of.index
		l.shapeQueues[last], l.heads[last] = nil, head[J]{}
		l.shapeQueues, l.heads = l.shapeQueues[:last], l.heads[:last]
	}
	for n := l.node; n != nil; n = n.parent {
		n.waiting--
	}
}

// Waiting is how many items wait, and in how many lines.
func (t *Tree[J]) Waiting() (items, lines int) {
	for _, of := range t.tenants { // order-free: sums
		for _, q := range of.queues { // order-free: sums
			items += q.leaf.node.waiting
			lines += len(q.leaf.shapeQueues)
		}
	}
	return items, lines
}
