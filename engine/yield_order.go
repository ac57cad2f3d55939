package engine

import (
	"cmp"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"

	ares "github.com/ares-scheduler/ares"
)

// victimsByOrder finds who gives way to a job that comes before them in the
// configured order: of its own queue and class, only such as come later, the
// last of them first, and no more than it takes for the waiting one to fit.
//
// Nobody takes turns: a waiting job keeps its standing, and a running one comes
// earlier with OrderRemaining, and with OrderAttained later, but never later
// than whom it stopped. One that waited for PeersAfter stops those of its own level
// too that were submitted after it.
func (pr *preemptRound) victimsByOrder(e *entry, plan *ares.Plan) (victimSelection, bool) {
	members, ban := pr.jobs.admissibleMembers(e.shape, plan.Now)
	if members == 0 {
		return victimSelection{}, false
	}
	base := cluster.Savepoint(len(pr.txn.Deltas))
	c := victimSelection{why: ares.YieldOrder}
	if !pr.fewestByOrder(e, pr.laterInOrder(e, plan), &c, members, ban) {
		pr.txn.Undo(base)
		return c, false
	}
	pr.txn.Undo(base)
	if _, milli := c.cost(); pr.cfg.Preemption.ExceedsCeiling(milli, gpuMilliOf(c.seats)) {
		pr.notePreemption("preempting would stop %s for %s (ceiling %s)", gpuText(milli), gpuText(gpuMilliOf(c.seats)), decimalText(pr.cfg.Preemption.Ceiling))
		return c, false
	}
	return c, true
}

// laterInOrder is who could give way to a waiting job, the last in the order first.
func (pr *preemptRound) laterInOrder(e *entry, plan *ares.Plan) []*candidateVictim {
	now := plan.Now
	mine, rank := pr.jobs.orderRank(e, now), e.rank()
	until, bounded := pr.jobs.peerPreemptionTime(e)
	waited := bounded && !now.Before(until)
	forebears, barred := pr.preemptorAncestry(e, plan), pr.barredJobs(0)
	standing := map[*entry]uint64{}
	var out []*candidateVictim
	for _, v := range e.shape.tenant.active { // in no order: sorted right below
		if v.shape.leaf != e.shape.leaf || v.run.Current() == nil || v.run.Stop != nil || !v.mayBePreempted() || v.rank() != rank {
			continue
		}
		at := pr.jobs.orderRank(v, now)
		after := at > mine || waited && at == mine && v.job.Revision > e.job.Revision
		if !after || forebears[v.id] || barred[v] || slices.Contains(pr.stopping, v) {
			continue
		}
		if guard, _ := pr.protectionOf(v, now); guard != unprotected {
			continue
		}
		milli := heldMilli(v)
		standing[v] = at
		out = append(out, &candidateVictim{entry: v, milli: milli, cost: pr.preemptionCost(v, milli, now), why: ares.YieldOrder})
	}
	slices.SortFunc(out, func(a, b *candidateVictim) int {
		return cmp.Or(cmp.Compare(standing[b.entry], standing[a.entry]), cmp.Compare(b.entry.job.Revision, a.entry.job.Revision), cmp.Compare(b.entry.id, a.entry.id))
	})
	return out
}

// fewestByOrder is the fewest of some rivals whose seats let the job fit. It is false
// when not even all are enough.
func (pr *preemptRound) fewestByOrder(e *entry, from []*candidateVictim, c *victimSelection, members int, ban uint64) bool {
	m, w := cluster.Savepoint(len(pr.txn.Deltas)), pr.cluster.WithoutModels(e.shape.request, ban)
	reach, ok := pr.place.feasibleNodes(e.shape, w)
	if !ok {
		return false
	}
	var out []*candidateVictim
	var p ares.Placing
	fits := false
	for _, v := range from {
		if !pr.jobs.runsWithin(v.entry, reach) {
			continue
		}
		pr.place.releaseJob(v.entry)
		out = append(out, v)
		if pr.jobs.opensNode(v.entry, w) {
			if p, fits = pr.place.placeJob(e.shape, members, ban, e); fits {
				break
			}
		}
	}
	if !fits {
		return false
	}
	// Whoever sits elsewhere stays, and then whoever is not needed after all,
	// the first in the order before the others.
	out = slices.DeleteFunc(out, func(v *candidateVictim) bool { return !v.entry.sharesNodeWith(p.Seats) })
	for i := len(out) - 1; i >= 0 && len(out) > 1; i-- {
		rest := slices.Delete(slices.Clone(out), i, i+1)
		if _, fits = pr.fitsWithout(m, rest, e, members, ban); fits {
			out = rest
		}
	}
	p, ok = pr.fitsWithout(m, out, e, members, ban)
	c.seats, c.victims = p.Seats, out
	return ok
}

// fitsWithout says whether the job fits when some leave, from a mark on. It is
// taken then.
func (pr *preemptRound) fitsWithout(m cluster.Savepoint, leave []*candidateVictim, e *entry, members int, ban uint64) (ares.Placing, bool) {
	pr.txn.Undo(m)
	for _, v := range leave {
		pr.place.releaseJob(v.entry)
	}
	return pr.place.placeJob(e.shape, members, ban, e)
}
