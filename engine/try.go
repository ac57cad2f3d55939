package engine

import ares "github.com/ares-scheduler/ares"

// try is undoable work inside one decision: what it takes from the state's
// accounts it notes, and gives back in reverse, to a mark or altogether.
type try struct {
	state   *State
	taken   []taking
	spent   []spending
	refused []uint64 // bitset over the indexes of shapes
}

// taking is a part of one device, or the rest of a seat when device is -1.
type taking struct {
	node   *node
	device int
	milli  int
	cpus   int
	memory int
}

// spending is what a placed job counts against its tenant.
type spending struct {
	tenant *tenant
	use    ares.Use
}

// mark is a point to go back to.
type mark struct{ taken, spent int }

// begin returns the state's scratch for one decision. The caller ends it with
// backTo(mark{}).
func (s *State) begin() *try {
	t := &s.try
	t.state = s
	words := (s.shapes.count + 63) / 64
	if cap(t.refused) < words {
		t.refused = make([]uint64, words)
	}
	t.refused = t.refused[:words]
	clear(t.refused)
	return t
}

func (t *try) mark() mark { return mark{len(t.taken), len(t.spent)} }

// backTo gives back everything taken since the mark.
func (t *try) backTo(m mark) {
	for i := len(t.taken) - 1; i >= m.taken; i-- {
		t.taken[i].apply(-1)
	}
	for i := m.taken; i < len(t.taken); i++ {
		if t.taken[i].device < 0 { // one for each seat
			n := t.taken[i].node
			t.state.sky.set(n.at, n.left())
		}
	}
	for i := len(t.spent) - 1; i >= m.spent; i-- {
		p := &t.spent[i]
		p.tenant.use = p.tenant.use.Sub(p.use)
	}
	clear(t.taken[m.taken:])
	clear(t.spent[m.spent:])
	t.taken, t.spent = t.taken[:m.taken], t.spent[:m.spent]
}

func (k *taking) apply(sign int) {
	k.node.cpus += sign * k.cpus
	k.node.memory += sign * k.memory
	if k.device < 0 {
		k.node.seats += sign // the one taking of a seat that is not a device
		return
	}
	d := &k.node.devices[k.device]
	before := d.taken
	d.taken += sign * k.milli
	if before == 0 && d.taken != 0 {
		k.node.whole--
	} else if before != 0 && d.taken == 0 {
		k.node.whole++
	}
}

func (t *try) take(k taking) {
	k.apply(+1)
	t.taken = append(t.taken, k)
}

// sit takes the place of one member on a node that has room for it: the
// lowest devices that fit.
func (t *try) sit(n *node, sh *shape, rank int) ares.Seat {
	seat := ares.Seat{Node: n.id, Rank: rank, CPUs: sh.cpus, Memory: sh.memory, NUMA: -1}
	need, milli := sh.gpus, wholeMilli
	if sh.milli > 0 {
		need, milli = 1, sh.milli
	}
	if need > 0 {
		seat.Shares = make([]ares.Share, 0, need)
	}
	for i := 0; i < len(n.devices) && len(seat.Shares) < need; i++ {
		d := &n.devices[i]
		if d.taken+milli > wholeMilli || !d.fits(sh) {
			continue
		}
		t.take(taking{node: n, device: i, milli: milli})
		seat.Shares = append(seat.Shares, ares.Share{Device: d.id, Index: d.index, Milli: milli})
	}
	t.take(taking{node: n, device: -1, cpus: sh.cpus, memory: sh.memory})
	return seat
}

// spend counts a placed job against its tenant for the rest of the decision.
func (t *try) spend(sh *shape, members int) {
	use := sh.asksOf(members)
	sh.tenant.use = sh.tenant.use.Add(use)
	t.spent = append(t.spent, spending{sh.tenant, use})
}

func (t *try) isRefused(sh *shape) bool { return t.refused[sh.index/64]&(1<<(sh.index%64)) != 0 }

func (t *try) refuse(sh *shape) { t.refused[sh.index/64] |= 1 << (sh.index % 64) }
