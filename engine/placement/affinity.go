package placement

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// restrictToNear keeps only the nodes that are near a job that matches the affinity. If no matching job runs, but
// the job itself matches the affinity, all nodes remain. The job is then the first of its kind.
func (pl *Placer) restrictToNear(out *cluster.Set, sh *job.Shape, near ares.Near) {
	var found cluster.Set
	found.Resize(len(pl.Cluster.Nodes))
	pl.visitNodesNear(sh, near, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			found.Add(i)
		}
	})
	if found.Count == 0 && near.Of(sh.Labels) {
		return
	}
	for i := out.Next(0); i >= 0; i = out.Next(i + 1) {
		if !found.Has(i) {
			out.Remove(i)
		}
	}
}

// visitNodesNear finds the nodes near the jobs that match an affinity. It calls the function `visit` with
// the ranges of these nodes. Matching jobs belong to the same tenant, and they hold seats or were placed
// in this pass.
func (pl *Placer) visitNodesNear(sh *job.Shape, near ares.Near, visit func(lo, hi int)) {
	for _, e := range sh.Tenant.Active {
		if !near.Of(e.Job.Labels) {
			continue
		}
		for i := range e.Run.Attempts {
			for k := range e.Run.Attempts[i].Seats {
				if h := &e.Run.Attempts[i].Seats[k]; !h.State.Free() {
					pl.Cluster.VisitSpan(h.Node, near.Level, visit)
				}
			}
		}
	}
	for _, p := range pl.Placed {
		if p.Entry.Shape.Tenant == sh.Tenant && near.Of(p.Entry.Job.Labels) {
			for i := range p.Seats {
				pl.Cluster.VisitSpan(p.Seats[i].Node, near.Level, visit)
			}
		}
	}
}
