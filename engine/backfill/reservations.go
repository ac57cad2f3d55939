package backfill

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
)

// Reservation is the planned start of a blocked job. It holds the job's seats, and the time by which
// the jobs that now run on these seats are expected to end. A backfill reservation lasts for one
// cycle.
type Reservation struct {
	Entry   *job.Entry
	leaf    *job.QueueLeaf
	At      int64 // the planned start, job.NoEnd if unknown
	limit   int64 // the time by which backfilled jobs on the reserved seats must have ended. Invariant: limit >= At unless drain is set.
	Firm    bool  // no job ahead of it is blocked
	drain   bool  // a hold: no other job may use its free parts, not even a short one; see HoldFor
	endsAt  int64 // when the job is expected to have ended, job.NoEnd if unknown
	Seats   []ares.Seat
	toHold  []cluster.Delta // the parts of its seats that are already free
	held    cluster.Hold    // the parts of toHold that are held now
	Merit   ares.PlacementScore
	Sources [job.EstimateSources]int // number of releases that it waits for, by the source of the estimate
	Overdue int                      // number of overdue releases that it waits for
	price   time.Duration            // for a hold; see Hold.Price
}

// maxReservationDoubt is the largest doubt about its forecast with which a job gets a reservation, in percent. Jobs in doubt
// start by submission, so each large job would get a reservation in its turn, and the capacity that is kept for it would
// delay all others by more than it gains.
const maxReservationDoubt = 50

// MayReserve reports whether a blocked job may get a reservation.
func (b *Round) MayReserve(e *job.Entry, now time.Time) bool {
	r := &b.Backfill
	switch {
	case b.holdOf(e) != 0:
		return false // nodes are held for it
	case b.Cfg.Queue.Order == config.OrderExpectedWork && !b.ReserveForAll && e.Doubt() > maxReservationDoubt:
		return false
	case len(b.Reservations)-b.Held >= r.First || len(b.Reservations) >= config.MaxReserved || b.ReservationTries >= 2*r.First:
		return false
	case b.Cfg.Queue.Blocked == config.BlockedReserve && !b.ReserveForAll:
		return !slices.ContainsFunc(b.Reservations, func(r Reservation) bool { return r.leaf == e.Shape.Leaf })
	}
	return e.Waited(now) >= r.After
}

// PlaceBackfill places a job where it delays no reservation. A job that is expected to end before the reserved jobs
// start may use any capacity. A job that is expected to end later may use only capacity that the reservations do
// not hold.
func (b *Round) PlaceBackfill(e *job.Entry, members int, ban uint64, now time.Time) (placing ares.Placing, ok bool) {
	ends := e.EndsBy(now)
	outlasted := b.DelayedReservations(ends) &^ b.holdOf(e)
	sh := e.Shape
	if outlasted != 0 && sh.DelayingEpoch == b.Place.Epoch && ends >= sh.DelayingEnd {
		b.Place.WouldDelay = true // a job of the same shape that ends at this time or later would delay them too
		return placing, false
	}
	b.HoldReservations(outlasted)
	stay := b.Place.StayOf(e)
	if outlasted == 0 {
		return b.Place.PlaceJob(sh, members, ban, e, stay)
	}
	if placing, ok = b.Place.TryPlace(sh, members, ban, e, stay); ok {
		return placing, true
	}
	// Check whether the job would fit if there were no reservations.
	fits := b.probes >= maxProbes
	if !fits {
		b.probes++
		b.HoldReservations(0)
		mark := b.Txn.Mark()
		if _, fits = b.Place.PlaceJob(sh, members, ban, e, stay); fits {
			b.Txn.Undo(mark)
		}
	}
	if fits {
		b.Place.WouldDelay, sh.DelayingEpoch, sh.DelayingEnd = true, b.Place.Epoch, ends
	}
	return placing, false
}

// holdOf returns the reservation that holds nodes for the given job, as a set. The set is empty if there is none.
func (b *Round) holdOf(e *job.Entry) (set uint64) {
	for i := range b.Reservations[:b.Held] {
		if b.Reservations[i].Entry == e {
			set |= 1 << i
		}
	}
	return set
}

// A cycle can check whether a job would fit if no reservation held capacity. maxProbes is the maximum number of
// such checks in one cycle. After that many checks, the cycle assumes that every further job would fit.
const maxProbes = 64

// DelayedReservations returns the reservations that a job would delay if it ended at the given time. Bit i of the
// result stands for reservation i.
func (b *Round) DelayedReservations(ends int64) (set uint64) {
	for i := range b.Reservations {
		if r := &b.Reservations[i]; r.drain || ends > r.limit {
			set |= 1 << i
		}
	}
	return set
}

// HoldReservations makes the given reservations hold the free parts of their seats, and makes all other
// reservations hold nothing. Most jobs would delay either all reservations or none of them. Therefore the
// set of reservations that hold capacity rarely changes.
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

// capacityIgnoringReservations returns the number of members that would fit on the node if reservations held nothing.
func (b *Round) capacityIgnoringReservations(n *cluster.Node, req *cluster.Request) int {
	if b.HeldReservations == 0 || b.forecastOf(n).heldInCycle != b.Place.Cycle {
		return n.RoomFor(req)
	}
	return n.RoomWithoutHolds(req, func(yield func(cluster.Hold) bool) {
		for i := range b.Reservations {
			if b.HeldReservations&(1<<i) != 0 && !yield(b.Reservations[i].held) {
				return
			}
		}
	})
}

