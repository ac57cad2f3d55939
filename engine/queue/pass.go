package queue

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Pass is the order of one decision. It offers items one by one; each is taken
// or refused before the next.
type Pass[J any] struct {
	tree       *Tree[J]
	open       bool
	now        time.Time
	bounds     classBounds
	adjustment weightAdjustment
	path       []*node[J] // to the leaf whose turn it is; empty when that is not known
	leaf       *Leaf[J]   // that leaf
	classEnd   uint64     // up to this key its items are certainly of the class served
	contested  bool       // somebody on the path has a sibling to compare with
	charged    []*Leaf[J] // leaves from which something was taken
}

// leafSnapshot is what a leaf held before anything was taken from it in a pass, so that
// one step puts it back.
type leafSnapshot struct {
	taken       bool
	allocated   Use
	limitUse    ares.Use
	heldByModel []int64
}

// candidate is a child with items left: the highest class among them, and its share.
type candidate[J any] struct {
	key  uint64 // smaller is sooner
	node *node[J]
}

func (a *candidate[J]) before(b *candidate[J]) bool {
	return a.key < b.key || a.key == b.key && a.node.index < b.node.index
}

// Begin starts a pass. There is one at a time, and until its end nothing may be
// pushed or removed.
func (t *Tree[J]) Begin(now time.Time) *Pass[J] {
	if t.round.open {
		panic("queue: a pass is under way")
	}
	t.rebuild()
	p := &t.round
	p.open, p.now, p.bounds = true, now, t.cfg.classBoundsAt(now)
	var at moment
	if t.cfg.HalfLife > 0 {
		at = t.cfg.momentOf(now)
		p.adjustment = t.weightAdjustment(at)
	}
	p.prepare(t.root, at)
	return p
}

// prepare up what is under a node.
func (p *Pass[J]) prepare(n *node[J], at moment) {
	if l := n.leaf; l != nil {
		l.startTournament()
		return
	}
	for _, k := range n.children {
		if k.waiting == 0 {
			continue
		}
		p.prepare(k, at)
		n.heap = append(n.heap, candidate[J]{0, k})
	}
	for i := range n.heap {
		// Who has nobody to be compared with needs no share.
		if k := n.heap[i].node; len(n.heap) > 1 && p.tree.cfg.HalfLife > 0 {
			k.pastUse = k.history.averageAt(at)
		}
		k := n.heap[i].node
		k.effectiveWeight = effectiveWeight(&p.adjustment, k, k.pastUse, p.tree.capacity)
		n.heap[i].key = p.candidateKey(n.heap[i].node, len(n.heap) > 1)
	}
	for i := len(n.heap)/2 - 1; i >= 0; i-- {
		siftDown(n.heap, i)
	}
}

// candidateKey orders a node with items left among its siblings: by the highest class
// among them, then by share, where there is somebody to compare with.
func (p *Pass[J]) candidateKey(n *node[J], rivals bool) uint64 {
	var class uint64
	if n.leaf != nil {
		class = uint64(classCount - 1 - headClass(&p.bounds, n.leaf.tournament[1].prefix, n.leaf))
	} else {
		class = n.heap[0].key >> 61
	}
	if !rivals {
		return class << 61
	}
	return class<<61 | weightedShare(n.allocated.Add(n.pastUse, 1), p.tree.capacity, n.effectiveWeight)
}

// Next offers the item whose turn it is; false means that none is left.
func (p *Pass[J]) Next() (*Item[J], bool) {
	if len(p.path) == 0 {
		n := p.tree.root
		for n.leaf == nil {
			if len(n.heap) == 0 {
				return nil, false
			}
			p.contested = p.contested || len(n.heap) > 1
			n = n.heap[0].node
			p.path = append(p.path, n)
		}
		p.leaf = n.leaf
		p.classEnd = p.bounds.lastPrefixOf(classCount - 1 - int(n.parent.heap[0].key>>61))
	}
	return p.leaf.first(), true
}

// Take says that the offered item got a place. What it was granted counts from
// now on, until the end of the pass.
func (p *Pass[J]) Take(g Grant) {
	p.charge(&g)
	p.Skip()
}

// Again says that a part of the offered item got a place, and that there is
// more to it. What was granted counts; the item is still the one offered.
func (p *Pass[J]) Again(g Grant) { p.charge(&g) }

