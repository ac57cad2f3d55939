package engine

import (
	"math/bits"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology/links"
)

// try is undoable work inside one decision: what it takes from the state's
// accounts it notes, and gives back in reverse, to a mark or altogether.
type try struct {
	state  *State
	taken  []taking
	placed []placed     // whole jobs
	offer  ares.Placing // of the job whose turn it is

	reserving Reserving   // as of this decision
	gangs     []gathering // that lost a node, with what is kept for them
	reserved  []reservation
	holding   uint64 // which of them hold what they have
	sought    int    // times one was looked for
	unplaced  int    // shapes that found no place
	probes    int    // times somebody was seen to be kept off
	everybody bool   // each has its own, whether alike or not: to foresee who is behind
	by        lens   // ends are foreseen by
	noted     bool   // a shape was noted as refused
	keptOff   bool   // the job whose turn it was would fit, and delay one ahead of it
	shut      bool   // reservations alone keep off the job whose turn it was
	sparing   bool   // nobody borrows what others are promised
	spared    bool   // that keeps off the job whose turn it was
	lent      bool   // somebody was given what others are promised
	supposing bool   // what is taken is not as it is: nothing is noted for the rest of the decision

	kept     []keeping      // the nominations
	upheld   int            // of these, those that were there before the decision
	leaving  []*entry       // are stopped by this plan, to give way
	bound    []keeping      // places of those of them who are moved
	rivals   []*entry       // of whom it was worked out what their giving way costs
	mustered uint8          // the classes of these
	hunts    int            // counts the searches for victims
	searches int            // the shapes for which that was done
	vain     []vain         // those that found none
	words    []ares.Blocker // why nobody gives way to the job whose turn it is

	moving         bool                 // jobs may be moved
	consolidations int                  // the shapes for which that was tried
	told           []ares.Consolidation // what came of it, unless it is nil
}

// placed is a job the decision under way has placed.
type placed struct {
	entry *entry
	seats []ares.Seat
}

// taking is a part of one device, or the rest of a seat when device is restOfSeat.
// What is less than nothing is given.
type taking struct {
	node   *node
	device int
	milli  int
	cpus   int
	memory int
	numa   int
	kind   int
}

// The takings that are not devices.
const (
	restOfSeat    = -1
	restOfLeaving = -2 // of a seat that is given up
)

// mark is a point to go back to.
type mark int

// begin returns the state's scratch for one decision. The caller ends it.
func (s *State) begin() *try {
	s.try.state = s
	s.decision++
	s.sight++
	t := &s.try
	clear(t.reserved)
	t.reserving, t.reserved = s.reserving(), t.reserved[:0]
	t.holding, t.sought, t.unplaced, t.probes, t.everybody, t.by = 0, 0, 0, 0, false, byLate
	if s.cfg.Queueing.Blocked == BlockedReserve { // as it was published
		t.by = byHalf
	}
	clear(t.gangs)
	t.gangs = t.gangs[:0]
	t.searches, t.words = 0, nil
	t.sparing, t.spared, t.lent = false, false, false
	t.moving, t.consolidations = s.cfg.Yielding.Moving, 0
	return t
}

// end gives back everything that was taken, and forgets the rest.
func (t *try) end() {
	t.regain()
	t.undo(0)
	clear(t.placed)
	t.placed = t.placed[:0]
	t.offer = ares.Placing{}
	t.disperse()
	clear(t.leaving)
	clear(t.vain)
	t.leaving, t.vain = t.leaving[:0], t.vain[:0]
	clear(t.bound)
	t.bound = t.bound[:0]
}

// undo gives back everything taken since the mark.
func (t *try) undo(m mark) {
	for i := len(t.taken) - 1; i >= int(m); i-- {
		t.taken[i].apply(-1)
	}
	for i := int(m); i < len(t.taken); i++ {
		if n := t.taken[i].node; t.taken[i].device < 0 && (i+1 == len(t.taken) || t.taken[i+1].node != n) {
			t.state.move(n)
		}
	}
	clear(t.taken[m:])
	t.taken = t.taken[:m]
}

func (k *taking) apply(sign int) {
	n := k.node
	if k.device < 0 { // the one taking of a seat that is not a device
		n.cpus += sign * k.cpus
		n.memory += sign * k.memory
		if k.numa >= 0 {
			n.pin(k.numa, sign*k.cpus, sign*k.memory)
		}
		if k.device == restOfLeaving {
			sign = -sign
		}
		n.seats += sign
		n.kinds.add(k.kind, sign)
		return
	}
	d := &n.devices[k.device]
	if d.taken += sign * k.milli; d.taken == 0 {
		n.free |= 1 << k.device & n.usable
	} else {
		n.free &^= 1 << k.device
	}
}

