package planner

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// seatNode is the node on which the pod has its seat, "" if it has none.
func (o *pod) seatNode() string {
	if o.Node != "" || o.unit == nil {
		return o.Node
	}
	if s := o.unit.seat(o.rank); s != nil {
		return s.Node
	}
	return ""
}

// seat returns the seat of a rank, or nil before the unit is placed.
func (u *unit) seat(rank int) *ares.SeatStatus {
	if a := u.run.Last(); a != nil {
		for i := range a.Seats {
			if a.Seats[i].Rank == rank {
				return &a.Seats[i]
			}
		}
	}
	return nil
}

// claim records that a pod of a unit is bound.
func (p *Planner) claim(o *pod, now time.Time) {
	u := o.unit
	if u.fence == 0 {
		p.dissolve(u) // another program bound it while it waited; adopt gives it a seat where it is
		return
	}
	if s := u.seat(o.rank); s == nil || s.State != ares.SeatPlaced {
		return
	} else if s.Node != o.Node || o.Plan.Fence > 0 && !o.moved && !hasDevices(s, o.Plan.Devices) {
		p.occupy(o) // also a binding of the leader before this one, which arrived late
		return
	}
	delete(u.arrived, o.UID)
	p.changeRun(u, func(r *ares.Run) {
		if r.Stop != nil {
			r.Last().Seats[o.seatIndex()].State = ares.SeatClaimed // Claim refuses a job that stops, but the pod is there
			return
		}
		_ = r.Claim(u.job, u.fence, o.rank, o.Node, now) // the seat is as Claim wants it, as checked above
	})
}

// occupy corrects a seat whose pod another program bound to another node, or with other devices, than planned. The pod
// becomes a unit of its own where it is.
func (p *Planner) occupy(o *pod) {
	p.release(o, nil)
	o.unit = nil
	p.changed[o.gang] = true
}

func (o *pod) seatIndex() int {
	a := o.unit.run.Last()
	return slices.IndexFunc(a.Seats, func(s ares.SeatStatus) bool { return s.Rank == o.rank })
}

// take marks the devices of a seat as used by a pod, and free gives them back.
func (p *Planner) take(s ares.Seat, uid string) {
	n := p.node(s.Node)
	for _, share := range s.Shares {
		n.taken[share.Index] = uid
	}
}

func (p *Planner) free(s ares.Seat, uid string) {
	n := p.node(s.Node)
	for _, share := range s.Shares {
		if n.taken[share.Index] == uid {
			delete(n.taken, share.Index)
		}
	}
}
