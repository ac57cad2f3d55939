package engine

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topo"
)

// Place answers for one job, known to the state or not, whether it may run now
// and where: its seats, or everything that keeps it waiting. It does what
// Decide does with each waiting job, and changes nothing.
func Place(s *State, job *ares.Job, now time.Time) (ares.Placing, *ares.Refusal) {
	s.ready()
	e, sh := s.jobs[job.ID], s.shapeOf(job)
	if waits := s.waits(e, sh, now); len(waits) == 0 {
		t := s.begin()
		members := s.allowed(sh)
		if pl, ok := t.place(sh, members, e); ok {
			t.backTo(0)
			pl.Job = job.ID
			return pl, nil
		}
		t.backTo(0)
	}
	return ares.Placing{}, &ares.Refusal{Job: job.ID, Blockers: s.blockers(e, sh, job.GPUModel, now)}
}

// place takes seats for the job's members, as many as fit between the least it
// can start with and most, or takes nothing. e is the job's entry, nil for one
// the state does not know.
func (t *try) place(sh *shape, most int, e *entry) (ares.Placing, bool) {
	s := t.state
	allowed, ok := s.reach(sh)
	if !ok {
		return ares.Placing{}, false
	}
	if sh.members == 1 {
		n := s.single(sh, allowed)
		if n == nil {
			return ares.Placing{}, false
		}
		cost := s.rank(sh.want).costs[n.flock.id]
		naive := n.naive(sh.want)
		seat := t.sit(n, sh.want, 0)
		s.move(n)
		seats := []ares.Seat{seat}
		return ares.Placing{Seats: seats, Score: s.score(seats), Merit: s.merit(sh, seats, cost, naive)}, true
	}
	return t.gang(sh, most, e, allowed)
}

// single finds the node for a job of one member: in the domain it prefers, then
// where nothing speaks against, then anywhere it may go.
func (s *State) single(sh *shape, allowed *set) *node {
	w := sh.want
	liked := &w.filter.liked
	if allowed != &w.filter.nodes || !w.filter.soft {
		liked = allowed // every allowed node is as welcome
	}
	if lo, hi, ok := s.places.Domain(sh.wish.domain); ok && sh.wish.domain != "" {
		for _, in := range []*set{liked, allowed} {
			if n := s.seek(w, in, lo, hi); n != nil {
				return n
			}
		}
	}
	if n := s.seek(w, liked, 0, len(s.nodes)); n != nil || liked == allowed {
		return n
	}
	return s.seek(w, allowed, 0, len(s.nodes))
}

// gang takes seats for several members: the domain is chosen by the topology,
// the devices by their links. Ranks follow the order of the nodes.
func (t *try) gang(sh *shape, most int, e *entry, allowed *set) (ares.Placing, bool) {
	s := t.state
	ask := topo.Ask{
		Members: most, Min: sh.least, Devices: sh.want.gpus, Required: sh.wish.required, Preferred: sh.wish.preferred,
		PreferredDomain: sh.wish.domain, Strategy: sh.wish.strategy, Gbps: sh.wish.gbps, LatencySensitive: sh.wish.latency,
	}
	if e != nil && e.run != nil {
		ask.Before = s.before(e)
	}
	view := gangView{s, sh, s.rank(sh.want), allowed}
	picks, parts, ok := s.places.Choose(&ask, view)
	if !ok {
		return ares.Placing{}, false
	}
	slices.SortFunc(picks, func(a, b topo.Pick) int { return a.Node - b.Node })
	total := 0
	for _, p := range picks {
		total += p.Members
	}
	var cost int64
	naive := s.firstFit(sh, allowed, total)
	seats := make([]ares.Seat, 0, total)
	for _, p := range picks {
		n := s.nodes[p.Node]
		cost += view.ranks.costs[n.flock.id] * int64(p.Members)
		for range p.Members {
			seats = append(seats, t.sit(n, sh.want, len(seats)))
		}
		s.move(n)
	}
	m := s.merit(sh, seats, cost, naive)
	m.Availability, m.Alignment, m.Utilization, m.History, m.Weighted = parts.Availability, parts.Alignment, parts.Utilization, parts.History, parts.Weighted
	return ares.Placing{Seats: seats, Score: s.score(seats), Merit: m}, true
}

// before is where the job's last attempt was.
func (s *State) before(e *entry) []int {
	last := e.run.Last()
	if last == nil {
		return nil
	}
	var at []int
	for i := range last.Seats {
		if n := s.byID[last.Seats[i].Node]; n != nil {
			at = append(at, n.at)
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// gangView is what the topology may ask about the nodes for one gang.
type gangView struct {
	state   *State
	shape   *shape
	ranks   *ranking
	allowed *set
}

// Room is how many members the node can take now.
func (v gangView) Room(at int) int {
	n := v.state.nodes[at]
	if n.flock == nil || !v.allowed.has(at) {
		return 0
	}
	room := n.room(v.shape.want)
	if room > 1 && v.shape.repelsItself() {
		return 1
	}
	return room
}

// Waste is what a member there would strand.
func (v gangView) Waste(at int) int {
	n := v.state.nodes[at]
	if n.flock == nil {
		return 0
	}
	if f := &v.shape.want.filter; f.soft && !f.liked.has(at) {
		return warmCost + int(v.ranks.costs[n.flock.id])
	}
	return int(v.ranks.costs[n.flock.id])
}

// History is how the node has done; nothing speaks against any yet.
func (v gangView) History(int) int { return topo.FullMarks }
