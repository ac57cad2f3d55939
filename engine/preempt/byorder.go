package preempt

import (
	"cmp"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"

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
func (pr *Round) victimsByOrder(e *job.Entry, plan *ares.Plan) (victimSelection, bool) {
	members, ban := pr.Jobs.AdmissibleMembers(e.Shape, plan.Now)
	if members == 0 {
		return victimSelection{}, false
	}
	base := pr.Txn.Mark()
	c := victimSelection{why: ares.YieldOrder}
	if !pr.fewestByOrder(e, pr.laterInOrder(e, plan), &c, members, ban) {
		pr.Txn.Undo(base)
		return c, false
	}
	pr.Txn.Undo(base)
	if _, milli := c.cost(); pr.Cfg.Preemption.ExceedsCeiling(milli, job.GPUMilliOf(c.seats)) {
		pr.notePreemption("preempting would stop %s for %s (ceiling %s)", gpuText(milli), gpuText(job.GPUMilliOf(c.seats)), decimalText(pr.Cfg.Preemption.Ceiling))
		return c, false
	}
	return c, true
}

// laterInOrder is who could give way to a waiting job, the last in the order first.
func (pr *Round) laterInOrder(e *job.Entry, plan *ares.Plan) []*candidateVictim {
	now := plan.Now
	mine, rank := pr.Jobs.OrderRank(e, now), e.Rank()
	until, bounded := pr.Jobs.PeerPreemptionTime(e)
	waited := bounded && !now.Before(until)
	forebears, barred := pr.preemptorAncestry(e, plan), pr.barredJobs(0)
	standing := map[*job.Entry]uint64{}
	var out []*candidateVictim
	for _, v := range e.Shape.Tenant.Active { // in no order: sorted right below
		if v.Shape.Leaf != e.Shape.Leaf || v.Run.Current() == nil || v.Run.Stop != nil || !v.MayBePreempted() || v.Rank() != rank {
			continue
		}
		at := pr.Jobs.OrderRank(v, now)
		after := at > mine || waited && at == mine && v.Job.Revision > e.Job.Revision
		if !after || forebears[v.ID] || barred[v] || slices.Contains(pr.Stopping, v) {
			continue
		}
		if guard, _ := pr.protectionOf(v, now); guard != unprotected {
			continue
		}
		milli := job.HeldMilli(v)
		standing[v] = at
		out = append(out, &candidateVictim{entry: v, milli: milli, cost: pr.preemptionCost(v, milli, now), why: ares.YieldOrder})
	}
	slices.SortFunc(out, func(a, b *candidateVictim) int {
		return cmp.Or(cmp.Compare(standing[b.entry], standing[a.entry]), cmp.Compare(b.entry.Job.Revision, a.entry.Job.Revision), cmp.Compare(b.entry.ID, a.entry.ID))
	})
	return out
}

// fewestByOrder is the fewest of some rivals whose seats let the job fit. It is false
// when not even all are enough.
func (pr *Round) fewestByOrder(e *job.Entry, from []*candidateVictim, c *victimSelection, members int, ban uint64) bool {
	m, w := pr.Txn.Mark(), pr.Cluster.WithoutModels(e.Shape.Request, ban)
	reach, ok := pr.Place.FeasibleNodes(e.Shape, w)
	if !ok {
		return false
	}
	var out []*candidateVictim
	var p ares.Placing
	fits := false
	for _, v := range from {
		if !pr.Jobs.RunsWithin(v.entry, reach) {
			continue
		}
		pr.Place.ReleaseJob(v.entry)
		out = append(out, v)
		if pr.Jobs.OpensNode(v.entry, w) {
			if p, fits = pr.Place.PlaceJob(e.Shape, members, ban, e); fits {
				break
			}
		}
	}
	if !fits {
		return false
	}
	// Whoever sits elsewhere stays, and then whoever is not needed after all,
	// the first in the order before the others.
	out = slices.DeleteFunc(out, func(v *candidateVictim) bool { return !v.entry.SharesNodeWith(p.Seats) })
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
func (pr *Round) fitsWithout(m cluster.Savepoint, leave []*candidateVictim, e *job.Entry, members int, ban uint64) (ares.Placing, bool) {
	pr.Txn.Undo(m)
	for _, v := range leave {
		pr.Place.ReleaseJob(v.entry)
	}
	return pr.Place.PlaceJob(e.Shape, members, ban, e)
}
