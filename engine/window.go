package engine

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

// window is an administrator's reservation with the nodes it is of, by position.
// They are found once, and again only where a node's nature has changed since.
type window struct {
	*ares.Reservation

	layout int // State.layout as of which positions are right
	seen   int // changes of natures that were taken in
	nodes  cluster.Set
}

// calendar is the reservations, and what they mean for the job whose turn it is.
// Who has none pays for nothing.
type calendar struct {
	cluster *cluster.Cluster
	jobs    *job.Table
	windows []*window // by their beginning, then name

	at           time.Time     // when what is placed would begin
	expectedStay time.Duration // how long the job would stay
	stayUnknown  bool          // nobody knows how long that is
	ignored      bool          // as if there were none
	barred       []*window     // scratch of bars
	own          cluster.Set   // scratch of ownNodes
}

// setReservation takes over a reservation's record, nil when it went.
func (w *calendar) setReservation(name string, r *ares.Reservation) {
	w.windows = slices.DeleteFunc(w.windows, func(v *window) bool { return v.Name == name })
	if r == nil {
		return
	}
	v := &window{Reservation: r, layout: -1}
	at, _ := slices.BinarySearchFunc(w.windows, v, byBeginning)
	w.windows = slices.Insert(w.windows, at, v)
}

func byBeginning(a, b *window) int {
	return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Name, b.Name))
}

// windowNodes is the nodes of a window, as the nodes are now.
func (w *calendar) windowNodes(v *window) *cluster.Set {
	look := func(n *cluster.Node) {
		var labels map[string]string
		if n.Record != nil {
			labels = n.Record.Labels
		}
		v.nodes.Put(n.Pos, v.Selects(labels, n.Place.In) || slices.Contains(v.Nodes, n.Id))
	}
	switch {
	case v.layout != w.cluster.Layout || w.cluster.TraitChanges.HasGap(v.seen):
		v.layout = w.cluster.Layout
		v.nodes.Resize(len(w.cluster.Nodes))
		if len(v.Selector) > 0 || v.Domain != "" {
			for _, n := range w.cluster.Nodes {
				look(n)
			}
		}
		for _, id := range v.Nodes {
			if n := w.cluster.NodesByID[id]; n != nil {
				v.nodes.Add(n.Pos)
			}
		}
	default:
		for _, at := range w.cluster.TraitChanges.Since(v.seen) {
			look(w.cluster.Nodes[at])
		}
	}
	v.seen = w.cluster.TraitChanges.Count
	return &v.nodes
}

// setWindowTime has windows held against what begins at a time.
func (w *calendar) setWindowTime(at time.Time) { w.at, w.ignored = at, false }

// setExpectedStay has windows held against how long a job is thought to stay.
func (w *calendar) setExpectedStay(e *job.Entry) {
	if len(w.windows) > 0 && e != nil && e.Job != nil {
		w.setStay(e.ExpectedStay(w.at))
	}
}

// setExpectedStayOf is stays of a job that the state does not know.
func (w *calendar) setExpectedStayOf(j *ares.Job) {
	w.setStay((&job.Entry{Job: j}).ExpectedStay(w.at))
}

// setStay is how long a job is taken to run: of unknown length so long as a
// reservation is thought of ahead.
func (c *calendar) setStay(late time.Duration) {
	if c.expectedStay, c.stayUnknown = late, late == job.Forever; c.stayUnknown {
		c.expectedStay = ares.ReservationLead
	}
}

// blockingWindows is the windows that keep the job whose turn it is off nodes of a set. It
// is good until the next one asks.
func (w *calendar) blockingWindows(sh *job.Shape, of *cluster.Set) []*window {
	w.barred = w.barred[:0]
	if w.ignored {
		return nil
	}
	for _, v := range w.windows {
		if v.Bars(w.at, w.expectedStay) && !v.Entitles(sh.Leaf.Tenant(), sh.Leaf.Name()) && w.windowNodes(v).Meets(of) {
			w.barred = append(w.barred, v)
		}
	}
	return w.barred
}

// windowsBlocking is the windows that keep a job off nodes that it could use, those that
// end first before the others.
func (w *calendar) windowsBlocking(e *job.Entry) []*window {
	if len(w.windows) == 0 {
		return nil
	}
	w.setExpectedStay(e)
	out := slices.Clone(w.blockingWindows(e.Shape, &w.cluster.RefreshFeasible(e.Shape.Request).Nodes))
	slices.SortFunc(out, func(a, b *window) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Name, b.Name)) })
	return out
}

