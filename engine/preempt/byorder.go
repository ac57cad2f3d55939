package preempt

import (
	"cmp"
	"slices"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// victimsByOrder finds victims by the configured order. Victims are jobs of the same queue and class that come
// later in the order. The search starts with the last job in the order, and ends when the waiting job fits.
//
// Two jobs never preempt each other in turn, because no job falls behind the jobs that were stopped for it.
// While a job waits, its position in the order does not change. A running job changes its position in the
// order: it moves forward with OrderRemaining, and backward with OrderAttained. A job that has waited for
// PeersAfter may also stop jobs of equal rank that were submitted later.
func (r *Round) victimsByOrder(e *job.Entry, plan *ares.Plan) (victimSelection, bool) {
	members, ban := r.Jobs.AdmissibleMembers(e.Shape, plan.Now)
	if members == 0 {
		return victimSelection{}, false
	}
	base := r.Txn.Mark()
	sel := victimSelection{reason: ares.PreemptByOrder}
	if !r.fewestByOrder(e, r.laterInOrder(e, plan), &sel, members, ban) {
		r.Txn.Undo(base)
		return sel, false
	}
	r.Txn.Undo(base)
	if _, milli := sel.cost(); r.Cfg.Preemption.ExceedsCeiling(milli, job.GPUMilliOf(sel.seats)) {
		r.notePreemption("preemption would stop %s for a job of %s, more than %s times its size (preemption_ceiling)", gpuText(milli), gpuText(job.GPUMilliOf(sel.seats)), decimalText(r.Cfg.Preemption.Ceiling))
		return sel, false
	}
	return sel, true
}

// laterInOrder returns the possible victims of a waiting job. The result is in reverse order: it begins with the
// job that is last in the order.
func (r *Round) laterInOrder(e *job.Entry, plan *ares.Plan) []*candidateVictim {
	now := plan.Now
	ownRank, rank := r.Jobs.OrderRank(e, now), e.ClassRank()
	until, bounded := r.Jobs.PeerPreemptionTime(e)
	mayPreemptPeers := bounded && !now.Before(until)
	ancestry, barred := r.preemptorAncestry(e, plan), r.barredJobs(0)
	rankOf := map[*job.Entry]uint64{}
	var out []*candidateVictim
	for _, v := range e.Shape.Tenant.Active { // order-free: sorted below
		if v.Shape.Leaf != e.Shape.Leaf || v.Run.Current() == nil || v.Run.Stop != nil || !v.MayBePreempted() || v.ClassRank() != rank {
			continue
		}
		at := r.Jobs.OrderRank(v, now)
		after := at > ownRank || mayPreemptPeers && at == ownRank && v.Job.Revision > e.Job.Revision
		if !after || ancestry[v.ID] || barred[v] || slices.Contains(r.Stopping, v) {
			continue
		}
		if prot, _ := r.protectionOf(v, now); prot != unprotected {
			continue
		}
		milli := job.HeldMilli(v)
		rankOf[v] = at
		out = append(out, &candidateVictim{entry: v, milli: milli, cost: r.preemptionCost(v, milli, now), reason: ares.PreemptByOrder})
	}
	slices.SortFunc(out, func(a, b *candidateVictim) int {
		return cmp.Or(cmp.Compare(rankOf[b.entry], rankOf[a.entry]), cmp.Compare(b.entry.Job.Revision, a.entry.Job.Revision), cmp.Compare(b.entry.ID, a.entry.ID))
	})
	return out
}

// fewestByOrder selects the fewest candidates that must end so that the job fits. If the job would not fit even if
// all candidates ended, fewestByOrder returns false.
func (r *Round) fewestByOrder(e *job.Entry, from []*candidateVictim, sel *victimSelection, members int, ban uint64) bool {
	mark, req := r.Txn.Mark(), r.Cluster.WithoutModels(e.Shape.Request, ban)
	feasible, ok := r.Place.FeasibleNodes(e.Shape, req, r.Place.StayOf(e))
	if !ok {
		return false
	}
	var out []*candidateVictim
	var placing ares.Placing
	fits := false
	for _, v := range from {
		if !r.Jobs.RunsWithin(v.entry, feasible) {
			continue
		}
		r.Place.ReleaseJob(v.entry)
		out = append(out, v)
		if r.Jobs.OpensNode(v.entry, req) {
			if placing, fits = r.Place.TryPlace(e.Shape, members, ban, e, r.Place.StayOf(e)); fits {
				break
			}
		}
	}
	if !fits {
		return false
	}
	// Drop the victims that run on none of the chosen nodes. Then drop the other victims that are not
	// needed. Start with the victim that is first in the order.
	out = slices.DeleteFunc(out, func(v *candidateVictim) bool { return !v.entry.SharesNodeWith(placing.Seats) })
	for i := len(out) - 1; i >= 0 && len(out) > 1; i-- {
		rest := slices.Delete(slices.Clone(out), i, i+1)
		if _, fits = r.fitsWithout(mark, rest, e, members, ban); fits {
			out = rest
		}
	}
	placing, ok = r.fitsWithout(mark, out, e, members, ban)
	sel.seats, sel.victims = placing.Seats, out
	return ok
}

// fitsWithout undoes the transaction to a savepoint and releases some jobs. Then it tries to place the waiting
// job. The placement stays in the transaction.
func (r *Round) fitsWithout(mark cluster.Savepoint, leaving []*candidateVictim, e *job.Entry, members int, ban uint64) (ares.Placing, bool) {
	r.Txn.Undo(mark)
	for _, v := range leaving {
		r.Place.ReleaseJob(v.entry)
	}
	return r.Place.TryPlace(e.Shape, members, ban, e, r.Place.StayOf(e))
}
