package engine

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
)

// backfillReservation is the place that a job which found none will have at a time, by
// the foreseen ends of those who are there. It is good for one decision.
type backfillReservation struct {
	entry   *job.Entry
	leaf    *job.QueueLeaf
	at      int64 // its start, endless if nobody knows
	limit   int64 // who comes behind it must have ended by then
	firm    bool  // nobody ahead of it found no place
	drain   bool  // nobody may take what it holds, however soon he ends
	ends    int64 // when the job will have ended, endless if nobody knows
	seats   []ares.Seat
	toHold  []cluster.Delta // what of it is free already
	held    []cluster.Delta // what of that is taken now
	merit   ares.Merit
	sources [job.EstimateSources]int // of those it waits for, how many by a forecast, a limit, a guess
	overdue int                      // how many of them run for longer than was foreseen
}

// mayReserve says whether a place is kept for a job that found none.
func (b *backfillRound) mayReserve(e *job.Entry, now time.Time) bool {
	r := &b.backfill
	switch {
	case len(b.reservations) >= r.First || b.reservationTries >= 2*r.First:
		return false
	case b.cfg.Queue.Blocked == config.BlockedReserve && !b.reserveForAll:
		return !slices.ContainsFunc(b.reservations, func(r backfillReservation) bool { return r.leaf == e.Shape.Leaf })
	}
	return e.Waited(now) >= r.After
}

// placeBackfill places a job where it delays nobody who has a reservation: anywhere if
// it is foreseen to end before those begin, and else beside what they hold.
func (b *backfillRound) placeBackfill(e *job.Entry, members int, ban uint64, now time.Time) (p ares.Placing, ok bool) {
	ends := e.EndsBy(now)
	outlasted := b.delayedReservations(ends)
	sh := e.Shape
	if outlasted != 0 && sh.DelayingEpoch == b.place.Epoch && ends >= sh.DelayingEnd {
		b.place.WouldDelay = true // as another of its shape, which ends no later
		return p, false
	}
	b.holdReservations(outlasted)
	b.place.Speculative = outlasted != 0
	p, ok = b.place.PlaceJob(sh, members, ban, e)
	b.place.Speculative = false
	if ok || outlasted == 0 {
		return p, ok
	}
	// Is it kept off, or is there no room in any case?
	fits := b.probes >= maxProbes
	if !fits {
		b.probes++
		b.holdReservations(0)
		m := cluster.Savepoint(len(b.txn.Deltas))
		if _, fits = b.place.PlaceJob(sh, members, ban, e); fits {
			b.txn.Undo(m)
		}
	}
	if fits {
		b.place.WouldDelay, sh.DelayingEpoch, sh.DelayingEnd = true, b.place.Epoch, ends
	}
	return p, false
}

// maxProbes is in how many cases it is found out whether a job without a place
// is kept off: beyond that it is taken for granted.
const maxProbes = 64

// delayedReservations is which reservations somebody would delay that ends at a time, as
// bits.
func (b *backfillRound) delayedReservations(ends int64) (set uint64) {
	for i := range b.reservations {
		if r := &b.reservations[i]; r.drain || ends > r.limit {
			set |= 1 << i
		}
	}
	return set
}

// holdReservations takes what these reservations hold, and gives up what others do. It
// leaves all as it is where it is so already: most jobs outlast all or none.
func (b *backfillRound) holdReservations(which uint64) {
	if which == b.heldReservations {
		return
	}
	for i := range b.reservations {
		r := &b.reservations[i]
		switch bit := uint64(1) << i; {
		case b.heldReservations&^which&bit != 0:
			for _, k := range r.held {
				k.Reverse()
				b.txn.Take(k)
				if k.Device < 0 {
					b.cluster.CapacityChanged(k.Node)
				}
			}
		case which&^b.heldReservations&bit != 0:
			b.holdReservation(r)
		}
	}
	b.heldReservations = which
}

// roomIgnoringHolds is the room of a node for a want, if nothing were held by reservations.
func (b *backfillRound) roomIgnoringHolds(n *cluster.Node, w *cluster.Request) int {
	if b.heldReservations == 0 || b.forecastOf(n).heldInCycle != b.place.Cycle {
		return n.RoomFor(w)
	}
	apply := func(sign int) {
		for i := range b.reservations {
			if b.heldReservations&(1<<i) == 0 {
				continue
			}
			for k := range b.reservations[i].held {
				if h := &b.reservations[i].held[k]; h.Node == n {
					h.Apply(sign)
				}
			}
		}
	}
	apply(-1)
	room := n.RoomFor(w)
	apply(+1)
	return room
}

// holdReservation takes what is left of what a reservation holds.
func (b *backfillRound) holdReservation(r *backfillReservation) {
	r.held = r.held[:0]
	for _, k := range r.toHold {
		n := k.Node
		if k.Device >= 0 {
			if k.Milli = min(k.Milli, cluster.WholeMilli-n.Devices[k.Device].Taken); k.Milli > 0 {
				b.txn.Take(k)
				r.held = append(r.held, k)
			}
			continue
		}
		k.Cpus, k.Memory = max(min(k.Cpus, n.Typ.Cpus-n.Cpus), 0), max(min(k.Memory, n.Record.MemoryMB-n.Memory), 0)
		b.txn.Take(k)
		r.held = append(r.held, k)
		b.forecastOf(n).heldInCycle = b.place.Cycle
		b.cluster.CapacityChanged(n)
	}
}

