package engine

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// backfillReservation is the place that a job which found none will have at a time, by
// the foreseen ends of those who are there. It is good for one decision.
type backfillReservation struct {
	entry   *entry
	leaf    *queueLeaf
	at      int64 // its start, endless if nobody knows
	limit   int64 // who comes behind it must have ended by then
	firm    bool  // nobody ahead of it found no place
	drain   bool  // nobody may take what it holds, however soon he ends
	ends    int64 // when the job will have ended, endless if nobody knows
	seats   []ares.Seat
	toHold  []delta // what of it is free already
	held    []delta // what of that is taken now
	merit   ares.Merit
	sources [estimateSources]int // of those it waits for, how many by a forecast, a limit, a guess
	overdue int                  // how many of them run for longer than was foreseen
}

// wouldDelayRefusal is the short refusal of a job that would fit.
var wouldDelayRefusal = []ares.Blocker{{Kind: kindOrder, Detail: "it would delay a job ahead of it, as far as predictions tell"}}

// borrowRefusal is the same of one that others' promises keep off.
var borrowRefusal = []ares.Blocker{{Kind: kindQuota, Detail: BorrowBlockedText}}

// BorrowBlockedText is what is said of a job that fits, and waits for those who lent
// what it would have.
const BorrowBlockedText = "it would borrow what others are promised, who wait and take it back"

// refuseShape passes over a job that found no place: with its whole shape, or with
// everybody behind it in its queue, as configured. It says whether that is news.
func (t *round) refuseShape(pass *queue.Pass[*entry], e *entry, admitted bool, now time.Time) bool {
	switch {
	case t.reserveForAll:
		if admitted && t.mayReserve(e, now) {
			t.reserveFor(e, now)
		}
		if t.state.cfg.Queue.Blocked == BlockedHold && t.state.jobs.dependenciesMet(e) {
			pass.Hold()
		} else {
			pass.Skip()
		}
	case t.wouldDelay && t.state.cfg.Queue.Blocked != BlockedHold:
		// Only it: others of its shape may be done sooner.
		news := e.shape.refusedInCycle != t.state.cycle
		e.shape.refusedInCycle = t.state.cycle
		pass.Skip()
		return news
	case t.state.cfg.Queue.Blocked == BlockedHold && t.state.jobs.dependenciesMet(e):
		pass.Hold()
	default:
		if admitted && t.mayReserve(e, now) && t.reserveFor(e, now) {
			t.reservations[len(t.reservations)-1].firm = t.unplaced == 0
		}
		if admitted {
			t.unplaced++
		}
		pass.Refuse()
	}
	return true
}

// mayReserve says whether a place is kept for a job that found none.
func (t *round) mayReserve(e *entry, now time.Time) bool {
	r := &t.backfill
	switch {
	case len(t.reservations) >= r.First || t.reservationTries >= 2*r.First:
		return false
	case t.state.cfg.Queue.Blocked == BlockedReserve && !t.reserveForAll:
		return !slices.ContainsFunc(t.reservations, func(r backfillReservation) bool { return r.leaf == e.shape.leaf })
	}
	return e.waited(now) >= r.After
}

// waited is for how long the job has waited, since it was accepted or since it
// last ran.
func (e *entry) waited(now time.Time) time.Duration {
	since := e.job.AcceptedAt
	if e.run != nil {
		if last := e.run.Last(); last != nil {
			since = laterOf(since, last.EndedAt)
		}
	}
	return now.Sub(since)
}

// dependenciesMet says whether a job waits for no other to succeed.
func (j *jobTable) dependenciesMet(e *entry) bool {
	return !slices.ContainsFunc(e.shape.after, func(id ares.JobID) bool { return !j.dependencySucceeded(id) })
}

// placeBackfill places a job where it delays nobody who has a reservation: anywhere if
// it is foreseen to end before those begin, and else beside what they hold.
func (t *round) placeBackfill(e *entry, members int, ban uint64, now time.Time) (p ares.Placing, ok bool) {
	ends := e.endsBy(now)
	outlasted := t.delayedReservations(ends)
	sh := e.shape
	if outlasted != 0 && sh.delayingEpoch == t.state.epoch && ends >= sh.delayingEnd {
		t.wouldDelay = true // as another of its shape, which ends no later
		return p, false
	}
	t.holdReservations(outlasted)
	t.speculative = outlasted != 0
	p, ok = t.placeJob(sh, members, ban, e)
	t.speculative = false
	if ok || outlasted == 0 {
		return p, ok
	}
	// Is it kept off, or is there no room in any case?
	fits := t.probes >= maxProbes
	if !fits {
		t.probes++
		t.holdReservations(0)
		m := savepoint(len(t.deltas))
		if _, fits = t.placeJob(sh, members, ban, e); fits {
			t.undo(m)
		}
	}
	if fits {
		t.wouldDelay, sh.delayingEpoch, sh.delayingEnd = true, t.state.epoch, ends
	}
	return p, false
}

