package backfill

import (
	"math/bits"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// Hold is the cheapest way to hold nodes for a job until all of them are free. The idle time is a forecast. It counts
// the GPUs of the job from the time at which each of them is free until the last of them is free.
type Hold struct {
	Reservation
	Ready     time.Duration // until the last node is expected to be free
	Idle      time.Duration // the time for which GPUs are expected to be idle, added over all GPUs
	Work      time.Duration // GPU time that the job itself is expected to use
	GPUs      int           // GPUs that the job needs
	Missing   int           // those of them that are not free now
	Estimated bool          // the ends of all jobs on these nodes are estimated by forecasts or time limits
}

// Price is the idle time that a job must have earned before nodes are held for it. It has two parts. The first is the
// expected idle time, times the part of the GPUs that is not free yet. So it is cheaper to go on with a hold than to
// begin one, and a hold that has begun is seldom given up because the last jobs on its nodes run longer than expected.
//
// The second part is a twentieth of the GPU time that the job itself will use. So the jobs that start because of holds
// use no more than 20 times HoldIdle of the GPUs in the long run. Without it, in a cluster with far more work than it can
// do, holds would give all GPUs to the jobs that have waited longest, and short jobs would wait as long as these.
func (h *Hold) Price() time.Duration {
	return h.Idle/time.Duration(max(h.GPUs, 1))*time.Duration(h.Missing) + h.Work/workPrice
}

// These constants determine the second part of a price. unknownRuntime is assumed for a job without any estimate.
const (
	workPrice      = 20
	unknownRuntime = 4 * time.Hour
	maxWork        = 30 * 24 * time.Hour // of one GPU, so that the product cannot overflow
)

// HoldFor holds nodes for a job that has waited for DrainAfter or longer, if the job has earned the price of the hold;
// see Earned. The parameter `wanted` is the number of GPUs that all such jobs need on some of the same nodes, including
// this one.
// No other job may use the held GPUs, not even a job that is expected to end in time, because predictions may be
// wrong again and again. A hold lasts for one cycle, and the next cycle decides again.
func (b *Round) HoldFor(e *job.Entry, wanted int, now time.Time) bool {
	b.HoldReservations(1<<len(b.Reservations) - 1) // the nodes of earlier holds are not available
	h, ok := b.CheapestHold(e, now)
	if !ok || h.Price() > b.Earned(e, wanted, now) {
		return false
	}
	b.Reservations = append(b.Reservations, h.Reservation)
	b.Held++
	return true
}

// Earned returns the GPU time that may be left idle for a job. The jobs that wait for some of the same nodes for longer
// than DrainAfter earn HoldIdle of these nodes' GPUs together. Each has a part in proportion to the GPUs that it needs.
// So if such jobs wait all the time, each of them starts after it has earned the idle time of its hold, and the GPUs are
// idle for HoldIdle of the time.
func (b *Round) Earned(e *job.Entry, wanted int, now time.Time) time.Duration {
	over := e.Waited(now) - b.Backfill.DrainAfter
	if over < 0 || b.Backfill.DrainAfter == 0 {
		return 0
	}
	return time.Duration(min(over.Seconds()*b.earnedPerSecond(e, wanted), float64(job.Forever/time.Second)/2)) * time.Second
}

// EarnedAfter returns how long a job must have waited before it has earned the given idle time.
func (b *Round) EarnedAfter(e *job.Entry, idle time.Duration, wanted int) time.Duration {
	rate := b.earnedPerSecond(e, wanted)
	if rate == 0 || b.Backfill.DrainAfter == 0 || idle.Seconds()/rate > float64(job.Forever/time.Second)/2 {
		return job.Forever
	}
	return b.Backfill.DrainAfter + time.Duration(idle.Seconds()/rate)*time.Second
}

// earnedPerSecond returns the GPU seconds that a job earns in a second.
func (b *Round) earnedPerSecond(e *job.Entry, wanted int) float64 {
	own := e.Shape.Members * e.Shape.Request.GPUs
	return float64(b.GPUsFor(e)) * float64(b.Backfill.HoldIdle) / 1000 * float64(own) / float64(max(wanted, own, 1))
}

// GPUsFor returns the number of GPUs on the nodes on which the job could run.
func (b *Round) GPUsFor(e *job.Entry) (gpus int) {
	req := e.Shape.Request
	nodes := &b.Cluster.RefreshFeasible(req).Nodes
	for at := nodes.Next(0); at >= 0; at = nodes.Next(at + 1) {
		g := &b.Cluster.Summaries[at]
		gpus += bits.OnesCount64(g.Usable & req.DeviceMask(b.Cluster.NodeTypes.All[g.Profile]))
	}
	return gpus
}

// CheapestHold returns the nodes on which holding is expected to leave the fewest GPUs idle. The second result is
// false if the job does not fit even after all running jobs have ended.
func (b *Round) CheapestHold(e *job.Entry, now time.Time) (best Hold, found bool) {
	members, ban := b.Jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 {
		return Hold{}, false
	}
	bans := []uint64{ban}
	if e.Shape.Wish.OneModel {
		bans = b.Cluster.ModelBans(e.Shape.Request, ban)
	}
	mark := b.Txn.Mark()
	for _, ban := range bans {
		if h, ok := b.holdOn(e, members, ban, now); ok && (!found || h.Idle < best.Idle) {
			best, found = h, true
		}
		b.Txn.Undo(mark)
	}
	return best, found
}

// holdOn is CheapestHold on the models that are not excluded. Topology rules may forbid the placement on the chosen
// nodes. Then more nodes are tried.
func (b *Round) holdOn(e *job.Entry, members int, ban uint64, now time.Time) (Hold, bool) {
	sh := e.Shape
	req := b.Cluster.WithoutModels(sh.Request, ban)
	feasible, ok := b.Place.FeasibleNodes(sh, req, b.Place.StayOf(e))
	if !ok || b.Cluster.ExceedsLeafLimit(req) {
		return Hold{}, false
	}
	mark := b.Txn.Mark()
	for k := range maxDoublings {
		nodes := b.cheapestNodes(e, req, feasible, sh.MinMembers<<k, now)
		for _, n := range nodes {
			for _, occupant := range n.Occupants {
				b.Txn.ReleaseSeat(n, occupant.Seat)
			}
			b.Cluster.CapacityChanged(n)
		}
		placing, fits := b.Place.TryPlace(sh, members, ban, e, b.Place.StayOf(e))
		b.Txn.Undo(mark)
		if fits {
			return b.newHold(e, req, &placing, now), true
		}
		feasible = b.Place.FeasibleAgain(sh, req, b.Place.StayOf(e))
	}
	return Hold{}, false
}

// newHold computes when the seats are expected to be free, and the idle time until then.
func (b *Round) newHold(e *job.Entry, req *cluster.Request, placing *ares.Placing, now time.Time) Hold {
	h := Hold{Estimated: true, GPUs: len(placing.Seats) * req.GPUs}
	seats := placing.Seats
	byNode := b.nodeReadiness[:0]
	for i := 0; i < len(seats); {
		n, members := b.Cluster.NodesByID[seats[i].Node], 0
		for ; i < len(seats) && seats[i].Node == n.ID; i++ {
			members++
		}
		r := b.readinessOf(n, req, now)
		r.members = members
		ready, estimated := r.readyFor(members)
		h.Ready, h.Estimated = max(h.Ready, ready), h.Estimated && estimated
		byNode = append(byNode, r)
	}
	for i := range byNode {
		need := byNode[i].members * req.GPUs
		h.Idle += byNode[i].idleUntil(h.Ready, need)
		h.Missing += max(need-byNode[i].free, 0)
	}
	b.nodeReadiness = byNode
	runs := e.ExpectedRuntime(job.P50)
	if runs == job.Forever {
		runs = unknownRuntime
	}
	h.Work = min(max(runs-e.Done(now), 0), maxWork) * time.Duration(h.GPUs)
	h.Reservation = Reservation{
		Entry: e, leaf: e.Shape.Leaf, drain: true, At: job.NoEnd, endsAt: job.NoEnd, Seats: seats, Merit: placing.PlacementScore,
		toHold: b.freeParts(seats, req), price: h.Price(),
	}
	return h
}

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
		out = append(out, cluster.Delta{Node: n, Device: cluster.RestOfSeat, MilliCPUs: members * req.MilliCPUs, Memory: members * req.Memory, NUMA: -1, Kind: kind})
	}
	return out
}
