package placement

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// restrictToNear leaves only nodes near jobs of a kind. Where none runs yet, the first of
// its own kind may go anywhere.
func (pl *Placer) restrictToNear(out *cluster.Set, sh *job.Shape, near ares.Near) {
	var there cluster.Set
	there.Resize(len(pl.Cluster.Nodes))
	pl.visitNodesNear(sh, near, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			there.Add(i)
		}
	})
	if there.Count == 0 && near.Of(sh.Labels) {
		return
	}
	for i := out.Next(0); i >= 0; i = out.Next(i + 1) {
		if !there.Has(i) {
			out.Remove(i)
		}
	}
}

// visitNodesNear tells the ranges of nodes that are near running jobs of the
// shape's tenant with the labels, those this decision has placed included.
func (pl *Placer) visitNodesNear(sh *job.Shape, near ares.Near, tell func(lo, hi int)) {
	for _, e := range sh.Tenant.Active {
		if !near.Of(e.Job.Labels) {
			continue
		}
		for i := range e.Run.Attempts {
			for k := range e.Run.Attempts[i].Seats {
				if h := &e.Run.Attempts[i].Seats[k]; !h.State.Free() {
					pl.Cluster.VisitSpan(h.Node, near.Level, tell)
				}
			}
		}
	}
	for _, p := range pl.Placed {
		if p.Entry.Shape.Tenant == sh.Tenant && near.Of(p.Entry.Job.Labels) {
			for i := range p.Seats {
				pl.Cluster.VisitSpan(p.Seats[i].Node, near.Level, tell)
			}
		}
	}
}
