package placement

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/window"
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

// FeasibleAgain is reach of a shape that had some.
func (pl *Placer) FeasibleAgain(sh *job.Shape, r *cluster.Request) *cluster.Set {
	reach, _ := pl.FeasibleNodes(sh, r)
	return reach
}
