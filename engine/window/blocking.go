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

// BlockingWindows returns the windows that block a job of the shape on nodes of a set.
// The result is valid until the next call.
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

// WindowsBlocking returns the windows that block a job on nodes that are feasible for
// it, sorted by their end.
func (c *Calendar) WindowsBlocking(e *job.Entry, stay Stay) []*Window {
	if len(c.Windows) == 0 {
		return nil
	}
	out := slices.Clone(c.BlockingWindows(e.Shape, &c.Cluster.RefreshFeasible(e.Shape.Request).Nodes, stay))
	slices.SortFunc(out, func(a, b *Window) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Name, b.Name)) })
	return out
}

// WindowBlocking returns a window that blocks a job of the shape on a node; nil for none.
func (c *Calendar) WindowBlocking(sh *job.Shape, n *cluster.Node, stay Stay) *Window {
	for _, w := range c.Windows {
		if w.Bars(stay.At, stay.Lasts) && !w.Entitles(sh.Leaf.Tenant(), sh.Leaf.Name()) && c.windowNodes(w).Has(n.Pos) {
			return w
		}
	}
	return nil
}

// ReservedForOwn returns the allowed nodes that an open window reserves for jobs of
// the shape's queue, because a job uses reserved nodes first. It is false when there
// are no such nodes, or when all allowed nodes are.
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

// BlockText says why the window blocks a job.
func (w *Window) BlockText(stay Stay) string {
	if w.StateAt(stay.At) == ares.ReservationOpen {
		return fmt.Sprintf("reserved %s until %s (reservation %s)", w.For(), w.Until.UTC().Format(time.RFC3339), w.Name)
	}
	why := "the job may run for " + stay.Lasts.Round(time.Second).String()
	if stay.Unknown {
		why = fmt.Sprintf("how long the job runs is not known, so %s are assumed: max_runtime_minutes would tell", stay.Lasts)
	}
	return fmt.Sprintf("reserved %s from %s (reservation %s), and %s", w.For(), w.From.UTC().Format(time.RFC3339), w.Name, why)
}
