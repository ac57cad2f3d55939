package engine

import (
	"math/bits"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology/links"
)

// round is undoable work inside one decision: what it takes from the state's
// accounts it notes, and gives back in reverse, to a mark or altogether.
type round struct {
	state  *State
	deltas []delta
	placed []placedJob  // whole jobs
	offer  ares.Placing // of the job whose turn it is

	backfill           BackfillConfig // as of this decision
	restartHolds       []restartHold  // that lost a node, with what is kept for them
	reservations       []backfillReservation
	heldReservations   uint64   // which of them hold what they have
	reservationTries   int      // times one was looked for
	unplaced           int      // shapes that found no place
	probes             int      // times somebody was seen to be kept off
	reserveForAll      bool     // each has its own, whether alike or not: to foresee who is behind
	quantile           quantile // ends are foreseen by
	unschedulableNoted bool     // a shape was noted as refused
	wouldDelay         bool     // the job whose turn it was would fit, and delay one ahead of it
	windowBlocked      bool     // reservations alone keep off the job whose turn it was
	noBorrowing        bool     // nobody borrows what others are promised
	borrowBlocked      bool     // that keeps off the job whose turn it was
	borrowed           bool     // somebody was given what others are promised
	speculative        bool     // what is taken is not as it is: nothing is noted for the rest of the decision

	holds           []nominationHold // the nominations
	holdsBefore     int              // of these, those that were there before the decision
	stopping        []*entry         // are stopped by this plan, to give way
	destinations    []nominationHold // places of those of them who are moved
	victims         []*entry         // of whom it was worked out what their giving way costs
	loadedClasses   uint8            // the classes of these
	searchCount     int              // counts the searches for victims
	searchedShapes  int              // the shapes for which that was done
	failedSearches  []failedSearch   // those that found none
	preemptionNotes []ares.Blocker   // why nobody gives way to the job whose turn it is

	allowMoves          bool                 // jobs may be moved
	consolidationTries  int                  // the shapes for which that was tried
	consolidationsFound []ares.Consolidation // what came of it, unless it is nil
}

// placedJob is a job the decision under way has placed.
type placedJob struct {
	entry *entry
	seats []ares.Seat
}

