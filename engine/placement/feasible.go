package placement

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/window"
)

// FeasibleNodes returns the nodes that the members of a job may use. The result depends on the filters,
// reservations and affinity, but not on allocations. If no node is feasible, FeasibleNodes returns false. The
// returned set is valid until the next call.
func (pl *Placer) FeasibleNodes(sh *job.Shape, r *cluster.Request, stay window.Stay) (*cluster.Set, bool) {
	f := pl.Cluster.RefreshFeasible(r)
	var blocking []*window.Window
	if len(pl.Windows.Windows) > 0 {
		blocking = pl.Windows.BlockingWindows(sh, &f.Nodes, stay)
	}
	if len(sh.Affinity)+len(sh.AntiAffinity)+len(blocking) == 0 {
		return &f.Nodes, f.Nodes.Count > 0
	}
	out := &pl.FeasibleScratch
	out.Copy(&f.Nodes)
	for _, w := range blocking {
		out.Subtract(&w.NodeSet)
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

// FeasibleAgain returns the same nodes as FeasibleNodes, for a job that is known to have feasible nodes.
func (pl *Placer) FeasibleAgain(sh *job.Shape, r *cluster.Request, stay window.Stay) *cluster.Set {
	nodes, _ := pl.FeasibleNodes(sh, r, stay)
	return nodes
}