// reserveFor keeps a place for a job that found none, if one is foreseen. It is told
// of every earlier reservation: they are taken, and will end in their turn.
func (b *backfillRound) reserveFor(e *job.Entry, now time.Time) bool {
	b.reservationTries++
	b.holdReservations(0)
	members, ban := b.jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 {
		return false
	}
	m := cluster.Savepoint(len(b.txn.Deltas))
	b.place.Speculative = true
	b.windows.SetExpectedStay(e) // nobody may have asked for it yet whether it has room
	b.assumePlanned(now)
	r, ok := b.earliestStart(e, members, ban, now)
	b.txn.Undo(m)
	if b.mayDrain(e, &r, ok, now) {
		if hard, fits := b.drainReservation(e, members, ban, now); fits {
			r, ok = hard, true
		}
		b.txn.Undo(m)
	}
	b.dropPlanned()
	b.place.Speculative = false
	if ok {
		b.reservations = append(b.reservations, r)
	}
	return ok
}

// mayDrain says whether what comes free is kept for the job and nobody else, however
// soon he ends: for one that has waited for long, if nothing is foreseen or if it has
// waited for longer than it has to yet: then predictions may be failing it again and
// again. It costs idle devices, so there is one such at a time.
func (b *backfillRound) mayDrain(e *job.Entry, r *backfillReservation, foreseen bool, now time.Time) bool {
	waited, hold := e.Waited(now), b.backfill.DrainAfter
	if b.reserveForAll || hold == 0 || slices.ContainsFunc(b.reservations, func(r backfillReservation) bool { return r.drain }) {
		return false
	}
	return waited >= hold && (!foreseen || r.at-now.UnixNano() < int64(waited))
}

// assumePlanned takes the seats of all reservations and nominations, and foresees when those
// will have ended who have them then.
func (b *backfillRound) assumePlanned(now time.Time) {
	for i := range b.holds {
		k := &b.holds[i]
		if k.over {
			continue
		}
		ends := int64(job.NoEnd)
		if runs := k.entry.ExpectedRuntime(b.quantile); runs != job.Forever {
			ends = k.until.Add(max(runs-k.entry.Done(now), 0)).UnixNano()
		}
		b.txn.Release(k.held)
		b.assumeSeats(k.entry, k.seats, ends)
	}
	for i := range b.reservations {
		b.assumeSeats(b.reservations[i].entry, b.reservations[i].seats, b.reservations[i].ends)
	}
}

// assumeSeats takes seats for somebody who will have ended at a time.
func (b *backfillRound) assumeSeats(e *job.Entry, seats []ares.Seat, ends int64) {
	for k := range seats {
		if n := b.cluster.NodesByID[seats[k].Node]; n != nil && n.Record != nil {
			at := b.forecastOf(n)
			at.planned = append(at.planned, plannedSeat{&seats[k], ends, e.RuntimeSource()})
			b.txn.TakeSeats(seats[k : k+1])
		}
	}
}

// dropPlanned ends it: nothing of it is taken any more.
func (b *backfillRound) dropPlanned() {
	leave := func(seats []ares.Seat) {
		for k := range seats {
			if n := b.cluster.NodesByID[seats[k].Node]; n != nil {
				at := b.forecastOf(n)
				clear(at.planned)
				at.planned = at.planned[:0]
			}
		}
	}
	for i := range b.holds {
		leave(b.holds[i].seats)
	}
	for i := range b.reservations {
		leave(b.reservations[i].seats)
	}
}

// missingFor is what seats need beyond what those give who leave.
func (b *backfillRound) missingFor(seats []ares.Seat, given []cluster.Delta) []cluster.Delta {
	given = slices.Clone(given)
	var out []cluster.Delta
	for i := range seats {
		seat := &seats[i]
		n := b.cluster.NodesByID[seat.Node]
		rest := cluster.Delta{Node: n, Device: cluster.RestOfSeat, Cpus: seat.CPUs, Memory: seat.Memory, Numa: seat.NUMA, Kind: cluster.KindOfSeat(seat)}
		for k := range seat.Shares {
			part := cluster.Delta{Node: n, Device: n.DeviceIndex(&seat.Shares[k]), Milli: seat.Shares[k].Milli}
			for g := range given {
				if given[g].Node == n && given[g].Device == part.Device {
					most := min(part.Milli, -given[g].Milli)
					part.Milli, given[g].Milli = part.Milli-most, given[g].Milli+most
				}
			}
			if part.Milli > 0 {
				out = append(out, part)
			}
		}
		for g := range given {
			if give := &given[g]; give.Node == n && give.Device == cluster.RestOfLeaving {
				cpus, memory := min(rest.Cpus, -give.Cpus), min(rest.Memory, -give.Memory)
				rest.Cpus, give.Cpus = rest.Cpus-cpus, give.Cpus+cpus
				rest.Memory, give.Memory = rest.Memory-memory, give.Memory+memory
			}
		}
		out = append(out, rest)
	}
	return out
}
