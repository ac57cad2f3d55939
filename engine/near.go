package engine

import (
	ares "github.com/ares-scheduler/ares"
)

// feasibleNodes is the nodes the shape's members may go to, however busy. It is false
// when there are none.
func (pl *Placer) feasibleNodes(sh *shape, w *request) (*set, bool) {
	f := pl.cluster.refreshFeasible(w)
	var barred []*window
	if len(pl.windows.windows) > 0 {
		barred = pl.windows.blockingWindows(sh, &f.nodes)
	}
	if len(sh.affinity)+len(sh.antiAffinity)+len(barred) == 0 {
		return &f.nodes, f.nodes.count > 0
	}
	out := &pl.feasibleScratch
	out.copy(&f.nodes)
	for _, v := range barred {
		out.subtract(&v.nodes)
	}
	for _, near := range sh.affinity {
		pl.keepNear(out, sh, near)
	}
	for _, apart := range sh.antiAffinity {
		pl.nodesNear(sh, apart, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				out.remove(i)
			}
		})
	}
	return out, out.count > 0
}

// keepNear leaves only nodes near jobs of a kind. Where none runs yet, the first of
// its own kind may go anywhere.
func (pl *Placer) keepNear(out *set, sh *shape, near ares.Near) {
	var there set
	there.resize(len(pl.cluster.nodes))
	pl.nodesNear(sh, near, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			there.add(i)
		}
	})
	if there.count == 0 && near.Of(sh.labels) {
		return
	}
	for i := out.next(0); i >= 0; i = out.next(i + 1) {
		if !there.has(i) {
			out.remove(i)
		}
	}
}

// nodesNear tells the ranges of nodes that are near running jobs of the
// shape's tenant with the labels, those this decision has placed included.
func (pl *Placer) nodesNear(sh *shape, near ares.Near, tell func(lo, hi int)) {
	for _, e := range sh.tenant.active {
		if !near.Of(e.job.Labels) {
			continue
		}
		for i := range e.run.Attempts {
			for k := range e.run.Attempts[i].Seats {
				if h := &e.run.Attempts[i].Seats[k]; !h.State.Free() {
					pl.cluster.visitSpan(h.Node, near.Level, tell)
				}
			}
		}
	}
	for _, p := range pl.placed {
		if p.entry.shape.tenant == sh.tenant && near.Of(p.entry.job.Labels) {
			for i := range p.seats {
				pl.cluster.visitSpan(p.seats[i].Node, near.Level, tell)
			}
		}
	}
}
