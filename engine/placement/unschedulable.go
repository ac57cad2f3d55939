package placement

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// RememberUnschedulable records that jobs with the given Shape do not fit. These jobs are tried again
// when a node gains capacity. Capacity that this pass has taken becomes free again when the pass ends.
// When the pass ends, RecordReturnedCapacity records that the nodes have gained the returned capacity.
func (pl *Placer) RememberUnschedulable(sh *job.Shape, ban uint64) {
	if len(sh.Affinity)+len(sh.AntiAffinity) > 0 { // the feasible nodes depend on other jobs
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

// RecordReturnedCapacity is called before a pass ends. The end of the pass undoes its transaction,
// which returns capacity to nodes. If RememberUnschedulable was called in this pass,
// RecordReturnedCapacity records a capacity gain for each of these nodes.
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
