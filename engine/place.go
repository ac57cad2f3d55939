package engine

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// Place answers for one job, known to the state or not, whether it may run now
// and where: its seats, or everything that keeps it waiting. It does what
// Decide does with each waiting job, and changes nothing.
func Place(s *State, job *ares.Job, now time.Time) (ares.Placing, *ares.Refusal) {
	s.ready()
	s.dated(now)
	s.staysNew(job)
	e, sh := s.jobs[job.ID], s.shapes.like(s.shapeOf(job))
	if waits := s.waits(e, sh, now); len(waits) == 0 {
		t := s.begin()
		t.uphold(&ares.Plan{Now: now}, e, nil)
		t.keepTogether(now, e)
		t.keepPlaces(now, e)
		s.drawFor(job.ID, 0)
		members, ban := s.allowed(sh, now)
		pl, ok := ares.Placing{}, false
		if members > 0 {
			pl, ok = t.place(sh, members, ban, e)
		}
		t.letGo()
		t.end()
		if ok {
			pl.Job = job.ID
			return pl, nil
		}
	}
	blockers, _ := s.blockers(e, sh, job.GPUModel, now)
	return ares.Placing{}, &ares.Refusal{Job: job.ID, Blockers: blockers}
}

// place takes seats for the job's members, as many as fit between the least it
// can start with and most, or takes nothing. e is the job's entry, nil for one
// the state does not know.
func (t *try) place(sh *shape, most int, ban uint64, e *entry) (ares.Placing, bool) {
	t.state.stays(e)
	return t.seat(sh, most, ban, e)
}

// seat is place for as long a stay as was said before.
func (t *try) seat(sh *shape, most int, ban uint64, e *entry) (ares.Placing, bool) {
	s := t.state
	w := s.without(sh.want, ban)
	allowed, ok := s.reach(sh, w)
	if !ok || s.overLeaf(w) {
		return ares.Placing{}, false
	}
	if len(s.calendar.windows) > 0 {
		if own, some := s.ownNodes(sh, allowed); some {
			if p, seated := t.among(sh, w, most, e, own); seated {
				return p, true
			}
		}
	}
	return t.among(sh, w, most, e, allowed)
}

// among is seat on the allowed nodes.
func (t *try) among(sh *shape, w *want, most int, e *entry, allowed *set) (ares.Placing, bool) {
	if sh.members == 1 {
		return t.lone(sh, w, allowed)
	}
	return t.gang(sh, w, most, e, allowed)
}

// overLeaf says whether one member alone asks for more devices than one job may
// take of a leaf.
func (s *State) overLeaf(w *want) bool {
	return s.topology.MaxGPUsPerLeaf > 0 && w.gpus > s.topology.MaxGPUsPerLeaf
}

// lone takes the seat of a job of one member.
func (t *try) lone(sh *shape, w *want, allowed *set) (ares.Placing, bool) {
	s := t.state
	if allowed == &w.taste.filter.nodes && w.failed == s.sight && !t.supposing {
		return ares.Placing{}, false // what one asked in vain in this decision, the next asks in vain
	}
	n := s.single(sh, w, allowed)
	if n == nil {
		if allowed == &w.taste.filter.nodes && !t.supposing {
			w.failed = s.sight
		}
		return ares.Placing{}, false
	}
	m := ares.Merit{Level: ares.LevelNode, Domain: n.id}
	if !w.passing {
		m.Stranded = stranding(s.cost(w, n) - n.blame)
	}
	if w.gpus > 1 {
		m.FirstFit = n.profile.links.Bandwidth(n.profile.links.FirstFit(w.mask(n.profile)&n.free, w.gpus))
	}
	before := n.free
	seats := []ares.Seat{t.sit(n, w, 0)}
	if w.gpus > 1 {
		m.Bandwidth = n.profile.links.Bandwidth(before &^ n.free)
	}
	s.move(n)
	return ares.Placing{Seats: seats, Score: s.score(seats), Merit: m}, true
}

// single finds the node for a job of one member: in the domain it prefers, then
// where nothing speaks against, then anywhere it may go.
func (s *State) single(sh *shape, w *want, allowed *set) *node {
	liked := allowed
	if w.taste.filter.soft {
		liked = s.welcome(&w.taste.filter, allowed)
	}
	for _, in := range [2]*set{liked, allowed} {
		for i := 0; ; i++ {
			lo, hi, ok := s.places.Domain(sh.wish.domain, i)
			if !ok {
				break
			}
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
// the devices by their links. Ranks follow the order of the nodes, but for those
// that can stay where they were.
func (t *try) gang(sh *shape, w *want, most int, e *entry, allowed *set) (ares.Placing, bool) {
	s := t.state
	if w.board.costs == nil && s.nowhere(w) {
		return ares.Placing{}, false
	}
	ask := topology.Ask{
		Members: most, Min: sh.least, Devices: w.gpus, Required: sh.wish.required, Preferred: sh.wish.preferred,
		PreferredDomain: sh.wish.domain, Strategy: sh.wish.strategy, Gbps: sh.wish.gbps, LatencySensitive: sh.wish.latency,
	}
	if allowed == &w.taste.filter.nodes && !sh.repelsItself() {
		ask.Kind = w.id // else other jobs decide where it may go
	}
	if e != nil && e.run != nil {
		ask.Before = s.before(e)
	}
	view := gangView{s, w, s.weigh(w), allowed, sh.repelsItself()}
	picks, m, ok := s.places.Choose(&ask, view)
	if !ok {
		return ares.Placing{}, false
	}
	if m.Level == ares.LevelNode {
		m.Domain = s.nodes[picks[0].Node].id
	}
	total := 0
	var cost int64
	for _, p := range picks {
		total += p.Members
		cost += (view.board.costs[p.Node] - s.nodes[p.Node].blame) * int64(p.Members)
	}
	m.Stranded, m.FirstFit = stranding(cost), s.naive(w, allowed, total)
	seats := make([]ares.Seat, 0, total)
	for _, p := range picks {
		n := s.nodes[p.Node]
		seats = t.sitAll(n, w, p.Members, seats)
		s.move(n)
	}
	e.rejoin(seats)
	m.Bandwidth = s.bandwidth(seats)
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
	want    *want
	board   *board
	allowed *set
	apart   bool // no two members on a node
}

// Room is how many members the node can take now.
func (v gangView) Room(at int) int {
	n := v.state.nodes[at]
	if !n.open() || !v.allowed.has(at) {
		return 0
	}
	room := n.room(v.want)
	if v.apart {
		return min(room, 1)
	}
	return room
}

// Waste is what a member there would strand.
func (v gangView) Waste(at int) int {
	if v.board.costs[at] == noFit {
		return 0
	}
	cost := int(v.board.costs[at])
	if f := &v.want.taste.filter; f.soft && !f.liked.has(at) {
		cost += warmCost
	}
	return cost
}
