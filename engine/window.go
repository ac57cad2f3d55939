package engine

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// window is an administrator's reservation with the nodes it is of, by position.
// They are found once, and again only where a node's nature has changed since.
type window struct {
	*ares.Reservation

	layout int // State.layout as of which positions are right
	seen   int // changes of natures that were taken in
	nodes  set
}

// calendar is the reservations, and what they mean for the job whose turn it is.
// Who has none pays for nothing.
type calendar struct {
	windows []*window // by their beginning, then name

	at     time.Time     // when what is placed would begin
	lasts  time.Duration // how long the job would stay
	guess  bool          // nobody knows how long that is
	off    bool          // as if there were none
	barred []*window     // scratch of bars
	own    set           // scratch of ownNodes
}

// reserved takes over a reservation's record, nil when it went.
func (s *State) reserved(name string, r *ares.Reservation) {
	c := &s.calendar
	c.windows = slices.DeleteFunc(c.windows, func(v *window) bool { return v.Name == name })
	if r == nil {
		return
	}
	v := &window{Reservation: r, layout: -1}
	at, _ := slices.BinarySearchFunc(c.windows, v, byBeginning)
	c.windows = slices.Insert(c.windows, at, v)
}

func byBeginning(a, b *window) int {
	return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Name, b.Name))
}

// Reservations yields the record of every reservation, by its beginning, then
// name. They must not be changed.
func (s *State) Reservations() iter.Seq[*ares.Reservation] {
	return func(yield func(*ares.Reservation) bool) {
		for _, v := range s.calendar.windows {
			if !yield(v.Reservation) {
				return
			}
		}
	}
}

// sited is the nodes of a window, as the nodes are now.
func (s *State) sited(v *window) *set {
	look := func(n *node) {
		var labels map[string]string
		if n.record != nil {
			labels = n.record.Labels
		}
		v.nodes.put(n.at, v.Selects(labels, n.place.In) || slices.Contains(v.Nodes, n.id))
	}
	switch {
	case v.layout != s.layout || s.natures.lost(v.seen):
		v.layout = s.layout
		v.nodes.resize(len(s.nodes))
		if len(v.Selector) > 0 || v.Domain != "" {
			for _, n := range s.nodes {
				look(n)
			}
		}
		for _, id := range v.Nodes {
			if n := s.byID[id]; n != nil {
				v.nodes.add(n.at)
			}
		}
	default:
		for _, at := range s.natures.since(v.seen) {
			look(s.nodes[at])
		}
	}
	v.seen = s.natures.count
	return &v.nodes
}

// dated has windows held against what begins at a time.
func (s *State) dated(at time.Time) { s.calendar.at, s.calendar.off = at, false }

// stays has windows held against how long a job is thought to stay.
func (s *State) stays(e *entry) {
	if len(s.calendar.windows) > 0 && e != nil && e.job != nil {
		s.calendar.stay(e.stay(s.calendar.at))
	}
}

// staysNew is stays of a job that the state does not know.
func (s *State) staysNew(j *ares.Job) {
	s.calendar.stay((&entry{job: j}).stay(s.calendar.at))
}

// stay is how long the job may hold its place, of ten like it nine; never when
// nobody knows. Its limit ends every attempt. A guess from no runs is no
// knowledge: people plan by windows.
func (e *entry) stay(now time.Time) time.Duration {
	limit := e.job.MaxRuntime()
	f := e.forecast
	switch {
	case f != nil && f.Samples > 0:
		late := max(f.P50, f.P90)
		if late = outlived(late, late, e.done(now)); limit > 0 {
			late = min(late, limit)
		}
		return late
	case limit > 0:
		return limit
	}
	return never
}

// stay is how long a job is taken to run: of unknown length so long as a
// reservation is thought of ahead.
func (c *calendar) stay(late time.Duration) {
	if c.lasts, c.guess = late, late == never; c.guess {
		c.lasts = ares.ReservationLead
	}
}

// bars is the windows that keep the job whose turn it is off nodes of a set. It
// is good until the next one asks.
func (s *State) bars(sh *shape, of *set) []*window {
	c := &s.calendar
	c.barred = c.barred[:0]
	if c.off {
		return nil
	}
	for _, v := range c.windows {
		if v.Bars(c.at, c.lasts) && !v.Entitles(sh.leaf.Tenant(), sh.leaf.Queue()) && s.sited(v).meets(of) {
			c.barred = append(c.barred, v)
		}
	}
	return c.barred
}

// shutFrom is the windows that keep a job off nodes that it could use, those that
// end first before the others.
func (s *State) shutFrom(e *entry) []*window {
	if len(s.calendar.windows) == 0 {
		return nil
	}
	s.stays(e)
	out := slices.Clone(s.bars(e.shape, &s.sift(e.shape.want).nodes))
	slices.SortFunc(out, func(a, b *window) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Name, b.Name)) })
	return out
}

// barredBy is a window that keeps the job whose turn it is off a node, nil for
// none.
func (s *State) barredBy(sh *shape, n *node) *window {
	c := &s.calendar
	for _, v := range c.windows {
		if v.Bars(c.at, c.lasts) && !v.Entitles(sh.leaf.Tenant(), sh.leaf.Queue()) && s.sited(v).has(n.at) {
			return v
		}
	}
	return nil
}

