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
	s.refresh()
	s.windows.setWindowTime(now)
	s.windows.setExpectedStayOf(job)
	e, sh := s.jobs.entryByID[job.ID], s.jobs.shapes.find(s.jobs.newShape(job))
	if waits := s.admissionWaits(e, sh, now); len(waits) == 0 {
		t := s.beginRound()
		t.advanceNominations(&ares.Plan{Now: now}, e, nil)
		t.holdForRestarts(now, e)
		t.holdForMigrating(now, e)
		s.scorer.drawForJob(job.ID, 0)
		members, ban := s.jobs.admissibleMembers(sh, now)
		pl, ok := ares.Placing{}, false
		if members > 0 {
			pl, ok = t.placeJob(sh, members, ban, e)
		}
		t.releaseNominations()
		t.close()
		if ok {
			pl.Job = job.ID
			return pl, nil
		}
	}
	blockers, _ := s.blockersOf(e, sh, job.GPUModel, now)
	return ares.Placing{}, &ares.Refusal{Job: job.ID, Blockers: blockers}
}

// placeJob takes seats for the job's members, as many as fit between the least it
// can start with and most, or takes nothing. e is the job's entry, nil for one
// the state does not know.
func (t *round) placeJob(sh *shape, most int, ban uint64, e *entry) (ares.Placing, bool) {
	t.state.windows.setExpectedStay(e)
	return t.placeWithin(sh, most, ban, e)
}

// placeWithin is place for as long a stay as was said before.
func (t *round) placeWithin(sh *shape, most int, ban uint64, e *entry) (ares.Placing, bool) {
	w := t.state.cluster.withoutModels(sh.request, ban)
	allowed, ok := t.state.feasibleNodes(sh, w)
	if !ok || t.state.cluster.exceedsLeafLimit(w) {
		return ares.Placing{}, false
	}
	if len(t.state.windows.windows) > 0 {
		if own, some := t.state.windows.reservedForOwn(sh, allowed); some {
			if p, seated := t.placeAmong(sh, w, most, e, own); seated {
				return p, true
			}
		}
	}
	return t.placeAmong(sh, w, most, e, allowed)
}

// placeAmong is seat on the allowed nodes.
func (t *round) placeAmong(sh *shape, w *request, most int, e *entry, allowed *set) (ares.Placing, bool) {
	if sh.members == 1 {
		return t.placeSingle(sh, w, allowed)
	}
	return t.placeGang(sh, w, most, e, allowed)
}

// exceedsLeafLimit says whether one member alone asks for more devices than one job may
// take of a leaf.
func (c *Cluster) exceedsLeafLimit(w *request) bool {
	return c.topology.MaxGPUsPerLeaf > 0 && w.gpus > c.topology.MaxGPUsPerLeaf
}

// placeSingle takes the seat of a job of one member.
func (t *round) placeSingle(sh *shape, w *request, allowed *set) (ares.Placing, bool) {
	if allowed == &w.constraints.feasible.nodes && w.failedEpoch == t.state.epoch && !t.speculative {
		return ares.Placing{}, false // what one asked in vain in this decision, the next asks in vain
	}
	n := t.state.bestSingleNode(sh, w, allowed)
	if n == nil {
		if allowed == &w.constraints.feasible.nodes && !t.speculative {
			w.failedEpoch = t.state.epoch
		}
		return ares.Placing{}, false
	}
	m := ares.Merit{Level: ares.LevelNode, Domain: n.id}
	if !w.anyNodeDoes {
		m.Stranded = strandedMilli(t.state.scorer.fragmentationCost(w, n) - n.historyPenalty)
	}
	if w.gpus > 1 {
		m.FirstFit = n.typ.links.Bandwidth(n.typ.links.FirstFit(w.deviceMask(n.typ)&n.free, w.gpus))
	}
	before := n.free
	seats := []ares.Seat{t.assign(n, w, 0)}
	if w.gpus > 1 {
		m.Bandwidth = n.typ.links.Bandwidth(before &^ n.free)
	}
	t.state.cluster.capacityChanged(n)
	return ares.Placing{Seats: seats, Score: t.state.cluster.pairScore(seats), Merit: m}, true
}