// endsBy is when the job will have ended in nine of ten cases, if it starts now.
func (e *entry) endsBy(now time.Time) int64 {
	if _, late := e.remaining(now); late != forever {
		return now.Add(late).UnixNano()
	}
	return noEnd
}

// maxProbes is in how many cases it is found out whether a job without a place
// is kept off: beyond that it is taken for granted.
const maxProbes = 64

// delayedReservations is which reservations somebody would delay that ends at a time, as
// bits.
func (t *round) delayedReservations(ends int64) (set uint64) {
	for i := range t.reservations {
		if r := &t.reservations[i]; r.drain || ends > r.limit {
			set |= 1 << i
		}
	}
	return set
}

// holdReservations takes what these reservations hold, and gives up what others do. It
// leaves all as it is where it is so already: most jobs outlast all or none.
func (t *round) holdReservations(which uint64) {
	if which == t.heldReservations {
		return
	}
	for i := range t.reservations {
		r := &t.reservations[i]
		switch bit := uint64(1) << i; {
		case t.heldReservations&^which&bit != 0:
			for _, k := range r.held {
				k.reverse()
				t.take(k)
				if k.device < 0 {
					t.state.cluster.capacityChanged(k.node)
				}
			}
		case which&^t.heldReservations&bit != 0:
			t.holdReservation(r)
		}
	}
	t.heldReservations = which
}

// roomIgnoringHolds is the room of a node for a want, if nothing were held by reservations.
func (t *round) roomIgnoringHolds(n *node, w *request) int {
	if t.heldReservations == 0 || n.heldInCycle != t.state.cycle {
		return n.roomFor(w)
	}
	apply := func(sign int) {
		for i := range t.reservations {
			if t.heldReservations&(1<<i) == 0 {
				continue
			}
			for k := range t.reservations[i].held {
				if h := &t.reservations[i].held[k]; h.node == n {
					h.apply(sign)
				}
			}
		}
	}
	apply(-1)
	room := n.roomFor(w)
	apply(+1)
	return room
}

// reverse makes what is taken given.
func (k *delta) reverse() {
	k.milli, k.cpus, k.memory = -k.milli, -k.cpus, -k.memory
	switch k.device {
	case restOfSeat:
		k.device = restOfLeaving
	case restOfLeaving:
		k.device = restOfSeat
	}
}

// holdReservation takes what is left of what a reservation holds.
func (t *round) holdReservation(r *backfillReservation) {
	r.held = r.held[:0]
	for _, k := range r.toHold {
		n := k.node
		if k.device >= 0 {
			if k.milli = min(k.milli, WholeMilli-n.devices[k.device].taken); k.milli > 0 {
				t.take(k)
				r.held = append(r.held, k)
			}
			continue
		}
		k.cpus, k.memory = max(min(k.cpus, n.typ.cpus-n.cpus), 0), max(min(k.memory, n.record.MemoryMB-n.memory), 0)
		t.take(k)
		r.held = append(r.held, k)
		n.heldInCycle = t.state.cycle
		t.state.cluster.capacityChanged(n)
	}
}

// takeSeats takes seats that were found to be free.
func (t *round) takeSeats(seats []ares.Seat) {
	for i := range seats {
		seat := &seats[i]
		n := t.state.cluster.nodesByID[seat.Node]
		for k := range seat.Shares {
			t.take(delta{node: n, device: n.deviceIndex(&seat.Shares[k]), milli: seat.Shares[k].Milli})
		}
		t.take(delta{node: n, device: restOfSeat, cpus: seat.CPUs, memory: seat.Memory, numa: seat.NUMA, kind: kindOfSeat(seat)})
		t.state.cluster.capacityChanged(n)
	}
}

// releaseJob gives up the seats of a job's attempt under way.
func (t *round) releaseJob(e *entry) {
	a := e.run.Current()
	for i := range a.Seats {
		h := &a.Seats[i]
		n := t.state.cluster.nodesByID[h.Node]
		if h.State.Free() || n == nil || n.record == nil {
			continue
		}
		for k := range h.Shares {
			if at := n.deviceIndex(&h.Shares[k]); at >= 0 {
				t.take(delta{node: n, device: at, milli: -h.Shares[k].Milli})
			}
		}
		t.take(delta{node: n, device: restOfLeaving, cpus: -h.CPUs, memory: -h.Memory, numa: h.NUMA, kind: kindOfSeat(&h.Seat)})
		t.state.cluster.capacityChanged(n)
	}
}

// deviceIndex is the device of a share in the order of the profile, -1 when the node's
// record does not list it.
func (n *node) deviceIndex(sh *ares.Share) int {
	if i := sh.Index; i >= 0 && i < len(n.devices) && n.devices[i].id == sh.Device {
		return i
	}
	return slices.IndexFunc(n.devices, func(d device) bool { return d.id == sh.Device })
}

