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
	barred       []*Window     // scratch of bars
	own          cluster.Set   // scratch of ownNodes
}

// SetReservation takes over a reservation's record, nil when it went.
func (w *Calendar) SetReservation(name string, r *ares.Reservation) {
	w.Windows = slices.DeleteFunc(w.Windows, func(v *Window) bool { return v.Name == name })
	if r == nil {
		return
	}
	v := &Window{Reservation: r, layout: -1}
	at, _ := slices.BinarySearchFunc(w.Windows, v, byBeginning)
	w.Windows = slices.Insert(w.Windows, at, v)
}

func byBeginning(a, b *Window) int {
	return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Name, b.Name))
}

// windowNodes is the nodes of a window, as the nodes are now.
func (w *Calendar) windowNodes(v *Window) *cluster.Set {
	look := func(n *cluster.Node) {
		var labels map[string]string
		if n.Record != nil {
			labels = n.Record.Labels
		}
		v.NodeSet.Put(n.Pos, v.Selects(labels, n.Place.In) || slices.Contains(v.Reservation.Nodes, n.ID))
	}
	switch {
	case v.layout != w.Cluster.Layout || w.Cluster.TraitChanges.HasGap(v.seen):
		v.layout = w.Cluster.Layout
		v.NodeSet.Resize(len(w.Cluster.Nodes))
		if len(v.Selector) > 0 || v.Domain != "" {
			for _, n := range w.Cluster.Nodes {
				look(n)
			}
		}
		for _, id := range v.Reservation.Nodes {
			if n := w.Cluster.NodesByID[id]; n != nil {
				v.NodeSet.Add(n.Pos)
			}
		}
	default:
		for _, at := range w.Cluster.TraitChanges.Since(v.seen) {
			look(w.Cluster.Nodes[at])
		}
	}
	v.seen = w.Cluster.TraitChanges.Count
	return &v.NodeSet
}

// SetWindowTime has windows held against what begins at a time.
func (w *Calendar) SetWindowTime(at time.Time) { w.At, w.Ignored = at, false }

// SetExpectedStay has windows held against how long a job is thought to stay.
func (w *Calendar) SetExpectedStay(e *job.Entry) {
	if len(w.Windows) > 0 && e != nil && e.Job != nil {
		w.setStay(e.ExpectedStay(w.At))
	}
}

// SetExpectedStayOf is stays of a job that the state does not know.
func (w *Calendar) SetExpectedStayOf(j *ares.Job) {
	w.setStay((&job.Entry{Job: j}).ExpectedStay(w.At))
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
func (w *Calendar) BlockingWindows(sh *job.Shape, of *cluster.Set) []*Window {
	w.barred = w.barred[:0]
	if w.Ignored {
		return nil
	}
	for _, v := range w.Windows {
		if v.Bars(w.At, w.ExpectedStay) && !v.Entitles(sh.Leaf.Tenant(), sh.Leaf.Name()) && w.windowNodes(v).Meets(of) {
			w.barred = append(w.barred, v)
		}
	}
	return w.barred
}

// WindowsBlocking is the windows that keep a job off nodes that it could use, those that
// end first before the others.
func (w *Calendar) WindowsBlocking(e *job.Entry) []*Window {
	if len(w.Windows) == 0 {
		return nil
	}
	w.SetExpectedStay(e)
	out := slices.Clone(w.BlockingWindows(e.Shape, &w.Cluster.RefreshFeasible(e.Shape.Request).Nodes))
	slices.SortFunc(out, func(a, b *Window) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Name, b.Name)) })
	return out
}

// WindowBlocking is a window that keeps the job whose turn it is off a node, nil for
// none.
func (w *Calendar) WindowBlocking(sh *job.Shape, n *cluster.Node) *Window {
	for _, v := range w.Windows {
		if v.Bars(w.At, w.ExpectedStay) && !v.Entitles(sh.Leaf.Tenant(), sh.Leaf.Name()) && w.windowNodes(v).Has(n.Pos) {
			return v
		}
	}
	return nil
}

