package window

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
)

// Window is an administrator's reservation with the nodes it is of, by position.
// They are found once, and again only where a node's nature has changed since.
type Window struct {
	*ares.Reservation

	layout  int // State.layout as of which positions are right
	seen    int // changes of natures that were taken in
	NodeSet cluster.Set
}

// Calendar is the reservations, and what they mean for the job whose turn it is.
// Who has none pays for nothing.
type Calendar struct {
	Cluster *cluster.Cluster
	Jobs    *job.Table
	Windows []*Window // by their beginning, then name

	At           time.Time     // when what is placed would begin
	ExpectedStay time.Duration // how long the job would stay
	stayUnknown  bool          // nobody knows how long that is
	Ignored      bool          // as if there were none
	blockingScratch       []*Window     // scratch of bars
	ownScratch          cluster.Set   // scratch of ownNodes
}

// SetReservation takes over a reservation's record, nil when it went.
func (c *Calendar) SetReservation(name string, r *ares.Reservation) {
	c.Windows = slices.DeleteFunc(c.Windows, func(w *Window) bool { return w.Name == name })
	if r == nil {
		return
	}
	w := &Window{Reservation: r, layout: -1}
	at, _ := slices.BinarySearchFunc(c.Windows, w, byBeginning)
	c.Windows = slices.Insert(c.Windows, at, w)
}

func byBeginning(a, b *Window) int {
	return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Name, b.Name))
}

// windowNodes is the nodes of a window, as the nodes are now.
func (c *Calendar) windowNodes(w *Window) *cluster.Set {
	look := func(n *cluster.Node) {
		var labels map[string]string
		if n.Record != nil {
			labels = n.Record.Labels
		}
		w.NodeSet.Put(n.Pos, w.Selects(labels, n.Place.In) || slices.Contains(w.Reservation.Nodes, n.ID))
	}
	switch {
	case w.layout != c.Cluster.Layout || c.Cluster.TraitChanges.HasGap(w.seen):
		w.layout = c.Cluster.Layout
		w.NodeSet.Resize(len(c.Cluster.Nodes))
		if len(w.Selector) > 0 || w.Domain != "" {
			for _, n := range c.Cluster.Nodes {
				look(n)
			}
		}
		for _, id := range w.Reservation.Nodes {
			if n := c.Cluster.NodesByID[id]; n != nil {
				w.NodeSet.Add(n.Pos)
			}
		}
	default:
		for _, at := range c.Cluster.TraitChanges.Since(w.seen) {
			look(c.Cluster.Nodes[at])
		}
	}
	w.seen = c.Cluster.TraitChanges.Count
	return &w.NodeSet
}

// SetWindowTime has windows held against what begins at a time.
func (c *Calendar) SetWindowTime(at time.Time) { c.At, c.Ignored = at, false }

// SetExpectedStay has windows held against how long a job is thought to stay.
func (c *Calendar) SetExpectedStay(e *job.Entry) {
	if len(c.Windows) > 0 && e != nil && e.Job != nil {
		c.setStay(e.ExpectedStay(c.At))
	}
}

// SetExpectedStayOf is stays of a job that the state does not know.
func (c *Calendar) SetExpectedStayOf(j *ares.Job) {
	c.setStay((&job.Entry{Job: j}).ExpectedStay(c.At))
}

// setStay is how long a job is taken to run: of unknown length so long as a
// reservation is thought of ahead.
func (c *Calendar) setStay(late time.Duration) {
	if c.ExpectedStay, c.stayUnknown = late, late == job.Forever; c.stayUnknown {
		c.ExpectedStay = ares.ReservationLead
	}
}

// BlockingWindows is the windows that keep the job whose turn it is off nodes of a set. It
// is good until the next one asks.
func (c *Calendar) BlockingWindows(sh *job.Shape, of *cluster.Set) []*Window {
	c.blockingScratch = c.blockingScratch[:0]
	if c.Ignored {
		return nil
	}
	for _, w := range c.Windows {
		if w.Bars(c.At, c.ExpectedStay) && !w.Entitles(sh.Leaf.Tenant(), sh.Leaf.Name()) && c.windowNodes(w).Meets(of) {
			c.blockingScratch = append(c.blockingScratch, w)
		}
	}
	return c.blockingScratch
}

