package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// Place answers for one job, known to the state or not, whether it may run now
// and where: its seats, or everything that keeps it waiting. It does what
// Decide does with each waiting job, and changes nothing.
func (ex *explainer) Place(job *ares.Job, now time.Time) (ares.Placing, *ares.Refusal) {
	ex.core.refresh()
	ex.windows.setWindowTime(now)
	ex.windows.setExpectedStayOf(job)
	e, sh := ex.jobs.entryByID[job.ID], ex.jobs.shapes.find(ex.jobs.newShape(job))
	if waits := ex.admissionWaits(e, sh, now); len(waits) == 0 {
		t := ex.round.begin()
		t.preempt.advanceNominations(&ares.Plan{Now: now}, e, nil)
		t.preempt.holdForRestarts(now, e)
		t.preempt.holdForMigrating(now, e)
		ex.scorer.drawForJob(job.ID, 0)
		members, ban := ex.jobs.admissibleMembers(sh, now)
		pl, ok := ares.Placing{}, false
		if members > 0 {
			pl, ok = t.place.placeJob(sh, members, ban, e)
		}
		t.preempt.releaseNominations()
		t.close()
		if ok {
			pl.Job = job.ID
			return pl, nil
		}
	}
	blockers, _ := ex.blockersOf(e, sh, job.GPUModel, now)
	return ares.Placing{}, &ares.Refusal{Job: job.ID, Blockers: blockers}
}

// placeJob takes seats for the job's members, as many as fit between the least it
// can start with and most, or takes nothing. e is the job's entry, nil for one
// the state does not know.
func (pl *Placer) placeJob(sh *shape, most int, ban uint64, e *entry) (ares.Placing, bool) {
	pl.windows.setExpectedStay(e)
	return pl.placeWithin(sh, most, ban, e)
}

// placeWithin is place for as long a stay as was said before.
func (pl *Placer) placeWithin(sh *shape, most int, ban uint64, e *entry) (ares.Placing, bool) {
	w := pl.cluster.withoutModels(sh.request, ban)
	allowed, ok := pl.feasibleNodes(sh, w)
	if !ok || pl.cluster.exceedsLeafLimit(w) {
		return ares.Placing{}, false
	}
	if len(pl.windows.windows) > 0 {
		if own, some := pl.windows.reservedForOwn(sh, allowed); some {
			if p, seated := pl.placeAmong(sh, w, most, e, own); seated {
				return p, true
			}
		}
	}
	return pl.placeAmong(sh, w, most, e, allowed)
}

// placeAmong is seat on the allowed nodes.
func (pl *Placer) placeAmong(sh *shape, w *request, most int, e *entry, allowed *set) (ares.Placing, bool) {
	if sh.members == 1 {
		return pl.placeSingle(sh, w, allowed)
	}
	return pl.placeGang(sh, w, most, e, allowed)
}

// placeSingle takes the seat of a job of one member.
func (pl *Placer) placeSingle(sh *shape, w *request, allowed *set) (ares.Placing, bool) {
	if allowed == &w.constraints.feasible.nodes && w.failedEpoch == pl.epoch && !pl.speculative {
		return ares.Placing{}, false // what one asked in vain in this decision, the next asks in vain
	}
	n := pl.bestSingleNode(sh, w, allowed)
	if n == nil {
		if allowed == &w.constraints.feasible.nodes && !pl.speculative {
			w.failedEpoch = pl.epoch
		}
		return ares.Placing{}, false
	}
	m := ares.Merit{Level: ares.LevelNode, Domain: n.id}
	if !w.anyNodeDoes {
		m.Stranded = strandedMilli(pl.scorer.fragmentationCost(w, n) - historyPenalty(n))
	}
	if w.gpus > 1 {
		m.FirstFit = n.typ.links.BottleneckMBps(n.typ.links.FirstFit(w.deviceMask(n.typ)&n.free, w.gpus))
	}
	before := n.free
	seats := []ares.Seat{pl.assign(n, w, 0)}
	if w.gpus > 1 {
		m.Bandwidth = n.typ.links.BottleneckMBps(before &^ n.free)
	}
	pl.cluster.capacityChanged(n)
	return ares.Placing{Seats: seats, Score: pl.cluster.pairScore(seats), Merit: m}, true
}