func (t *try) take(k taking) {
	k.apply(+1)
	t.taken = append(t.taken, k)
}

// sit takes the place of one member on a node that has room for it: the
// devices that are linked best.
func (t *try) sit(n *node, w *want, rank int) ares.Seat {
	if set := t.state.favourite(n, w); set != 0 {
		return t.sitOn(n, w, rank, set, -1)
	}
	set, numa := n.pick(w)
	return t.sitOn(n, w, rank, set, numa)
}

// sitAll takes the places of members of a gang, whose seats so far are given.
func (t *try) sitAll(n *node, w *want, members int, seats []ares.Seat) []ares.Seat {
	home := -1
	if w.together {
		home = n.numaFor(w, members)
	}
	for range members {
		if home < 0 {
			seats = append(seats, t.sit(n, w, len(seats)))
			continue
		}
		set, _ := n.choose(w, w.mask(n.profile)&n.profile.near[home], 0)
		seats = append(seats, t.sitOn(n, w, len(seats), set, home))
	}
	return seats
}

// sitOn takes these devices, and CPUs and memory of the NUMA node, -1 for any.
func (t *try) sitOn(n *node, w *want, rank int, set uint64, numa int) ares.Seat {
	seat := ares.Seat{Node: n.id, Rank: rank, CPUs: w.cpus, Memory: w.memory, NUMA: -1}
	if numa >= 0 {
		seat.NUMA = n.profile.numa[numa].ID
	}
	milli := wholeMilli
	if w.milli > 0 {
		milli = w.milli
	}
	if set != 0 {
		seat.Shares = make([]ares.Share, 0, bits.OnesCount64(set))
	}
	for m := set; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		t.take(taking{node: n, device: i, milli: milli})
		seat.Shares = append(seat.Shares, ares.Share{Device: n.devices[i].id, Index: n.devices[i].index, Milli: milli})
	}
	t.take(taking{node: n, device: restOfSeat, cpus: w.cpus, memory: w.memory, numa: seat.NUMA, kind: kindOf(w.gpus, w.milli)})
	return seat
}

// pick chooses the devices of one member, and the NUMA node it is bound to, -1
// for none. The node has room for it.
func (n *node) pick(w *want) (set uint64, numa int) {
	if w.numa == numaNone || len(n.profile.numa) == 0 {
		set, _ = n.choose(w, w.mask(n.profile), 0)
		return set, -1
	}
	if w.numa == numaRequired || !w.devices() {
		if set, numa = n.pickWithin(w); numa >= 0 {
			return set, numa
		}
	}
	var home uint64
	for k := range n.profile.numa {
		if n.roomAt(w, k) > 0 {
			home |= n.profile.near[k]
		}
	}
	set, _ = n.choose(w, w.mask(n.profile), home)
	for k := range n.profile.numa {
		if set != 0 && set&^n.profile.near[k] == 0 && n.roomAt(w, k) > 0 {
			return set, k
		}
	}
	return set, -1
}

// pickWithin chooses the NUMA node whose devices are linked best, then the one
// with the least room left.
func (n *node) pickWithin(w *want) (set uint64, numa int) {
	numa = -1
	var best links.Choice
	for k := range n.profile.numa {
		room := n.roomAt(w, k)
		if room == 0 {
			continue
		}
		s, c := n.choose(w, w.mask(n.profile)&n.profile.near[k], 0)
		c.Left = -room
		if numa < 0 || better(c, best) {
			set, numa, best = s, k, c
		}
	}
	return set, numa
}

func better(a, b links.Choice) bool {
	if a.Bandwidth != b.Bandwidth {
		return a.Bandwidth > b.Bandwidth
	}
	if a.Total != b.Total {
		return a.Total > b.Total
	}
	return a.Left > b.Left
}

// choose picks devices out of a mask: for a share the one with the least left
// that is enough, and whole devices by their links. Warm ones come last.
func (n *node) choose(w *want, mask, home uint64) (uint64, links.Choice) {
	if !w.devices() {
		return 0, links.Choice{}
	}
	for _, m := range [2]uint64{mask &^ n.warm, mask} {
		if w.milli > 0 {
			if set := n.tightest(m, w.milli); set != 0 {
				return set, links.Choice{}
			}
		}
		if c, ok := n.profile.links.Best(m&n.free, home, max(w.gpus, 1)); ok {
			return c.Set, c
		}
	}
	panic("engine: node " + n.id + " has no room for what it was given")
}

// tightest is the partly taken device of the mask with the least left that is
// enough, empty when there is none.
func (n *node) tightest(mask uint64, milli int) (set uint64) {
	least := wholeMilli
	for m := mask & n.usable &^ n.free; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		if left := wholeMilli - n.devices[i].taken; left >= milli && left < least {
			set, least = 1<<i, left
		}
	}
	return set
}