// ownNodes is the allowed nodes that are reserved for the shape's jobs now, and
// for nobody else: what is set aside for them is used first. It is false where
// there are none, or all are.
func (s *State) ownNodes(sh *shape, allowed *set) (*set, bool) {
	c := &s.calendar
	found := false
	for _, v := range c.windows {
		if v.StateAt(c.at) != ares.ReservationOpen || !v.Entitles(sh.leaf.Tenant(), sh.leaf.Queue()) || !s.sited(v).meets(allowed) {
			continue
		}
		if !found {
			found = true
			c.own.resize(len(s.nodes))
		}
		v.nodes.common(allowed, 0, len(s.nodes), func(i int) bool {
			c.own.add(i)
			return false
		})
	}
	return &c.own, found && c.own.count < allowed.count
}

// shutOut says of a job that found no place whether reservations alone keep it
// off: it would fit without them. Unless its length is nothing to it, others of
// its shape may be shorter, and it is passed over alone.
func (t *try) shutOut(e *entry, members int, ban uint64) bool {
	s := t.state
	c := &s.calendar
	if len(c.windows) == 0 || len(s.bars(e.shape, &s.sift(s.without(e.shape.want, ban)).nodes)) == 0 {
		return false
	}
	fits := func() bool {
		m := mark(len(t.taken))
		_, ok := t.seat(e.shape, members, ban, e)
		t.undo(m)
		return ok
	}
	c.off = true
	open := fits()
	c.off = false
	if !open {
		return false
	}
	t.shut = true
	lasts := c.lasts
	c.lasts = 0
	if t.keptOff = fits(); t.keptOff {
		e.shape.shut, e.shape.shutFor = s.sight, lasts
	}
	c.lasts = lasts
	return true
}

// outlasts says whether one of the job's shape that stays no longer was shut out
// in this decision already.
func (t *try) outlasts(e *entry) bool {
	s := t.state
	if e.shape.shut != s.sight || t.supposing {
		return false
	}
	s.stays(e)
	if s.calendar.lasts < e.shape.shutFor {
		return false
	}
	t.keptOff, t.shut = true, true
	return true
}

// shutOff is the short refusal of a job that would fit.
var shutOff = []ares.Blocker{{Kind: kindReserved, Detail: "the nodes it would fit on are reserved, or will be before it is thought to end"}}

// evict stops who is not entitled where a drained window is open, as long as a
// plan has room for it.
func (s *State) evict(plan *ares.Plan) {
	if len(s.calendar.windows) == 0 {
		return
	}
	stopped := map[ares.JobID]bool{}
	for i := range plan.Stop {
		stopped[plan.Stop[i].Job] = true
	}
	for _, v := range s.calendar.windows {
		if !v.Drain || v.StateAt(plan.Now) != ares.ReservationOpen {
			continue
		}
		for _, e := range s.intruders(v) {
			switch {
			case stopped[e.id]:
				continue
			case len(plan.Stop) >= MaxPlacings:
				plan.Wake = plan.Now
				return
			}
			stopped[e.id] = true
			plan.Stop = append(plan.Stop, ares.Stopping{Job: e.id, Stop: ares.Stop{Why: ares.StopDrain, By: "reservation " + v.Name, At: plan.Now}})
		}
	}
}

// intruders is who has to leave the nodes of a window, by ID.
func (s *State) intruders(v *window) []*entry {
	var out []*entry
	in := s.sited(v)
	for i := in.next(0); i >= 0; i = in.next(i + 1) {
		n := s.nodes[i]
		for _, sit := range n.sitters {
			if e := sit.entry; e.job != nil && !v.Entitles(e.job.Tenant, e.job.Queue) && e.run.Leaves(e.job, n.id, v.Force) {
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, func(a, b *entry) int { return strings.Compare(string(a.id), string(b.id)) })
	return slices.Compact(out)
}

// chime wakes the plan when the next window opens or closes.
func (s *State) chime(plan *ares.Plan) {
	if len(s.jobs) == 0 {
		return // nobody to wake for
	}
	for _, v := range s.calendar.windows {
		for _, at := range [2]time.Time{v.From, v.Until} {
			if at.After(plan.Now) && (plan.Wake.IsZero() || at.Before(plan.Wake)) {
				plan.Wake = at
			}
		}
	}
}

// words says why a window keeps the job whose turn it is off.
func (c *calendar) words(v *window) string {
	if v.StateAt(c.at) == ares.ReservationOpen {
		return fmt.Sprintf("reserved %s until %s (reservation %s)", v.For(), v.Until.UTC().Format(time.RFC3339), v.Name)
	}
	why := "the job may run for " + c.lasts.Round(time.Second).String()
	if c.guess {
		why = fmt.Sprintf("how long the job runs is not known, so %s are assumed: max_runtime_minutes would tell", c.lasts)
	}
	return fmt.Sprintf("reserved %s from %s (reservation %s), and %s", v.For(), v.From.UTC().Format(time.RFC3339), v.Name, why)
}
