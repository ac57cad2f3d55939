package placement

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/window"

	ares "github.com/ares-scheduler/ares"
)

// FeasibleNodes is the nodes the shape's members may go to, however busy. It is false
// when there are none.
func (pl *Placer) FeasibleNodes(sh *job.Shape, r *cluster.Request) (*cluster.Set, bool) {
	f := pl.Cluster.RefreshFeasible(r)
	var barred []*window.Window
	if len(pl.Windows.Windows) > 0 {
		barred = pl.Windows.BlockingWindows(sh, &f.Nodes)
	}
	if len(sh.Affinity)+len(sh.AntiAffinity)+len(barred) == 0 {
		return &f.Nodes, f.Nodes.Count > 0
	}
	out := &pl.FeasibleScratch
	out.Copy(&f.Nodes)
	for _, v := range barred {
		out.Subtract(&v.NodeSet)
	}
	for _, near := range sh.Affinity {
		pl.restrictToNear(out, sh, near)
	}
	for _, apart := range sh.AntiAffinity {
		pl.visitNodesNear(sh, apart, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				out.Remove(i)
			}
		})
	}
	return out, out.Count > 0
}

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
