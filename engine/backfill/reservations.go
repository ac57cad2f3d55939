package backfill

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
	Entry   *job.Entry
	leaf    *job.QueueLeaf
	At      int64 // its start, endless if nobody knows
	limit   int64 // who comes behind it must have ended by then
	Firm    bool  // nobody ahead of it found no place
	drain   bool  // nobody may take what it holds, however soon he ends
	ends    int64 // when the job will have ended, endless if nobody knows
	Seats   []ares.Seat
	toHold  []cluster.Delta // what of it is free already
	held    cluster.Hold    // what of that is taken now
	Merit   ares.Merit
	Sources [job.EstimateSources]int // of those it waits for, how many by a forecast, a limit, a guess
	Overdue int                      // how many of them run for longer than was foreseen
}

// MayReserve says whether a place is kept for a job that found none.
func (b *Round) MayReserve(e *job.Entry, now time.Time) bool {
	r := &b.Backfill
	switch {
	case len(b.Reservations) >= r.First || b.ReservationTries >= 2*r.First:
		return false
	case b.Cfg.Queue.Blocked == config.BlockedReserve && !b.ReserveForAll:
		return !slices.ContainsFunc(b.Reservations, func(r backfillReservation) bool { return r.leaf == e.Shape.Leaf })
	}
	return e.Waited(now) >= r.After
}

// PlaceBackfill places a job where it delays nobody who has a reservation: anywhere if
// it is foreseen to end before those begin, and else beside what they hold.
func (b *Round) PlaceBackfill(e *job.Entry, members int, ban uint64, now time.Time) (p ares.Placing, ok bool) {
	ends := e.EndsBy(now)
	outlasted := b.DelayedReservations(ends)
	sh := e.Shape
	if outlasted != 0 && sh.DelayingEpoch == b.Place.Epoch && ends >= sh.DelayingEnd {
		b.Place.WouldDelay = true // as another of its shape, which ends no later
		return p, false
	}
	b.HoldReservations(outlasted)
	b.Place.Speculative = outlasted != 0
	p, ok = b.Place.PlaceJob(sh, members, ban, e)
	b.Place.Speculative = false
	if ok || outlasted == 0 {
		return p, ok
	}
	// Is it kept off, or is there no room in any case?
	fits := b.probes >= maxProbes
	if !fits {
		b.probes++
		b.HoldReservations(0)
		m := b.Txn.Mark()
		if _, fits = b.Place.PlaceJob(sh, members, ban, e); fits {
			b.Txn.Undo(m)
		}
	}
	if fits {
		b.Place.WouldDelay, sh.DelayingEpoch, sh.DelayingEnd = true, b.Place.Epoch, ends
	}
	return p, false
}

// maxProbes is in how many cases it is found out whether a job without a place
// is kept off: beyond that it is taken for granted.
const maxProbes = 64

// DelayedReservations is which reservations somebody would delay that ends at a time, as
// bits.
func (b *Round) DelayedReservations(ends int64) (set uint64) {
	for i := range b.Reservations {
		if r := &b.Reservations[i]; r.drain || ends > r.limit {
			set |= 1 << i
		}
	}
	return set
}

// HoldReservations takes what these reservations hold, and gives up what others do. It
// leaves all as it is where it is so already: most jobs outlast all or none.
func (b *Round) HoldReservations(which uint64) {
	if which == b.HeldReservations {
		return
	}
	for i := range b.Reservations {
		r := &b.Reservations[i]
		switch bit := uint64(1) << i; {
		case b.HeldReservations&^which&bit != 0:
			b.Txn.Release(r.held)
		case which&^b.HeldReservations&bit != 0:
			b.holdReservation(r)
		}
	}
	b.HeldReservations = which
}

// roomIgnoringHolds is the room of a node for a want, if nothing were held by reservations.
func (b *Round) roomIgnoringHolds(n *cluster.Node, w *cluster.Request) int {
	if b.HeldReservations == 0 || b.forecastOf(n).heldInCycle != b.Place.Cycle {
		return n.RoomFor(w)
	}
	return n.RoomWithoutHolds(w, func(yield func(cluster.Hold) bool) {
		for i := range b.Reservations {
			if b.HeldReservations&(1<<i) != 0 && !yield(b.Reservations[i].held) {
				return
			}
		}
	})
}

// holdReservation takes what is left of what a reservation holds.
func (b *Round) holdReservation(r *backfillReservation) {
	r.held = b.Txn.HoldParts(r.toHold)
	for i := range r.toHold {
		b.forecastOf(r.toHold[i].Node).heldInCycle = b.Place.Cycle
	}
}

