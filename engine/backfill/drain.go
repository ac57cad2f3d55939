package backfill

import (
	"math/bits"
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// mayDrain reports whether the nodes of a reservation may be drained for the job. No other job is placed on drained
// nodes, not even a short job. The job must have waited for DrainAfter or longer. The time until the job's planned
// start must be unknown, or shorter than the time that the job has already waited. After a long wait, even a known
// planned start is not trusted, because earlier estimates may have been wrong. Draining leaves devices idle.
// Therefore only one reservation at a time may drain its nodes.
func (b *Round) mayDrain(e *job.Entry, r *Reservation, startKnown bool, now time.Time) bool {
	waited, drainAfter := e.Waited(now), b.Backfill.DrainAfter
	if b.ReserveForAll || drainAfter == 0 || slices.ContainsFunc(b.Reservations, func(r Reservation) bool { return r.drain }) {
		return false
	}
	return waited >= drainAfter && (!startKnown || r.At-now.UnixNano() < int64(waited))
}

// drainReservation returns a reservation without a start time. The reservation is on the nodes where the job
// lacks the fewest devices. The reservation holds the part of the needed capacity that is already free. No
// other job may use this capacity, so the number of devices that the job lacks falls until the job starts.
func (b *Round) drainReservation(e *job.Entry, members int, ban uint64, now time.Time) (Reservation, bool) {
	if !e.Shape.Wish.OneModel {
		r, _, ok := b.drainOn(e, members, ban, now)
		return r, ok
	}
	best, least, found := Reservation{}, 0, false
	for _, ban := range b.Cluster.ModelBans(e.Shape.Request, ban) {
		if r, missing, ok := b.drainOn(e, members, ban, now); ok && (!found || missing < least) {
			best, least, found = r, missing, true
		}
	}
	return best, found
}

// drainOn is drainReservation on the models that are not excluded. The second result is the number of devices that
// must become free.
func (b *Round) drainOn(e *job.Entry, members int, ban uint64, now time.Time) (Reservation, int, bool) {
	sh := e.Shape
	req := b.Cluster.WithoutModels(sh.Request, ban)
	feasible, ok := b.Place.FeasibleNodes(sh, req, b.Place.StayOf(e))
	if !ok || b.Cluster.ExceedsLeafLimit(req) {
		return Reservation{}, 0, false
	}
	mark := b.Txn.Mark()
	longAgo := now.Add(-max(longRunning, 4*e.Waited(now))).UnixNano()
	for _, cut := range [2]int64{longAgo, job.AlreadyOver} {
		for k := range maxDoublings {
			nodes := b.nearestNodes(sh, req, feasible, sh.MinMembers<<k, cut)
			for _, n := range nodes {
				for _, occupant := range n.Occupants {
					b.Txn.ReleaseSeat(n, occupant.Seat)
				}
				b.Cluster.CapacityChanged(n)
			}
			placing, fits := b.Place.TryPlace(sh, members, ban, e, b.Place.StayOf(e))
			b.Txn.Undo(mark)
			if fits {
				r := Reservation{Entry: e, leaf: sh.Leaf, drain: true, At: job.NoEnd, endsAt: job.NoEnd, Seats: placing.Seats, Merit: placing.PlacementScore, toHold: b.freeParts(placing.Seats, req)}
				return r, len(placing.Seats)*req.GPUs - r.heldDevices(), true
			}
			feasible = b.Place.FeasibleAgain(sh, req, b.Place.StayOf(e))
		}
	}
	return Reservation{}, 0, false
}

// heldDevices returns the number of whole devices that the reservation holds.
func (r *Reservation) heldDevices() (count int) {
	for i := range r.toHold {
		if r.toHold[i].Device >= 0 && r.toHold[i].Milli == cluster.WholeMilli {
			count++
		}
	}
	return count
}

// longRunning is the runtime after which a job without a known end is assumed never to end. If the reserved
// job does not fit under this assumption, the assumption is dropped.
const longRunning = 24 * time.Hour

// freeParts returns those parts of the given seats that are free now. All free whole devices that match the
// request are included, because the members take free devices first when the job is placed.
func (b *Round) freeParts(seats []ares.Seat, req *cluster.Request) []cluster.Delta {
	var out []cluster.Delta
	for i := 0; i < len(seats); {
		n, members := b.Cluster.NodesByID[seats[i].Node], 0
		kind, from := cluster.KindOfSeat(&seats[i]), i
		for ; i < len(seats) && seats[i].Node == n.ID; i++ {
			members++
		}
		free := req.DeviceMask(n.Type) & n.Free
		for k := 0; k < members*req.GPUs && free != 0; k, free = k+1, free&(free-1) {
			out = append(out, cluster.Delta{Node: n, Device: bits.TrailingZeros64(free), Milli: cluster.WholeMilli})
		}
		for k := range seats[from:i] {
			for x := range seats[from+k].Shares {
				if sh := &seats[from+k].Shares[x]; req.GPUs == 0 && n.DeviceIndex(sh) >= 0 {
					out = append(out, cluster.Delta{Node: n, Device: n.DeviceIndex(sh), Milli: sh.Milli})
				}
			}
		}
		out = append(out, cluster.Delta{Node: n, Device: cluster.RestOfSeat, CPUs: members * req.CPUs, Memory: members * req.Memory, NUMA: -1, Kind: kind})
	}
	return out
}