// bestSingleNode finds the node for a job of one member: in the domain it prefers, then
// where nothing speaks against, then anywhere it may go.
func (pl *Placer) bestSingleNode(sh *shape, w *request, allowed *set) *node {
	liked := allowed
	if w.constraints.feasible.hasPreference {
		liked = pl.cluster.preferredNodes(&w.constraints.feasible, allowed)
	}
	for _, in := range [2]*set{liked, allowed} {
		for i := 0; ; i++ {
			lo, hi, ok := pl.cluster.domains.NamedDomain(sh.wish.domain, i)
			if !ok {
				break
			}
			if n := pl.scorer.bestNode(w, in, lo, hi); n != nil {
				return n
			}
		}
	}
	if n := pl.scorer.bestNode(w, liked, 0, len(pl.cluster.nodes)); n != nil || liked == allowed {
		return n
	}
	return pl.scorer.bestNode(w, allowed, 0, len(pl.cluster.nodes))
}

// placeGang takes seats for several members: the domain is chosen by the topology,
// the devices by their links. Ranks follow the order of the nodes, but for those
// that can stay where they were.
func (pl *Placer) placeGang(sh *shape, w *request, most int, e *entry, allowed *set) (ares.Placing, bool) {
	if w.scoreSlot == 0 && pl.cluster.fitsNowhere(w) {
		return ares.Placing{}, false
	}
	ask := topology.Request{
		Members: most, MinMembers: sh.minMembers, DevicesPerMember: w.gpus, RequiredLevel: sh.wish.required, PreferredLevel: sh.wish.preferred,
		PreferredDomain: sh.wish.domain, Strategy: sh.wish.strategy, MinGbps: sh.wish.gbps, LatencySensitive: sh.wish.latency,
	}
	if allowed == &w.constraints.feasible.nodes && !sh.spreadsMembers() {
		ask.CacheKey = w.id // else other jobs decide where it may go
	}
	if e != nil && e.run != nil {
		ask.PreviousNodes = pl.jobs.lastNodes(e)
	}
	view := gangView{pl, w, pl.scorer.refreshScores(w), allowed, sh.spreadsMembers()}
	picks, m, ok := pl.cluster.domains.Choose(&ask, view)
	if !ok {
		return ares.Placing{}, false
	}
	if m.Level == ares.LevelNode {
		m.Domain = pl.cluster.nodes[picks[0].Node].id
	}
	total := 0
	var cost int64
	for _, p := range picks {
		total += p.Members
		cost += (view.scores.costs[p.Node] - historyPenalty(pl.cluster.nodes[p.Node])) * int64(p.Members)
	}
	m.Stranded, m.FirstFit = strandedMilli(cost), pl.cluster.firstFitBandwidth(w, allowed, total)
	seats := make([]ares.Seat, 0, total)
	for _, p := range picks {
		n := pl.cluster.nodes[p.Node]
		seats = pl.assignAll(n, w, p.Members, seats)
		pl.cluster.capacityChanged(n)
	}
	e.keepRanksInPlace(seats)
	m.Bandwidth = pl.cluster.bottleneck(seats)
	return ares.Placing{Seats: seats, Score: pl.cluster.pairScore(seats), Merit: m}, true
}

// gangView is what the topology may ask about the nodes for one gang.
type gangView struct {
	state   *Placer
	request *request
	scores  *scoreCache
	allowed *set
	apart   bool // no two members on a node
}

// Capacity is how many members the node can take now.
func (v gangView) Capacity(at int) int {
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

// Penalty is what a member there would strand.
func (v gangView) Penalty(at int) int {
	if v.scores.costs[at] == noFit {
		return 0
	}
	cost := int(v.scores.costs[at])
	if f := &v.request.constraints.feasible; f.hasPreference && !f.preferred.has(at) {
		cost += warmCost
	}
	return cost
}