// bestSingleNode finds the node for a job of one member: in the domain it prefers, then
// where nothing speaks against, then anywhere it may go.
func (s *State) bestSingleNode(sh *shape, w *request, allowed *set) *node {
	liked := allowed
	if w.constraints.feasible.hasPreference {
		liked = s.cluster.preferredNodes(&w.constraints.feasible, allowed)
	}
	for _, in := range [2]*set{liked, allowed} {
		for i := 0; ; i++ {
			lo, hi, ok := s.cluster.domains.Domain(sh.wish.domain, i)
			if !ok {
				break
			}
			if n := s.scorer.bestNode(w, in, lo, hi); n != nil {
				return n
			}
		}
	}
	if n := s.scorer.bestNode(w, liked, 0, len(s.cluster.nodes)); n != nil || liked == allowed {
		return n
	}
	return s.scorer.bestNode(w, allowed, 0, len(s.cluster.nodes))
}

// placeGang takes seats for several members: the domain is chosen by the topology,
// the devices by their links. Ranks follow the order of the nodes, but for those
// that can stay where they were.
func (t *round) placeGang(sh *shape, w *request, most int, e *entry, allowed *set) (ares.Placing, bool) {
	if w.scores.costs == nil && t.state.cluster.fitsNowhere(w) {
		return ares.Placing{}, false
	}
	ask := topology.Ask{
		Members: most, Min: sh.minMembers, Devices: w.gpus, Required: sh.wish.required, Preferred: sh.wish.preferred,
		PreferredDomain: sh.wish.domain, Strategy: sh.wish.strategy, Gbps: sh.wish.gbps, LatencySensitive: sh.wish.latency,
	}
	if allowed == &w.constraints.feasible.nodes && !sh.spreadsMembers() {
		ask.Kind = w.id // else other jobs decide where it may go
	}
	if e != nil && e.run != nil {
		ask.Before = t.state.jobs.lastNodes(e)
	}
	view := gangView{t.state, w, t.state.scorer.refreshScores(w), allowed, sh.spreadsMembers()}
	picks, m, ok := t.state.cluster.domains.Choose(&ask, view)
	if !ok {
		return ares.Placing{}, false
	}
	if m.Level == ares.LevelNode {
		m.Domain = t.state.cluster.nodes[picks[0].Node].id
	}
	total := 0
	var cost int64
	for _, p := range picks {
		total += p.Members
		cost += (view.scores.costs[p.Node] - t.state.cluster.nodes[p.Node].historyPenalty) * int64(p.Members)
	}
	m.Stranded, m.FirstFit = strandedMilli(cost), t.state.cluster.firstFitBandwidth(w, allowed, total)
	seats := make([]ares.Seat, 0, total)
	for _, p := range picks {
		n := t.state.cluster.nodes[p.Node]
		seats = t.assignAll(n, w, p.Members, seats)
		t.state.cluster.capacityChanged(n)
	}
	e.keepRanksInPlace(seats)
	m.Bandwidth = t.state.cluster.bottleneck(seats)
	return ares.Placing{Seats: seats, Score: t.state.cluster.pairScore(seats), Merit: m}, true
}

// lastNodes is where the job's last attempt was.
func (j *jobTable) lastNodes(e *entry) []int {
	last := e.run.Last()
	if last == nil {
		return nil
	}
	var at []int
	for i := range last.Seats {
		if n := j.cluster.nodesByID[last.Seats[i].Node]; n != nil {
			at = append(at, n.pos)
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// gangView is what the topology may ask about the nodes for one gang.
type gangView struct {
	state   *State
	request *request
	scores  *scoreCache
	allowed *set
	apart   bool // no two members on a node
}

// Room is how many members the node can take now.
func (v gangView) Room(at int) int {
	n := v.state.cluster.nodes[at]
	if !n.schedulable() || !v.allowed.has(at) {
		return 0
	}
	room := n.roomFor(v.request)
	if v.apart {
		return min(room, 1)
	}
	return room
}

// Waste is what a member there would strand.
func (v gangView) Waste(at int) int {
	if v.scores.costs[at] == noFit {
		return 0
	}
	cost := int(v.scores.costs[at])
	if f := &v.request.constraints.feasible; f.hasPreference && !f.preferred.has(at) {
		cost += warmCost
	}
	return cost
}
