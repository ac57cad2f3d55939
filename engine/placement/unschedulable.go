package placement

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// RememberUnschedulable remembers that a shape does not fit. It is tried again when a
// node gains capacity. Capacity that this pass has taken comes back when the pass
// ends: RecordReturnedCapacity counts these nodes as gains then.
func (pl *Placer) RememberUnschedulable(sh *job.Shape, ban uint64) {
	if len(sh.Affinity)+len(sh.AntiAffinity) > 0 { // their feasible nodes depend on other jobs
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

// RecordReturnedCapacity records a gain for each node that this pass took capacity
// from, if a shape was remembered as unschedulable. Call it just before the pass
// undoes its transaction.
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
