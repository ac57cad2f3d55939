package placement

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

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