// ReserveFor keeps a place for a job that found none, if one is foreseen. It is told
// of every earlier reservation: they are taken, and will end in their turn.
func (b *Round) ReserveFor(e *job.Entry, now time.Time) bool {
	b.ReservationTries++
	b.HoldReservations(0)
	members, ban := b.Jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 {
		return false
	}
	m := b.Txn.Mark()
	b.Place.Speculative = true
	b.Windows.SetExpectedStay(e) // nobody may have asked for it yet whether it has room
	b.AssumePlanned(now)
	r, ok := b.EarliestStart(e, members, ban, now)
	b.Txn.Undo(m)
	if b.mayDrain(e, &r, ok, now) {
		if hard, fits := b.drainReservation(e, members, ban, now); fits {
			r, ok = hard, true
		}
		b.Txn.Undo(m)
	}
	b.DropPlanned()
	b.Place.Speculative = false
	if ok {
		b.Reservations = append(b.Reservations, r)
	}
	return ok
}

// mayDrain says whether what comes free is kept for the job and nobody else, however
// soon he ends: for one that has waited for long, if nothing is foreseen or if it has
// waited for longer than it has to yet: then predictions may be failing it again and
// again. It costs idle devices, so there is one such at a time.
func (b *Round) mayDrain(e *job.Entry, r *backfillReservation, foreseen bool, now time.Time) bool {
	waited, hold := e.Waited(now), b.Backfill.DrainAfter
	if b.ReserveForAll || hold == 0 || slices.ContainsFunc(b.Reservations, func(r backfillReservation) bool { return r.drain }) {
		return false
	}
	return waited >= hold && (!foreseen || r.At-now.UnixNano() < int64(waited))
}

// AssumePlanned takes the seats of all reservations and nominations, and foresees when those
// will have ended who have them then.
func (b *Round) AssumePlanned(now time.Time) {
	for i := range b.Holds {
		k := &b.Holds[i]
		if k.Over {
			continue
		}
		ends := int64(job.NoEnd)
		if runs := k.Entry.ExpectedRuntime(b.Quantile); runs != job.Forever {
			ends = k.Until.Add(max(runs-k.Entry.Done(now), 0)).UnixNano()
		}
		b.Txn.Release(k.Hold)
		b.assumeSeats(k.Entry, k.Seats, ends)
	}
	for i := range b.Reservations {
		b.assumeSeats(b.Reservations[i].Entry, b.Reservations[i].Seats, b.Reservations[i].ends)
	}
}

// assumeSeats takes seats for somebody who will have ended at a time.
func (b *Round) assumeSeats(e *job.Entry, seats []ares.Seat, ends int64) {
	for k := range seats {
		if n := b.Cluster.NodesByID[seats[k].Node]; n != nil && n.Record != nil {
			at := b.forecastOf(n)
			at.planned = append(at.planned, plannedSeat{&seats[k], ends, e.RuntimeSource()})
			b.Txn.TakeSeats(seats[k : k+1])
		}
	}
}

// DropPlanned ends it: nothing of it is taken any more.
func (b *Round) DropPlanned() {
	leave := func(seats []ares.Seat) {
		for k := range seats {
			if n := b.Cluster.NodesByID[seats[k].Node]; n != nil {
				at := b.forecastOf(n)
				clear(at.planned)
				at.planned = at.planned[:0]
			}
		}
	}
	for i := range b.Holds {
		leave(b.Holds[i].Seats)
	}
	for i := range b.Reservations {
		leave(b.Reservations[i].Seats)
	}
}

// missingFor is what seats need beyond what those give who leave.
func (b *Round) missingFor(seats []ares.Seat, given []cluster.Delta) []cluster.Delta {
	given = slices.Clone(given)
	var out []cluster.Delta
	for i := range seats {
		seat := &seats[i]
		n := b.Cluster.NodesByID[seat.Node]
		rest := cluster.Delta{Node: n, Device: cluster.RestOfSeat, CPUs: seat.CPUs, Memory: seat.Memory, NUMA: seat.NUMA, Kind: cluster.KindOfSeat(seat)}
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
				cpus, memory := min(rest.CPUs, -give.CPUs), min(rest.Memory, -give.Memory)
				rest.CPUs, give.CPUs = rest.CPUs-cpus, give.CPUs+cpus
				rest.Memory, give.Memory = rest.Memory-memory, give.Memory+memory
			}
		}
		out = append(out, rest)
	}
	return out
}
