package placement

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/window"

	ares "github.com/ares-scheduler/ares"
)

// Placer finds nodes and devices for the members of a job, and takes them.
type Placer struct {
	Cfg     *config.Config
	Cluster *cluster.Cluster
	Scorer  *score.Scorer
	Jobs    *job.Table
	Windows *window.Calendar
	Txn     *cluster.Txn

	FeasibleScratch    cluster.Set  // scratch of reach
	Cycle              int          // counts them
	Epoch              int          // counts them too, and what gives room in the middle of one
	Placed             []PlacedJob  // whole jobs
	Offer              ares.Placing // of the job whose turn it is
	recordedUnschedulable bool         // a shape was noted as refused
	WouldDelay         bool         // the job whose turn it was would fit, and delay one ahead of it
	WindowBlocked      bool         // reservations alone keep off the job whose turn it was
	Speculative        bool         // what is taken is not as it is: nothing is noted for the rest of the decision
}

func (pl *Placer) Close() {
	clear(pl.Placed)
	pl.Placed, pl.Offer = pl.Placed[:0], ares.Placing{}
}

// FeasibleAgain is reach of a shape that had some.
func (pl *Placer) FeasibleAgain(sh *job.Shape, r *cluster.Request) *cluster.Set {
	reach, _ := pl.FeasibleNodes(sh, r)
	return reach
}

// RememberUnschedulable remembers that the shape found no place in the state as it is. What the
// decision under way has taken by then may come free again: those nodes count as
// grown when it ends.
func (pl *Placer) RememberUnschedulable(sh *job.Shape, ban uint64) {
	if len(sh.Affinity)+len(sh.AntiAffinity) > 0 { // other jobs' places count too
		return
	}
	r := sh.Request
	if !pl.Cluster.RefreshGains(r) {
		r.Gains = cluster.RoomGains{Known: true, Layout: pl.Cluster.Layout, From: pl.Cluster.RoomChanges.Count, To: pl.Cluster.RoomChanges.Count, Nodes: r.Gains.Nodes[:0]}
		if !r.Listed {
			r.Listed = true
			pl.Cluster.UnschedulableRequests = append(pl.Cluster.UnschedulableRequests, r)
		}
	}
	sh.Unschedulable = job.UnschedulableMark{Known: true, Layout: pl.Cluster.Layout, Seen: pl.Cluster.RoomChanges.Count, Ban: ban}
	pl.recordedUnschedulable = true
}

// RecordReturnedCapacity lets the nodes from which a decision took something count as grown: it
// gives that back now.
func (pl *Placer) RecordReturnedCapacity() {
	if !pl.recordedUnschedulable {
		return
	}
	pl.recordedUnschedulable = false
	for i := range pl.Txn.Deltas {
		if n := pl.Txn.Deltas[i].Node; i == 0 || pl.Txn.Deltas[i-1].Node != n {
			pl.Cluster.RoomChanges.Add(n.Pos)
		}
	}
}

// IsBlockedByWindows says of a job that found no place whether reservations alone keep it
// off: it would fit without them. Unless its length is nothing to it, others of
// its shape may be shorter, and it is passed over alone.
func (pl *Placer) IsBlockedByWindows(e *job.Entry, members int, ban uint64) bool {
	c := pl.Windows
	if len(c.Windows) == 0 || len(pl.Windows.BlockingWindows(e.Shape, &pl.Cluster.RefreshFeasible(pl.Cluster.WithoutModels(e.Shape.Request, ban)).Nodes)) == 0 {
		return false
	}
	fits := func() bool {
		m := pl.Txn.Mark()
		_, ok := pl.placeForStay(e.Shape, members, ban, e)
		pl.Txn.Undo(m)
		return ok
	}
	c.Ignored = true
	open := fits()
	c.Ignored = false
	if !open {
		return false
	}
	pl.WindowBlocked = true
	lasts := c.ExpectedStay
	c.ExpectedStay = 0
	if pl.WouldDelay = fits(); pl.WouldDelay {
		e.Shape.WindowEpoch, e.Shape.WindowStay = pl.Epoch, lasts
	}
	c.ExpectedStay = lasts
	return true
}

// OutlastsWindow says whether one of the job's shape that stays no longer was shut out
// in this decision already.
func (pl *Placer) OutlastsWindow(e *job.Entry) bool {
	if e.Shape.WindowEpoch != pl.Epoch || pl.Speculative {
		return false
	}
	pl.Windows.SetExpectedStay(e)
	if pl.Windows.ExpectedStay < e.Shape.WindowStay {
		return false
	}
	pl.WouldDelay, pl.WindowBlocked = true, true
	return true
}

// PlacedJob is a job the decision under way has placed.
type PlacedJob struct {
	Entry *job.Entry
	Seats []ares.Seat
}

// assign takes the place of one member on a node that has room for it: the
// devices that are linked best.
func (pl *Placer) assign(n *cluster.Node, r *cluster.Request, rank int) ares.Seat {
	if set := pl.Scorer.PolicyDevice(n, r); set != 0 {
		return pl.Txn.AssignDevices(n, r, rank, set, -1)
	}
	set, numa := n.PickDevices(r)
	return pl.Txn.AssignDevices(n, r, rank, set, numa)
}

// assignAll takes the places of members of a gang, whose seats so far are given.
func (pl *Placer) assignAll(n *cluster.Node, r *cluster.Request, members int, seats []ares.Seat) []ares.Seat {
	home := -1
	if r.OneNUMA {
		home = n.NUMAFor(r, members)
	}
	for range members {
		if home < 0 {
			seats = append(seats, pl.assign(n, r, len(seats)))
			continue
		}
		set, _ := n.ChooseDevices(r, r.DeviceMask(n.Type)&n.Type.Near[home], 0)
		seats = append(seats, pl.Txn.AssignDevices(n, r, len(seats), set, home))
	}
	return seats
}

// ReleaseJob gives up the seats of a job's attempt under way.
func (pl *Placer) ReleaseJob(e *job.Entry) {
	a := e.Run.Current()
	for i := range a.Seats {
		h := &a.Seats[i]
		n := pl.Cluster.NodesByID[h.Node]
		if h.State.Free() || n == nil || n.Record == nil {
			continue
		}
		for k := range h.Shares {
			if at := n.DeviceIndex(&h.Shares[k]); at >= 0 {
				pl.Txn.Take(cluster.Delta{Node: n, Device: at, Milli: -h.Shares[k].Milli})
			}
		}
		pl.Txn.Take(cluster.Delta{Node: n, Device: cluster.RestOfLeaving, CPUs: -h.CPUs, Memory: -h.Memory, NUMA: h.NUMA, Kind: cluster.KindOfSeat(&h.Seat)})
		pl.Cluster.CapacityChanged(n)
	}
}

// PutBack puts a job that was to leave back on its seats, if nobody else is given
// what it has there.
func (pl *Placer) PutBack(e *job.Entry) bool {
	m, a := pl.Txn.Mark(), e.Run.Current()
	for i := range a.Seats {
		seat := &a.Seats[i].Seat
		n := pl.Cluster.NodesByID[seat.Node]
		if a.Seats[i].State.Free() || n == nil || n.Record == nil {
			continue
		}
		if !n.FitsBeside(seat) {
			pl.Txn.Undo(m)
			return false
		}
		pl.Txn.TakeSeats([]ares.Seat{*seat})
	}
	return true
}