// holdReservation holds those parts of a reservation's seats that are still free.
func (b *Round) holdReservation(r *Reservation) {
	r.held = b.Txn.HoldParts(r.toHold)
	for i := range r.toHold {
		b.forecastOf(r.toHold[i].Node).heldInCycle = b.Place.Cycle
	}
}

// ReserveFor makes a reservation for a blocked job if a start can be planned. Seats of earlier reservations and
// nominations count as taken until their jobs are expected to end.
func (b *Round) ReserveFor(e *job.Entry, now time.Time) bool {
	b.ReservationTries++
	b.HoldReservations(0)
	members, ban := b.Jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 {
		return false
	}
	mark := b.Txn.Mark()
	b.AssumePlanned(now)
	r, ok := b.EarliestStart(e, members, ban, now)
	b.Txn.Undo(mark)
	ok = ok && b.isPredictable(&r)
	b.DropPlanned()
	if ok {
		b.Reservations = append(b.Reservations, r)
	}
	return ok
}

// isPredictable reports whether the ends of all jobs on the reserved nodes are known well enough for the
// reservation; see config.BackfillConfig.MaxSpread.
func (b *Round) isPredictable(r *Reservation) bool {
	if b.Backfill.MaxSpread == 0 || b.ReserveForAll {
		return true
	}
	var last *cluster.Node
	for i := range r.Seats {
		n := b.Cluster.NodesByID[r.Seats[i].Node]
		if n == last {
			continue
		}
		last = n
		for _, o := range n.Occupants {
			if v := b.Jobs.Owner(o); v != nil && v.Job != nil && !v.IsPredictable(b.Backfill.MaxSpread) {
				return false
			}
		}
	}
	return true
}

// AssumePlanned marks the seats of all reservations and nominations as taken until their jobs are expected to end.
// To revert AssumePlanned, call DropPlanned and undo the transaction.
func (b *Round) AssumePlanned(now time.Time) {
	for i := range b.Holds {
		hold := &b.Holds[i]
		if hold.Over {
			continue
		}
		ends := int64(job.NoEnd)
		if runs := hold.Entry.ExpectedRuntime(b.Quantile); runs != job.Forever {
			ends = hold.Until.Add(max(runs-hold.Entry.Done(now), 0)).UnixNano()
		}
		b.Txn.Release(hold.Hold)
		b.assumeSeats(hold.Entry, hold.Seats, ends)
	}
	for i := range b.Reservations {
		b.assumeSeats(b.Reservations[i].Entry, b.Reservations[i].Seats, b.Reservations[i].endsAt)
	}
}

// assumeSeats marks the seats of a job as taken until the given time.
func (b *Round) assumeSeats(e *job.Entry, seats []ares.Seat, ends int64) {
	for k := range seats {
		if n := b.Cluster.NodesByID[seats[k].Node]; n != nil && n.Record != nil {
			at := b.forecastOf(n)
			at.planned = append(at.planned, plannedSeat{&seats[k], ends, e.RuntimeSource()})
			b.Txn.TakeSeats(seats[k : k+1])
		}
	}
}

// DropPlanned removes the seats that AssumePlanned added to the forecasts. The caller must also undo the
// transaction.
func (b *Round) DropPlanned() {
	clearNodes := func(seats []ares.Seat) {
		for k := range seats {
			if n := b.Cluster.NodesByID[seats[k].Node]; n != nil {
				at := b.forecastOf(n)
				clear(at.planned)
				at.planned = at.planned[:0]
			}
		}
	}
	for i := range b.Holds {
		clearNodes(b.Holds[i].Seats)
	}
	for i := range b.Reservations {
		clearNodes(b.Reservations[i].Seats)
	}
}

// alreadyFree returns those parts of the seats that are already free. The seats fit after the given
// releases. Therefore each part that these releases do not free must be free now.
func (b *Round) alreadyFree(seats []ares.Seat, released []cluster.Delta) []cluster.Delta {
	released = slices.Clone(released)
	var out []cluster.Delta
	for i := range seats {
		seat := &seats[i]
		n := b.Cluster.NodesByID[seat.Node]
		rest := cluster.Delta{Node: n, Device: cluster.RestOfSeat, MilliCPUs: seat.MilliCPUs(), Memory: seat.Memory, NUMA: seat.NUMA, Kind: cluster.KindOfSeat(seat)}
		for k := range seat.Shares {
			part := cluster.Delta{Node: n, Device: n.DeviceIndex(&seat.Shares[k]), Milli: seat.Shares[k].Milli}
			for g := range released {
				if released[g].Node == n && released[g].Device == part.Device {
					milli := min(part.Milli, -released[g].Milli)
					part.Milli, released[g].Milli = part.Milli-milli, released[g].Milli+milli
				}
			}
			if part.Milli > 0 {
				out = append(out, part)
			}
		}
		for g := range released {
			if freed := &released[g]; freed.Node == n && freed.Device == cluster.RestOfLeaving {
				cpus, memory := min(rest.MilliCPUs, -freed.MilliCPUs), min(rest.Memory, -freed.Memory)
				rest.MilliCPUs, freed.MilliCPUs = rest.MilliCPUs-cpus, freed.MilliCPUs+cpus
				rest.Memory, freed.Memory = rest.Memory-memory, freed.Memory+memory
			}
		}
		out = append(out, rest)
	}
	return out
}
