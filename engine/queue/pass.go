package queue

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Pass is the order of one decision. It offers items one by one; each is taken
// or refused before the next.
type Pass[J any] struct {
	tree   *Tree[J]
	open   bool
	now    time.Time
	ladder ladder
	drift  drift
	path   []*node[J] // to the leaf whose turn it is; empty when that is not known
	leaf   *Leaf[J]   // that leaf
	until  uint64     // up to this key its items are certainly of the class served
	rivals bool       // somebody on the path has a sibling to compare with
	taken  []*Leaf[J] // leaves from which something was taken
}

// took is what a leaf held before anything was taken from it in a pass, so that
// one step puts it back.
type took struct {
	any    bool
	use    Use
	held   ares.Use
	models []int64
}

// runner is a child with items left: the highest class among them, and its share.
type runner[J any] struct {
	key  uint64 // smaller is sooner
	node *node[J]
}

func (a *runner[J]) before(b *runner[J]) bool {
	return a.key < b.key || a.key == b.key && a.node.place < b.node.place
}

// Begin starts a pass. There is one at a time, and until its end nothing may be
// pushed or removed.
func (t *Tree[J]) Begin(now time.Time) *Pass[J] {
	if t.pass.open {
		panic("queue: a pass is under way")
	}
	t.settle()
	p := &t.pass
	p.open, p.now, p.ladder = true, now, t.cfg.ladder(now)
	var at moment
	if t.cfg.HalfLife > 0 {
		at = t.cfg.when(now)
		p.drift = t.drifts(at)
	}
	p.line(t.root, at)
	return p
}

// line up what is under a node.
func (p *Pass[J]) line(n *node[J], at moment) {
	if l := n.leaf; l != nil {
		l.enter()
		return
	}
	for _, k := range n.kids {
		if k.waiting == 0 {
			continue
		}
		p.line(k, at)
		n.heap = append(n.heap, runner[J]{0, k})
	}
	for i := range n.heap {
		// Who has nobody to be compared with needs no share.
		if k := n.heap[i].node; len(n.heap) > 1 && p.tree.cfg.HalfLife > 0 {
			k.was = k.past.at(at)
		}
		k := n.heap[i].node
		k.pull = pull(&p.drift, k, k.was, p.tree.capacity)
		n.heap[i].key = p.key(n.heap[i].node, len(n.heap) > 1)
	}
	for i := len(n.heap)/2 - 1; i >= 0; i-- {
		sinkRunner(n.heap, i)
	}
}

// key orders a node with items left among its siblings: by the highest class
// among them, then by share, where there is somebody to compare with.
func (p *Pass[J]) key(n *node[J], rivals bool) uint64 {
	var class uint64
	if n.leaf != nil {
		class = uint64(classes - 1 - classOf(&p.ladder, n.leaf.matches[1].key, n.leaf))
	} else {
		class = n.heap[0].key >> 61
	}
	if !rivals {
		return class << 61
	}
	return class<<61 | weighted(n.use.Add(n.was, 1), p.tree.capacity, n.pull)
}

// Next offers the item whose turn it is; false means that none is left.
func (p *Pass[J]) Next() (*Item[J], bool) {
	if len(p.path) == 0 {
		n := p.tree.root
		for n.leaf == nil {
			if len(n.heap) == 0 {
				return nil, false
			}
			p.rivals = p.rivals || len(n.heap) > 1
			n = n.heap[0].node
			p.path = append(p.path, n)
		}
		p.leaf = n.leaf
		p.until = p.ladder.until(classes - 1 - int(n.parent.heap[0].key>>61))
	}
	return p.leaf.first(), true
}

// Take says that the offered item got a place. What it was granted counts from
// now on, until the end of the pass.
func (p *Pass[J]) Take(g Grant) {
	p.grant(&g)
	p.Skip()
}

// Again says that a part of the offered item got a place, and that there is
// more to it. What was granted counts; the item is still the one offered.
func (p *Pass[J]) Again(g Grant) { p.grant(&g) }

