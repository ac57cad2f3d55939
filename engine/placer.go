package engine

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
	cfg     *config.Config
	cluster *cluster.Cluster
	scorer  *score.Scorer
	jobs    *job.Table
	windows *window.Calendar
	txn     *cluster.Txn

	feasibleScratch    cluster.Set  // scratch of reach
	cycle              int          // counts them
	epoch              int          // counts them too, and what gives room in the middle of one
	placed             []placedJob  // whole jobs
	offer              ares.Placing // of the job whose turn it is
	unschedulableNoted bool         // a shape was noted as refused
	wouldDelay         bool         // the job whose turn it was would fit, and delay one ahead of it
	windowBlocked      bool         // reservations alone keep off the job whose turn it was
	speculative        bool         // what is taken is not as it is: nothing is noted for the rest of the decision
}

func (pl *Placer) close() {
	clear(pl.placed)
	pl.placed, pl.offer = pl.placed[:0], ares.Placing{}
}

// feasibleAgain is reach of a shape that had some.
func (pl *Placer) feasibleAgain(sh *job.Shape, w *cluster.Request) *cluster.Set {
	reach, _ := pl.feasibleNodes(sh, w)
	return reach
}

// rememberUnschedulable remembers that the shape found no place in the state as it is. What the
// decision under way has taken by then may come free again: those nodes count as
// grown when it ends.
func (pl *Placer) rememberUnschedulable(sh *job.Shape, ban uint64) {
	if len(sh.Affinity)+len(sh.AntiAffinity) > 0 { // other jobs' places count too
		return
	}
	w := sh.Request
	if !pl.cluster.RefreshGains(w) {
		w.Gains = cluster.RoomGains{Known: true, Layout: pl.cluster.Layout, From: pl.cluster.RoomChanges.Count, To: pl.cluster.RoomChanges.Count, Nodes: w.Gains.Nodes[:0]}
		if !w.Listed {
			w.Listed = true
			pl.cluster.UnschedulableRequests = append(pl.cluster.UnschedulableRequests, w)
		}
	}
	sh.Unschedulable = job.UnschedulableMark{true, pl.cluster.Layout, pl.cluster.RoomChanges.Count, ban}
	pl.unschedulableNoted = true
}

// noteReturnedRoom lets the nodes from which a decision took something count as grown: it
// gives that back now.
func (pl *Placer) noteReturnedRoom() {
	if !pl.unschedulableNoted {
		return
	}
	pl.unschedulableNoted = false
	for i := range pl.txn.Deltas {
		if n := pl.txn.Deltas[i].Node; i == 0 || pl.txn.Deltas[i-1].Node != n {
			pl.cluster.RoomChanges.Add(n.Pos)
		}
	}
}

// isBlockedByWindows says of a job that found no place whether reservations alone keep it
// off: it would fit without them. Unless its length is nothing to it, others of
// its shape may be shorter, and it is passed over alone.
func (pl *Placer) isBlockedByWindows(e *job.Entry, members int, ban uint64) bool {
	c := pl.windows
	if len(c.Windows) == 0 || len(pl.windows.BlockingWindows(e.Shape, &pl.cluster.RefreshFeasible(pl.cluster.WithoutModels(e.Shape.Request, ban)).Nodes)) == 0 {
		return false
	}
	fits := func() bool {
		m := cluster.Savepoint(len(pl.txn.Deltas))
		_, ok := pl.placeWithin(e.Shape, members, ban, e)
		pl.txn.Undo(m)
		return ok
	}
	c.Ignored = true
	open := fits()
	c.Ignored = false
	if !open {
		return false
	}
	pl.windowBlocked = true
	lasts := c.ExpectedStay
	c.ExpectedStay = 0
	if pl.wouldDelay = fits(); pl.wouldDelay {
		e.Shape.WindowEpoch, e.Shape.WindowStay = pl.epoch, lasts
	}
	c.ExpectedStay = lasts
	return true
}

// outlastsWindow says whether one of the job's shape that stays no longer was shut out
// in this decision already.
func (pl *Placer) outlastsWindow(e *job.Entry) bool {
	if e.Shape.WindowEpoch != pl.epoch || pl.speculative {
		return false
	}
	pl.windows.SetExpectedStay(e)
	if pl.windows.ExpectedStay < e.Shape.WindowStay {
		return false
	}
	pl.wouldDelay, pl.windowBlocked = true, true
	return true
}

// placedJob is a job the decision under way has placed.
type placedJob struct {
	entry *job.Entry
	seats []ares.Seat
}

// assign takes the place of one member on a node that has room for it: the
// devices that are linked best.
func (pl *Placer) assign(n *cluster.Node, w *cluster.Request, rank int) ares.Seat {
	if set := pl.scorer.PolicyDevice(n, w); set != 0 {
		return pl.txn.AssignDevices(n, w, rank, set, -1)
	}
	set, numa := n.PickDevices(w)
	return pl.txn.AssignDevices(n, w, rank, set, numa)
}

// assignAll takes the places of members of a gang, whose seats so far are given.
func (pl *Placer) assignAll(n *cluster.Node, w *cluster.Request, members int, seats []ares.Seat) []ares.Seat {
	home := -1
	if w.OneNUMA {
		home = n.NumaFor(w, members)
	}
	for range members {
		if home < 0 {
			seats = append(seats, pl.assign(n, w, len(seats)))
			continue
		}
		set, _ := n.ChooseDevices(w, w.DeviceMask(n.Typ)&n.Typ.Near[home], 0)
		seats = append(seats, pl.txn.AssignDevices(n, w, len(seats), set, home))
	}
	return seats
}

// releaseJob gives up the seats of a job's attempt under way.
func (pl *Placer) releaseJob(e *job.Entry) {
	a := e.Run.Current()
	for i := range a.Seats {
		h := &a.Seats[i]
		n := pl.cluster.NodesByID[h.Node]
		if h.State.Free() || n == nil || n.Record == nil {
			continue
		}
		for k := range h.Shares {
			if at := n.DeviceIndex(&h.Shares[k]); at >= 0 {
				pl.txn.Take(cluster.Delta{Node: n, Device: at, Milli: -h.Shares[k].Milli})
			}
		}
		pl.txn.Take(cluster.Delta{Node: n, Device: cluster.RestOfLeaving, Cpus: -h.CPUs, Memory: -h.Memory, Numa: h.NUMA, Kind: cluster.KindOfSeat(&h.Seat)})
		pl.cluster.CapacityChanged(n)
	}
}

// putBack puts a job that was to leave back on its seats, if nobody else is given
// what it has there.
func (pl *Placer) putBack(e *job.Entry) bool {
	m, a := cluster.Savepoint(len(pl.txn.Deltas)), e.Run.Current()
	for i := range a.Seats {
		seat := &a.Seats[i].Seat
		n := pl.cluster.NodesByID[seat.Node]
		if a.Seats[i].State.Free() || n == nil || n.Record == nil {
			continue
		}
		if !n.FitsBeside(seat) {
			pl.txn.Undo(m)
			return false
		}
		pl.txn.TakeSeats([]ares.Seat{*seat})
	}
	return true
}