// reserveFor keeps a place for a job that found none, if one is foreseen. It is told
// of every earlier reservation: they are taken, and will end in their turn.
func (t *round) reserveFor(e *entry, now time.Time) bool {
	t.reservationTries++
	t.holdReservations(0)
	members, ban := t.state.jobs.admissibleMembers(e.shape, now)
	if members == 0 {
		return false
	}
	m := savepoint(len(t.deltas))
	t.speculative = true
	t.state.windows.setExpectedStay(e) // nobody may have asked for it yet whether it has room
	t.assumePlanned(now)
	r, ok := t.earliestStart(e, members, ban, now)
	t.undo(m)
	if t.mayDrain(e, &r, ok, now) {
		if hard, fits := t.drainReservation(e, members, ban, now); fits {
			r, ok = hard, true
		}
		t.undo(m)
	}
	t.dropPlanned()
	t.speculative = false
	if ok {
		t.reservations = append(t.reservations, r)
	}
	return ok
}

// mayDrain says whether what comes free is kept for the job and nobody else, however
// soon he ends: for one that has waited for long, if nothing is foreseen or if it has
// waited for longer than it has to yet: then predictions may be failing it again and
// again. It costs idle devices, so there is one such at a time.
func (t *round) mayDrain(e *entry, r *backfillReservation, foreseen bool, now time.Time) bool {
	waited, hold := e.waited(now), t.backfill.DrainAfter
	if t.reserveForAll || hold == 0 || slices.ContainsFunc(t.reservations, func(r backfillReservation) bool { return r.drain }) {
		return false
	}
	return waited >= hold && (!foreseen || r.at-now.UnixNano() < int64(waited))
}

// assumePlanned takes the seats of all reservations and nominations, and foresees when those
// will have ended who have them then.
func (t *round) assumePlanned(now time.Time) {
	for i := range t.holds {
		k := &t.holds[i]
		if k.over {
			continue
		}
		ends := int64(noEnd)
		if runs := k.entry.expectedRuntime(t.quantile); runs != forever {
			ends = k.until.Add(max(runs-k.entry.done(now), 0)).UnixNano()
		}
		t.releaseHold(k)
		t.assumeSeats(k.entry, k.seats, ends)
	}
	for i := range t.reservations {
		t.assumeSeats(t.reservations[i].entry, t.reservations[i].seats, t.reservations[i].ends)
	}
}

// assumeSeats takes seats for somebody who will have ended at a time.
func (t *round) assumeSeats(e *entry, seats []ares.Seat, ends int64) {
	for k := range seats {
		if n := t.state.cluster.nodesByID[seats[k].Node]; n != nil && n.record != nil {
			n.plannedSeats = append(n.plannedSeats, plannedSeat{&seats[k], ends, e.runtimeSource()})
			t.takeSeats(seats[k : k+1])
		}
	}
}

// dropPlanned ends it: nothing of it is taken any more.
func (t *round) dropPlanned() {
	leave := func(seats []ares.Seat) {
		for k := range seats {
			if n := t.state.cluster.nodesByID[seats[k].Node]; n != nil {
				clear(n.plannedSeats)
				n.plannedSeats = n.plannedSeats[:0]
			}
		}
	}
	for i := range t.holds {
		leave(t.holds[i].seats)
	}
	for i := range t.reservations {
		leave(t.reservations[i].seats)
	}
}

// opensNode says whether a node that the job leaves has room for a member.
func (j *jobTable) opensNode(e *entry, w *request) bool {
	a := e.run.Current()
	for i := range a.Seats {
		if n := j.cluster.nodesByID[a.Seats[i].Node]; n != nil && n.schedulable() && n.roomFor(w) > 0 {
			return true
		}
	}
	return false
}

// missingFor is what seats need beyond what those give who leave.
func (t *round) missingFor(seats []ares.Seat, given []delta) []delta {
	given = slices.Clone(given)
	var out []delta
	for i := range seats {
		seat := &seats[i]
		n := t.state.cluster.nodesByID[seat.Node]
		rest := delta{node: n, device: restOfSeat, cpus: seat.CPUs, memory: seat.Memory, numa: seat.NUMA, kind: kindOfSeat(seat)}
		for k := range seat.Shares {
			part := delta{node: n, device: n.deviceIndex(&seat.Shares[k]), milli: seat.Shares[k].Milli}
			for g := range given {
				if given[g].node == n && given[g].device == part.device {
					most := min(part.milli, -given[g].milli)
					part.milli, given[g].milli = part.milli-most, given[g].milli+most
				}
			}
			if part.milli > 0 {
				out = append(out, part)
			}
		}
		for g := range given {
			if give := &given[g]; give.node == n && give.device == restOfLeaving {
				cpus, memory := min(rest.cpus, -give.cpus), min(rest.memory, -give.memory)
				rest.cpus, give.cpus = rest.cpus-cpus, give.cpus+cpus
				rest.memory, give.memory = rest.memory-memory, give.memory+memory
			}
		}
		out = append(out, rest)
	}
	return out
}
