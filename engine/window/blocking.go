package window

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// BlockingWindows returns the windows that block a job with the given job.Shape on at
// least one node of a set. The result is valid until the next call.
func (c *Calendar) BlockingWindows(sh *job.Shape, of *cluster.Set, stay Stay) []*Window {
	c.blockingScratch = c.blockingScratch[:0]
	if stay.Ignore {
		return nil
	}
	for _, w := range c.Windows {
		if w.Bars(stay.At, stay.Lasts) && !w.Entitles(sh.Leaf.Tenant(), sh.Leaf.Name()) && c.windowNodes(w).Meets(of) {
			c.blockingScratch = append(c.blockingScratch, w)
		}
	}
	return c.blockingScratch
}

// WindowsBlocking returns the windows that block a job on at least one feasible node.
// The windows are sorted by their end.
func (c *Calendar) WindowsBlocking(e *job.Entry, stay Stay) []*Window {
	if len(c.Windows) == 0 {
		return nil
	}
	out := slices.Clone(c.BlockingWindows(e.Shape, &c.Cluster.RefreshFeasible(e.Shape.Request).Nodes, stay))
	slices.SortFunc(out, func(a, b *Window) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Name, b.Name)) })
	return out
}

// WindowBlocking returns a window that blocks a job with the given job.Shape on a node, or nil if there is none.
func (c *Calendar) WindowBlocking(sh *job.Shape, n *cluster.Node, stay Stay) *Window {
	for _, w := range c.Windows {
		if w.Bars(stay.At, stay.Lasts) && !w.Entitles(sh.Leaf.Tenant(), sh.Leaf.Name()) && c.windowNodes(w).Has(n.Pos) {
			return w
		}
	}
	return nil
}

// ReservedForOwn returns those of the allowed nodes that an open window reserves for the job's own queue. A job
// uses these reserved nodes before other nodes. ReservedForOwn returns false if none of the allowed nodes is
// reserved for this queue, or if all of them are reserved for it.
func (c *Calendar) ReservedForOwn(sh *job.Shape, allowed *cluster.Set, at time.Time) (*cluster.Set, bool) {
	found := false
	for _, w := range c.Windows {
		if w.StateAt(at) != ares.ReservationOpen || !w.Entitles(sh.Leaf.Tenant(), sh.Leaf.Name()) || !c.windowNodes(w).Meets(allowed) {
			continue
		}
		if !found {
			found = true
			c.ownScratch.Resize(len(c.Cluster.Nodes))
		}
		w.NodeSet.Common(allowed, 0, len(c.Cluster.Nodes), func(i int) bool {
			c.ownScratch.Add(i)
			return false
		})
	}
	return &c.ownScratch, found && c.ownScratch.Count < allowed.Count
}

// BlockText describes why the window blocks a job.
func (w *Window) BlockText(stay Stay) ares.Text {
	if w.StateAt(stay.At) == ares.ReservationOpen {
		return ares.Textf("reserved %s until %s (%s)", w.For(), w.Until.UTC().Format(time.RFC3339), w.Ref())
	}
	why := "the job may run for " + stay.Lasts.Round(time.Second).String()
	if stay.Unknown {
		why = fmt.Sprintf("the job's runtime is not known, so %s are assumed: set max_runtime_minutes", stay.Lasts)
	}
	return ares.Textf("reserved %s from %s (%s), and %s", w.For(), w.From.UTC().Format(time.RFC3339), w.Ref(), why)
}