// delta is a part of one device, or the rest of a seat when device is restOfSeat.
// What is less than nothing is given.
type delta struct {
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

// savepoint is a point to go back to.
type savepoint int

// beginRound returns the state's scratch for one decision. The caller ends it.
func (s *State) beginRound() *round {
	s.round.state = s
	s.cycle++
	s.epoch++
	t := &s.round
	clear(t.reservations)
	t.backfill, t.reservations = s.backfillConfig(), t.reservations[:0]
	t.heldReservations, t.reservationTries, t.unplaced, t.probes, t.reserveForAll, t.quantile = 0, 0, 0, 0, false, p90
	if s.cfg.Queue.Blocked == BlockedReserve { // as it was published
		t.quantile = p50
	}
	clear(t.restartHolds)
	t.restartHolds = t.restartHolds[:0]
	t.searchedShapes, t.preemptionNotes = 0, nil
	t.noBorrowing, t.borrowBlocked, t.borrowed = false, false, false
	t.allowMoves, t.consolidationTries = s.cfg.Preemption.Moving, 0
	return t
}

// close gives back everything that was taken, and forgets the rest.
func (t *round) close() {
	t.noteReturnedRoom()
	t.undo(0)
	clear(t.placed)
	t.placed = t.placed[:0]
	t.offer = ares.Placing{}
	t.resetVictims()
	clear(t.stopping)
	clear(t.failedSearches)
	t.stopping, t.failedSearches = t.stopping[:0], t.failedSearches[:0]
	clear(t.destinations)
	t.destinations = t.destinations[:0]
}

// undo gives back everything taken since the mark.
func (t *round) undo(m savepoint) {
	for i := len(t.deltas) - 1; i >= int(m); i-- {
		t.deltas[i].apply(-1)
	}
	for i := int(m); i < len(t.deltas); i++ {
		if n := t.deltas[i].node; t.deltas[i].device < 0 && (i+1 == len(t.deltas) || t.deltas[i+1].node != n) {
			t.state.cluster.capacityChanged(n)
		}
	}
	clear(t.deltas[m:])
	t.deltas = t.deltas[:m]
}

func (k *delta) apply(sign int) {
	n := k.node
	if k.device < 0 { // the one taking of a seat that is not a device
		n.cpus += sign * k.cpus
		n.memory += sign * k.memory
		if k.numa >= 0 {
			n.chargeNUMA(k.numa, sign*k.cpus, sign*k.memory)
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

func (t *round) take(k delta) {
	k.apply(+1)
	t.deltas = append(t.deltas, k)
}

// assign takes the place of one member on a node that has room for it: the
// devices that are linked best.
func (t *round) assign(n *node, w *request, rank int) ares.Seat {
	if set := t.state.scorer.policyDevice(n, w); set != 0 {
		return t.assignDevices(n, w, rank, set, -1)
	}
	set, numa := n.pickDevices(w)
	return t.assignDevices(n, w, rank, set, numa)
}

// assignAll takes the places of members of a gang, whose seats so far are given.
func (t *round) assignAll(n *node, w *request, members int, seats []ares.Seat) []ares.Seat {
	home := -1
	if w.oneNUMA {
		home = n.numaFor(w, members)
	}
	for range members {
		if home < 0 {
			seats = append(seats, t.assign(n, w, len(seats)))
			continue
		}
		set, _ := n.chooseDevices(w, w.deviceMask(n.typ)&n.typ.near[home], 0)
		seats = append(seats, t.assignDevices(n, w, len(seats), set, home))
	}
	return seats
}

// assignDevices takes these devices, and CPUs and memory of the NUMA node, -1 for any.
func (t *round) assignDevices(n *node, w *request, rank int, set uint64, numa int) ares.Seat {
	seat := ares.Seat{Node: n.id, Rank: rank, CPUs: w.cpus, Memory: w.memory, NUMA: -1}
	if numa >= 0 {
		seat.NUMA = n.typ.numa[numa].ID
	}
	milli := WholeMilli
	if w.milli > 0 {
		milli = w.milli
	}
	if set != 0 {
		seat.Shares = make([]ares.Share, 0, bits.OnesCount64(set))
	}
	for m := set; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		t.take(delta{node: n, device: i, milli: milli})
		seat.Shares = append(seat.Shares, ares.Share{Device: n.devices[i].id, Index: n.devices[i].index, Milli: milli})
	}
	t.take(delta{node: n, device: restOfSeat, cpus: w.cpus, memory: w.memory, numa: seat.NUMA, kind: seatKindOf(w.gpus, w.milli)})
	return seat
}

// pickDevices chooses the devices of one member, and the NUMA node it is bound to, -1
// for none. The node has room for it.
func (n *node) pickDevices(w *request) (set uint64, numa int) {
	if w.numa == numaNone || len(n.typ.numa) == 0 {
		set, _ = n.chooseDevices(w, w.deviceMask(n.typ), 0)
		return set, -1
	}
	if w.numa == numaRequired || !w.needsDevices() {
		if set, numa = n.pickWithinNUMA(w); numa >= 0 {
			return set, numa
		}
	}
	var home uint64
	for k := range n.typ.numa {
		if n.roomInNUMA(w, k) > 0 {
			home |= n.typ.near[k]
		}
	}
	set, _ = n.chooseDevices(w, w.deviceMask(n.typ), home)
	for k := range n.typ.numa {
		if set != 0 && set&^n.typ.near[k] == 0 && n.roomInNUMA(w, k) > 0 {
			return set, k
		}
	}
	return set, -1
}

// pickWithinNUMA chooses the NUMA node whose devices are linked best, then the one
// with the least room left.
func (n *node) pickWithinNUMA(w *request) (set uint64, numa int) {
	numa = -1
	var best links.Choice
	for k := range n.typ.numa {
		room := n.roomInNUMA(w, k)
		if room == 0 {
			continue
		}
		s, c := n.chooseDevices(w, w.deviceMask(n.typ)&n.typ.near[k], 0)
		c.Left = -room
		if numa < 0 || betterLinks(c, best) {
			set, numa, best = s, k, c
		}
	}
	return set, numa
}

func betterLinks(a, b links.Choice) bool {
	if a.Bandwidth != b.Bandwidth {
		return a.Bandwidth > b.Bandwidth
	}
	if a.Total != b.Total {
		return a.Total > b.Total
	}
	return a.Left > b.Left
}

// chooseDevices picks devices out of a mask: for a share the one with the least left
// that is enough, and whole devices by their links. Warm ones come last.
func (n *node) chooseDevices(w *request, mask, home uint64) (uint64, links.Choice) {
	if !w.needsDevices() {
		return 0, links.Choice{}
	}
	for _, m := range [2]uint64{mask &^ n.warm, mask} {
		if w.milli > 0 {
			if set := n.tightestShare(m, w.milli); set != 0 {
				return set, links.Choice{}
			}
		}
		if c, ok := n.typ.links.Best(m&n.free, home, max(w.gpus, 1)); ok {
			return c.Set, c
		}
	}
	panic("engine: node " + n.id + " has no room for what it was given")
}

// tightestShare is the partly taken device of the mask with the least left that is
// enough, empty when there is none.
func (n *node) tightestShare(mask uint64, milli int) (set uint64) {
	least := WholeMilli
	for m := mask & n.usable &^ n.free; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		if left := WholeMilli - n.devices[i].taken; left >= milli && left < least {
			set, least = 1<<i, left
		}
	}
	return set
}