func (p *Pass[J]) charge(g *Grant) {
	p.takeSnapshot(p.leaf)
	p.leaf.charge(g, 1)
}

// Count counts something out of turn, until the end of the pass: it changes no
// share, so whose turn it is stays as it was.
func (p *Pass[J]) Count(l *Leaf[J], g Grant, sign int) {
	g.Use = Use{}
	p.takeSnapshot(l)
	l.charge(&g, int64(sign))
}

// takeSnapshot notes what a leaf held before the pass counts anything there.
func (p *Pass[J]) takeSnapshot(l *Leaf[J]) {
	if !l.snapshot.taken {
		l.snapshot = leafSnapshot{true, l.node.allocated, l.node.limitUse, slices.Clone(l.heldByModel)}
		p.charged = append(p.charged, l)
	}
}

// Skip passes over the offered item, not over its line: nothing more is wanted
// for it now.
func (p *Pass[J]) Skip() {
	p.leaf.advance()
	p.reorderPath(true)
}

// Yield ends the turn of the offered item, which keeps its place in its line:
// whose turn is next is found anew.
func (p *Pass[J]) Yield() { p.reorderPath(true) }

// Refuse says that the offered item found no place. Its line is passed over
// from now on.
func (p *Pass[J]) Refuse() {
	p.leaf.skipShape()
	p.reorderPath(false)
}

// Hold says that the offered item found no place, and that nobody behind it in
// its leaf gets one before it does.
func (p *Pass[J]) Hold() {
	p.leaf.remaining = 0
	p.reorderPath(true)
}

// reorderPath puts the nodes of the path in order again, from the leaf up. They are
// the first of their siblings, and can only have moved back.
func (p *Pass[J]) reorderPath(charged bool) {
	if l := p.leaf; !p.contested && l.remaining > 0 && (l.tournament[1].prefix <= p.classEnd || p.candidateKey(l.node, false) == l.node.parent.heap[0].key) {
		return // nobody else, and the same class: it is its turn again
	}
	for i, n := range slices.Backward(p.path) {
		up := p.tree.root
		if i > 0 {
			up = p.path[i-1]
		}
		if len(n.heap) == 0 && (n.leaf == nil || n.leaf.remaining == 0) {
			up.heap = popCandidate(up.heap)
			charged = true // what comes up may be of another class
			continue
		}
		key := p.candidateKey(n, len(up.heap) > 1)
		if key == up.heap[0].key && !charged {
			break
		}
		up.heap[0].key = key
		if len(up.heap) > 1 {
			siftDown(up.heap, 0)
		}
	}
	p.path, p.leaf, p.classEnd, p.contested = p.path[:0], nil, 0, false
}

// End puts everything back as it was before the pass.
func (p *Pass[J]) End() {
	for _, l := range p.charged {
		l.restore()
	}
	p.reset(p.tree.root)
	clear(p.charged)
	*p = Pass[J]{tree: p.tree, path: p.path[:0], charged: p.charged[:0]}
}

// restore gives up what was taken from a leaf.
func (l *Leaf[J]) restore() {
	var more Grant
	more.Use = l.node.allocated.Add(l.snapshot.allocated, -1)
	more.Held = l.node.limitUse
	addLimitUse(&more.Held, &l.snapshot.limitUse, -1)
	l.charge(&more, -1)
	for model := max(len(l.heldByModel), len(l.snapshot.heldByModel)) - 1; model >= 0; model-- {
		if held := valueAt(l.heldByModel, model) - valueAt(l.snapshot.heldByModel, model); held != 0 {
			l.chargeModel(model, -held)
		}
	}
	l.snapshot = leafSnapshot{}
}

// valueAt is what a list has at a place, 0 beyond its end.
func valueAt(in []int64, i int) int64 {
	if i < len(in) {
		return in[i]
	}
	return 0
}

func (p *Pass[J]) reset(n *node[J]) {
	for _, k := range n.children {
		if k.waiting == 0 {
			continue
		}
		k.pastUse, k.effectiveWeight = Use{}, 0
		if k.leaf != nil {
			k.leaf.endTournament()
		}
		p.reset(k)
	}
	clear(n.heap)
	n.heap = n.heap[:0]
}