func (p *Pass[J]) grant(g *Grant) {
	p.remember(p.leaf)
	p.leaf.charge(g, 1)
}

// Count counts something out of turn, until the end of the pass: it changes no
// share, so whose turn it is stays as it was.
func (p *Pass[J]) Count(l *Leaf[J], g Grant, sign int) {
	g.Use = Use{}
	p.remember(l)
	l.charge(&g, int64(sign))
}

// remember notes what a leaf held before the pass counts anything there.
func (p *Pass[J]) remember(l *Leaf[J]) {
	if !l.took.any {
		l.took = took{true, l.node.use, l.node.held, slices.Clone(l.models)}
		p.taken = append(p.taken, l)
	}
}

// Skip passes over the offered item, not over its line: nothing more is wanted
// for it now.
func (p *Pass[J]) Skip() {
	p.leaf.advance()
	p.climb(true)
}

// Yield ends the turn of the offered item, which keeps its place in its line:
// whose turn is next is found anew.
func (p *Pass[J]) Yield() { p.climb(true) }

// Refuse says that the offered item found no place. Its line is passed over
// from now on.
func (p *Pass[J]) Refuse() {
	p.leaf.passOver()
	p.climb(false)
}

// Hold says that the offered item found no place, and that nobody behind it in
// its leaf gets one before it does.
func (p *Pass[J]) Hold() {
	p.leaf.left = 0
	p.climb(true)
}

// climb puts the nodes of the path in order again, from the leaf up. They are
// the first of their siblings, and can only have moved back.
func (p *Pass[J]) climb(charged bool) {
	if l := p.leaf; !p.rivals && l.left > 0 && (l.matches[1].key <= p.until || p.key(l.node, false) == l.node.parent.heap[0].key) {
		return // nobody else, and the same class: it is its turn again
	}
	for i, n := range slices.Backward(p.path) {
		up := p.tree.root
		if i > 0 {
			up = p.path[i-1]
		}
		if len(n.heap) == 0 && (n.leaf == nil || n.leaf.left == 0) {
			up.heap = popRunner(up.heap)
			charged = true // what comes up may be of another class
			continue
		}
		key := p.key(n, len(up.heap) > 1)
		if key == up.heap[0].key && !charged {
			break
		}
		up.heap[0].key = key
		if len(up.heap) > 1 {
			sinkRunner(up.heap, 0)
		}
	}
	p.path, p.leaf, p.until, p.rivals = p.path[:0], nil, 0, false
}

// End puts everything back as it was before the pass.
func (p *Pass[J]) End() {
	for _, l := range p.taken {
		l.putBack()
	}
	p.clear(p.tree.root)
	clear(p.taken)
	*p = Pass[J]{tree: p.tree, path: p.path[:0], taken: p.taken[:0]}
}

// putBack gives up what was taken from a leaf.
func (l *Leaf[J]) putBack() {
	var more Grant
	more.Use = l.node.use.Add(l.took.use, -1)
	more.Held = l.node.held
	addHeld(&more.Held, &l.took.held, -1)
	l.charge(&more, -1)
	for model := max(len(l.models), len(l.took.models)) - 1; model >= 0; model-- {
		if held := at(l.models, model) - at(l.took.models, model); held != 0 {
			l.hold(model, -held)
		}
	}
	l.took = took{}
}

// at is what a list has at a place, 0 beyond its end.
func at(in []int64, i int) int64 {
	if i < len(in) {
		return in[i]
	}
	return 0
}

func (p *Pass[J]) clear(n *node[J]) {
	for _, k := range n.kids {
		if k.waiting == 0 {
			continue
		}
		k.was, k.pull = Use{}, 0
		if k.leaf != nil {
			k.leaf.leave()
		}
		p.clear(k)
	}
	clear(n.heap)
	n.heap = n.heap[:0]
}
