package engine

import (
	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// Placer finds nodes and devices for the members of a job, and takes them.
type Placer struct {
	cfg     *config.Config
	cluster *Cluster
	scorer  *Scorer
	jobs    *jobTable
	windows *calendar
	txn     *Txn

	feasibleScratch    set          // scratch of reach
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
func (pl *Placer) feasibleAgain(sh *shape, w *request) *set {
	reach, _ := pl.feasibleNodes(sh, w)
	return reach
}

// rememberUnschedulable remembers that the shape found no place in the state as it is. What the
// decision under way has taken by then may come free again: those nodes count as
// grown when it ends.
func (pl *Placer) rememberUnschedulable(sh *shape, ban uint64) {
	if len(sh.affinity)+len(sh.antiAffinity) > 0 { // other jobs' places count too
		return
	}
	w := sh.request
	if !pl.cluster.refreshGains(w) {
		w.gains = roomGains{known: true, layout: pl.cluster.layout, from: pl.cluster.roomChanges.count, to: pl.cluster.roomChanges.count, nodes: w.gains.nodes[:0]}
		if !w.listed {
			w.listed = true
			pl.cluster.unschedulableRequests = append(pl.cluster.unschedulableRequests, w)
		}
	}
	sh.unschedulable = unschedulableMark{true, pl.cluster.layout, pl.cluster.roomChanges.count, ban}
	pl.unschedulableNoted = true
}

// noteReturnedRoom lets the nodes from which a decision took something count as grown: it
// gives that back now.
func (pl *Placer) noteReturnedRoom() {
	if !pl.unschedulableNoted {
		return
	}
	pl.unschedulableNoted = false
	for i := range pl.txn.deltas {
		if n := pl.txn.deltas[i].node; i == 0 || pl.txn.deltas[i-1].node != n {
			pl.cluster.roomChanges.add(n.pos)
		}
	}
}

// isBlockedByWindows says of a job that found no place whether reservations alone keep it
// off: it would fit without them. Unless its length is nothing to it, others of
// its shape may be shorter, and it is passed over alone.
func (pl *Placer) isBlockedByWindows(e *entry, members int, ban uint64) bool {
	c := pl.windows
	if len(c.windows) == 0 || len(pl.windows.blockingWindows(e.shape, &pl.cluster.refreshFeasible(pl.cluster.withoutModels(e.shape.request, ban)).nodes)) == 0 {
		return false
	}
	fits := func() bool {
		m := savepoint(len(pl.txn.deltas))
		_, ok := pl.placeWithin(e.shape, members, ban, e)
		pl.txn.undo(m)
		return ok
	}
	c.ignored = true
	open := fits()
	c.ignored = false
	if !open {
		return false
	}
	pl.windowBlocked = true
	lasts := c.expectedStay
	c.expectedStay = 0
	if pl.wouldDelay = fits(); pl.wouldDelay {
		e.shape.windowEpoch, e.shape.windowStay = pl.epoch, lasts
	}
	c.expectedStay = lasts
	return true
}

// outlastsWindow says whether one of the job's shape that stays no longer was shut out
// in this decision already.
func (pl *Placer) outlastsWindow(e *entry) bool {
	if e.shape.windowEpoch != pl.epoch || pl.speculative {
		return false
	}
	pl.windows.setExpectedStay(e)
	if pl.windows.expectedStay < e.shape.windowStay {
		return false
	}
	pl.wouldDelay, pl.windowBlocked = true, true
	return true
}

// placedJob is a job the decision under way has placed.
type placedJob struct {
	entry *entry
	seats []ares.Seat
}

// assign takes the place of one member on a node that has room for it: the
// devices that are linked best.
func (pl *Placer) assign(n *node, w *request, rank int) ares.Seat {
	if set := pl.scorer.policyDevice(n, w); set != 0 {
		return pl.txn.assignDevices(n, w, rank, set, -1)
	}
	set, numa := n.pickDevices(w)
	return pl.txn.assignDevices(n, w, rank, set, numa)
}

// assignAll takes the places of members of a gang, whose seats so far are given.
func (pl *Placer) assignAll(n *node, w *request, members int, seats []ares.Seat) []ares.Seat {
	home := -1
	if w.oneNUMA {
		home = n.numaFor(w, members)
	}
	for range members {
		if home < 0 {
			seats = append(seats, pl.assign(n, w, len(seats)))
			continue
		}
		set, _ := n.chooseDevices(w, w.deviceMask(n.typ)&n.typ.near[home], 0)
		seats = append(seats, pl.txn.assignDevices(n, w, len(seats), set, home))
	}
	return seats
}

// releaseJob gives up the seats of a job's attempt under way.
func (pl *Placer) releaseJob(e *entry) {
	a := e.run.Current()
	for i := range a.Seats {
		h := &a.Seats[i]
		n := pl.cluster.nodesByID[h.Node]
		if h.State.Free() || n == nil || n.record == nil {
			continue
		}
		for k := range h.Shares {
			if at := n.deviceIndex(&h.Shares[k]); at >= 0 {
				pl.txn.take(delta{node: n, device: at, milli: -h.Shares[k].Milli})
			}
		}
		pl.txn.take(delta{node: n, device: restOfLeaving, cpus: -h.CPUs, memory: -h.Memory, numa: h.NUMA, kind: kindOfSeat(&h.Seat)})
		pl.cluster.capacityChanged(n)
	}
}

// putBack puts a job that was to leave back on its seats, if nobody else is given
// what it has there.
func (pl *Placer) putBack(e *entry) bool {
	m, a := savepoint(len(pl.txn.deltas)), e.run.Current()
	for i := range a.Seats {
		seat := &a.Seats[i].Seat
		n := pl.cluster.nodesByID[seat.Node]
		if a.Seats[i].State.Free() || n == nil || n.record == nil {
			continue
		}
		if !n.fitsBeside(seat) {
			pl.txn.undo(m)
			return false
		}
		pl.txn.takeSeats([]ares.Seat{*seat})
	}
	return true
}