// ReservedForOwn is the allowed nodes that are reserved for the shape's jobs now, and
// for nobody else: what is set aside for them is used first. It is false where
// there are none, or all are.
func (w *Calendar) ReservedForOwn(sh *job.Shape, allowed *cluster.Set) (*cluster.Set, bool) {
	found := false
	for _, v := range w.Windows {
		if v.StateAt(w.At) != ares.ReservationOpen || !v.Entitles(sh.Leaf.Tenant(), sh.Leaf.Name()) || !w.windowNodes(v).Meets(allowed) {
			continue
		}
		if !found {
			found = true
			w.own.Resize(len(w.Cluster.Nodes))
		}
		v.NodeSet.Common(allowed, 0, len(w.Cluster.Nodes), func(i int) bool {
			w.own.Add(i)
			return false
		})
	}
	return &w.own, found && w.own.Count < allowed.Count
}

// EvictFromWindows stops who is not entitled where a drained window is open, as long as a
// plan has room for it.
func (w *Calendar) EvictFromWindows(plan *ares.Plan) {
	if len(w.Windows) == 0 {
		return
	}
	stopped := map[ares.JobID]bool{}
	for i := range plan.Stop {
		stopped[plan.Stop[i].Job] = true
	}
	for _, v := range w.Windows {
		if !v.Drain || v.StateAt(plan.Now) != ares.ReservationOpen {
			continue
		}
		for _, e := range w.jobsToEvict(v) {
			switch {
			case stopped[e.ID]:
				continue
			case len(plan.Stop) >= config.MaxPlacings:
				plan.Wake = plan.Now
				return
			}
			stopped[e.ID] = true
			plan.Stop = append(plan.Stop, ares.Stopping{Job: e.ID, Stop: ares.Stop{Why: ares.StopDrain, By: "reservation " + v.Name, At: plan.Now}})
		}
	}
}

// jobsToEvict is who has to leave the nodes of a window, by ID.
func (w *Calendar) jobsToEvict(v *Window) []*job.Entry {
	var out []*job.Entry
	in := w.windowNodes(v)
	for i := in.Next(0); i >= 0; i = in.Next(i + 1) {
		n := w.Cluster.Nodes[i]
		for _, sit := range n.Occupants {
			if e := w.Jobs.Owner(sit); e.Job != nil && !v.Entitles(e.Job.Tenant, e.Job.Queue) && e.Run.Leaves(e.Job, n.ID, v.Force) {
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, func(a, b *job.Entry) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return slices.Compact(out)
}

// WakeAtWindows wakes the plan when the next window opens or closes.
func (w *Calendar) WakeAtWindows(plan *ares.Plan) {
	if len(w.Jobs.EntryByID) == 0 {
		return // nobody to wake for
	}
	for _, v := range w.Windows {
		for _, at := range [2]time.Time{v.From, v.Until} {
			if at.After(plan.Now) && (plan.Wake.IsZero() || at.Before(plan.Wake)) {
				plan.Wake = at
			}
		}
	}
}

// BlockText says why a window keeps the job whose turn it is off.
func (c *Calendar) BlockText(v *Window) string {
	if v.StateAt(c.At) == ares.ReservationOpen {
		return fmt.Sprintf("reserved %s until %s (reservation %s)", v.For(), v.Until.UTC().Format(time.RFC3339), v.Name)
	}
	why := "the job may run for " + c.ExpectedStay.Round(time.Second).String()
	if c.stayUnknown {
		why = fmt.Sprintf("how long the job runs is not known, so %s are assumed: max_runtime_minutes would tell", c.ExpectedStay)
	}
	return fmt.Sprintf("reserved %s from %s (reservation %s), and %s", v.For(), v.From.UTC().Format(time.RFC3339), v.Name, why)
}