// windowBlocking is a window that keeps the job whose turn it is off a node, nil for
// none.
func (w *calendar) windowBlocking(sh *job.Shape, n *cluster.Node) *window {
	for _, v := range w.windows {
		if v.Bars(w.at, w.expectedStay) && !v.Entitles(sh.Leaf.Tenant(), sh.Leaf.Name()) && w.windowNodes(v).Has(n.Pos) {
			return v
		}
	}
	return nil
}

// reservedForOwn is the allowed nodes that are reserved for the shape's jobs now, and
// for nobody else: what is set aside for them is used first. It is false where
// there are none, or all are.
func (w *calendar) reservedForOwn(sh *job.Shape, allowed *cluster.Set) (*cluster.Set, bool) {
	found := false
	for _, v := range w.windows {
		if v.StateAt(w.at) != ares.ReservationOpen || !v.Entitles(sh.Leaf.Tenant(), sh.Leaf.Name()) || !w.windowNodes(v).Meets(allowed) {
			continue
		}
		if !found {
			found = true
			w.own.Resize(len(w.cluster.Nodes))
		}
		v.nodes.Common(allowed, 0, len(w.cluster.Nodes), func(i int) bool {
			w.own.Add(i)
			return false
		})
	}
	return &w.own, found && w.own.Count < allowed.Count
}

// evictFromWindows stops who is not entitled where a drained window is open, as long as a
// plan has room for it.
func (w *calendar) evictFromWindows(plan *ares.Plan) {
	if len(w.windows) == 0 {
		return
	}
	stopped := map[ares.JobID]bool{}
	for i := range plan.Stop {
		stopped[plan.Stop[i].Job] = true
	}
	for _, v := range w.windows {
		if !v.Drain || v.StateAt(plan.Now) != ares.ReservationOpen {
			continue
		}
		for _, e := range w.jobsToEvict(v) {
			switch {
			case stopped[e.Id]:
				continue
			case len(plan.Stop) >= config.MaxPlacings:
				plan.Wake = plan.Now
				return
			}
			stopped[e.Id] = true
			plan.Stop = append(plan.Stop, ares.Stopping{Job: e.Id, Stop: ares.Stop{Why: ares.StopDrain, By: "reservation " + v.Name, At: plan.Now}})
		}
	}
}

// jobsToEvict is who has to leave the nodes of a window, by ID.
func (w *calendar) jobsToEvict(v *window) []*job.Entry {
	var out []*job.Entry
	in := w.windowNodes(v)
	for i := in.Next(0); i >= 0; i = in.Next(i + 1) {
		n := w.cluster.Nodes[i]
		for _, sit := range n.Occupants {
			if e := w.jobs.Owner(sit); e.Job != nil && !v.Entitles(e.Job.Tenant, e.Job.Queue) && e.Run.Leaves(e.Job, n.Id, v.Force) {
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, func(a, b *job.Entry) int { return strings.Compare(string(a.Id), string(b.Id)) })
	return slices.Compact(out)
}

// wakeAtWindows wakes the plan when the next window opens or closes.
func (w *calendar) wakeAtWindows(plan *ares.Plan) {
	if len(w.jobs.EntryByID) == 0 {
		return // nobody to wake for
	}
	for _, v := range w.windows {
		for _, at := range [2]time.Time{v.From, v.Until} {
			if at.After(plan.Now) && (plan.Wake.IsZero() || at.Before(plan.Wake)) {
				plan.Wake = at
			}
		}
	}
}

// blockText says why a window keeps the job whose turn it is off.
func (c *calendar) blockText(v *window) string {
	if v.StateAt(c.at) == ares.ReservationOpen {
		return fmt.Sprintf("reserved %s until %s (reservation %s)", v.For(), v.Until.UTC().Format(time.RFC3339), v.Name)
	}
	why := "the job may run for " + c.expectedStay.Round(time.Second).String()
	if c.stayUnknown {
		why = fmt.Sprintf("how long the job runs is not known, so %s are assumed: max_runtime_minutes would tell", c.expectedStay)
	}
	return fmt.Sprintf("reserved %s from %s (reservation %s), and %s", v.For(), v.From.UTC().Format(time.RFC3339), v.Name, why)
}
