package cache

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// Drains lists the drains in progress.
func (v *View) Drains() []*ares.Cordon {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []*ares.Cordon
	for _, n := range v.nodes { // order-free: nodes are independent
		if n.Cordon != nil && n.Cordon.Drain {
			out = append(out, n.Cordon)
		}
	}
	return out
}

// RemainingOn counts a node's seats that may still have a live process. It also lists the jobs on
// the node that only a forced drain would stop.
func (v *View) RemainingOn(node string) (seats int, enduring []ares.JobID) {
	entries, _, _ := v.SeatsOn(node)
	for _, e := range entries {
		n := len(UnsettledOn(e, node))
		seats += n
		if a := e.Run.Current(); n > 0 && a != nil && e.Run.Stop == nil && e.Run.MustFinish(e.Job) {
			enduring = append(enduring, e.Job.ID)
		}
	}
	return seats, enduring
}

func UnsettledOn(e *Entry, node string) []store.SeatRef {
	var out []store.SeatRef
	for i := range e.Run.Attempts {
		a := &e.Run.Attempts[i]
		for k := range a.Seats {
			if h := &a.Seats[k]; h.Node == node && !h.State.Settled() {
				out = append(out, store.SeatRef{Job: e.Job.ID, Fence: a.Fence, Rank: h.Rank, Node: node})
			}
		}
	}
	return out
}