// WindowsBlocking is the windows that keep a job off nodes that it could use, those that
// end first before the others.
func (c *Calendar) WindowsBlocking(e *job.Entry) []*Window {
	if len(c.Windows) == 0 {
		return nil
	}
	c.SetExpectedStay(e)
	out := slices.Clone(c.BlockingWindows(e.Shape, &c.Cluster.RefreshFeasible(e.Shape.Request).Nodes))
	slices.SortFunc(out, func(a, b *Window) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Name, b.Name)) })
	return out
}

// WindowBlocking is a window that keeps the job whose turn it is off a node, nil for
// none.
func (c *Calendar) WindowBlocking(sh *job.Shape, n *cluster.Node) *Window {
	for _, w := range c.Windows {
		if w.Bars(c.At, c.ExpectedStay) && !w.Entitles(sh.Leaf.Tenant(), sh.Leaf.Name()) && c.windowNodes(w).Has(n.Pos) {
			return w
		}
	}
	return nil
}

// ReservedForOwn is the allowed nodes that are reserved for the shape's jobs now, and
// for nobody else: what is set aside for them is used first. It is false where
// there are none, or all are.
func (c *Calendar) ReservedForOwn(sh *job.Shape, allowed *cluster.Set) (*cluster.Set, bool) {
	found := false
	for _, w := range c.Windows {
		if w.StateAt(c.At) != ares.ReservationOpen || !w.Entitles(sh.Leaf.Tenant(), sh.Leaf.Name()) || !c.windowNodes(w).Meets(allowed) {
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

// EvictFromWindows stops who is not entitled where a drained window is open, as long as a
// plan has room for it.
func (c *Calendar) EvictFromWindows(plan *ares.Plan) {
	if len(c.Windows) == 0 {
		return
	}
	stopped := map[ares.JobID]bool{}
	for i := range plan.Stop {
		stopped[plan.Stop[i].Job] = true
	}
	for _, w := range c.Windows {
		if !w.Drain || w.StateAt(plan.Now) != ares.ReservationOpen {
			continue
		}
		for _, e := range c.jobsToEvict(w) {
			switch {
			case stopped[e.ID]:
				continue
			case len(plan.Stop) >= config.MaxPlacings:
				plan.Wake = plan.Now
				return
			}
			stopped[e.ID] = true
			plan.Stop = append(plan.Stop, ares.Stopping{Job: e.ID, Stop: ares.Stop{Why: ares.StopDrain, By: "reservation " + w.Name, At: plan.Now}})
		}
	}
}

// jobsToEvict is who has to leave the nodes of a window, by ID.
func (c *Calendar) jobsToEvict(w *Window) []*job.Entry {
	var out []*job.Entry
	in := c.windowNodes(w)
	for i := in.Next(0); i >= 0; i = in.Next(i + 1) {
		n := c.Cluster.Nodes[i]
		for _, sit := range n.Occupants {
			if e := c.Jobs.Owner(sit); e.Job != nil && !w.Entitles(e.Job.Tenant, e.Job.Queue) && e.Run.Leaves(e.Job, n.ID, w.Force) {
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, func(a, b *job.Entry) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return slices.Compact(out)
}

// WakeAtWindows wakes the plan when the next window opens or closes.
func (c *Calendar) WakeAtWindows(plan *ares.Plan) {
	if len(c.Jobs.EntryByID) == 0 {
		return // nobody to wake for
	}
	for _, w := range c.Windows {
		for _, at := range [2]time.Time{w.From, w.Until} {
			if at.After(plan.Now) && (plan.Wake.IsZero() || at.Before(plan.Wake)) {
				plan.Wake = at
			}
		}
	}
}

// BlockText says why a window keeps the job whose turn it is off.
func (c *Calendar) BlockText(w *Window) string {
	if w.StateAt(c.At) == ares.ReservationOpen {
		return fmt.Sprintf("reserved %s until %s (reservation %s)", w.For(), w.Until.UTC().Format(time.RFC3339), w.Name)
	}
	why := "the job may run for " + c.ExpectedStay.Round(time.Second).String()
	if c.stayUnknown {
		why = fmt.Sprintf("how long the job runs is not known, so %s are assumed: max_runtime_minutes would tell", c.ExpectedStay)
	}
	return fmt.Sprintf("reserved %s from %s (reservation %s), and %s", w.For(), w.From.UTC().Format(time.RFC3339), w.Name, why)
}
