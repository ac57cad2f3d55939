package placement

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// The method `assign` takes devices for one member on a node. The member must fit on this node. If the
// placement policy chooses devices, the method takes them. If the policy chooses no devices, the method takes
// the devices with the best links.
func (pl *Placer) assign(n *cluster.Node, r *cluster.Request, rank int) ares.Seat {
	if set := pl.Scorer.PolicyDevice(n, r); set != 0 {
		return pl.Txn.AssignDevices(n, r, rank, set, -1)
	}
	set, numa := n.PickDevices(r)
	return pl.Txn.AssignDevices(n, r, rank, set, numa)
}

// assignAll takes devices for several members of a gang on one node, and appends the new seats to the given
// seats. The ranks of the new seats continue after the ranks of the given seats.
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

// ReleaseJob releases the seats of a running job's current attempt in the transaction, as
// if the job had stopped.
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
		pl.Txn.Take(cluster.Delta{Node: n, Device: cluster.RestOfLeaving, MilliCPUs: -h.MilliCPUs(), Memory: -h.Memory, NUMA: h.NUMA, Kind: cluster.KindOfSeat(&h.Seat)})
		pl.Cluster.CapacityChanged(n)
	}
}

// PutBack takes the seats of a released job again if they are still free. If any of the seats is no longer free,
// PutBack takes nothing and returns false.
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
