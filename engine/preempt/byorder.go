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
	return sel, !r.exceedsCeiling(&sel)
}

// exceedsCeiling reports whether the victims hold more than the ceiling allows, and notes why then no job is preempted.
func (r *Round) exceedsCeiling(sel *victimSelection) bool {
	_, milli := sel.cost()
	if !r.Cfg.Preemption.ExceedsCeiling(milli, job.GPUMilliOf(sel.seats)) {
		return false
	}
	r.notePreemption("preemption would stop %s for a job of %s, more than %s times its size (preemption_ceiling)", gpuText(milli), gpuText(job.GPUMilliOf(sel.seats)), decimalText(r.Cfg.Preemption.Ceiling))
	return true
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

// longerVictims finds running jobs of the waiting job's queue and class that are expected to need much more than it, and
// selects as few of them as possible. Only jobs that allow it are stopped, see ares.Spec.IsPreemptible.
//
// Two jobs never preempt each other in turn, because a job never preempts a job for which it was preempted.
func (r *Round) longerVictims(e *job.Entry, plan *ares.Plan) (victimSelection, bool) {
	sel := victimSelection{reason: ares.PreemptByOrder}
	members, ban := r.Jobs.AdmissibleMembers(e.Shape, plan.Now)
	from := r.muchLonger(e, plan)
	if members == 0 || len(from) == 0 {
		return sel, false
	}
	base := r.Txn.Mark()
	ok := r.fewestOnOneNode(e, from, &sel, members, ban) || r.fewestByOrder(e, from, &sel, members, ban)
	r.Txn.Undo(base)
	// One victim on one node is allowed at any size: what the waiting job leaves free serves other short jobs.
	oneVictim := len(sel.victims) == 1 && len(sel.victims[0].entry.Run.Current().Seats) == 1
	return sel, ok && (oneVictim || !r.exceedsCeiling(&sel))
}

// muchLonger returns the running jobs that a waiting job may preempt because they are expected to need much more. The
// first one is the job that is expected to need most.
func (r *Round) muchLonger(e *job.Entry, plan *ares.Plan) []*candidateVictim {
	ancestry, barred := r.preemptorAncestry(e, plan), r.barredJobs(0)
	gain := map[*job.Entry]int64{}
	var out []*candidateVictim
	for _, v := range r.Jobs.PreemptibleRunning(e) { // order-free: sorted below
		if from, started := r.Jobs.LongerFrom(v); !started || plan.Now.Before(from) || !r.Jobs.IsMuchLonger(v, e, plan.Now) {
			continue
		}
		if ancestry[v.ID] || barred[v] || slices.Contains(r.Stopping, v) {
			continue
		}
		if prot, _ := r.protectionOf(v, plan.Now); prot != unprotected {
			continue
		}
		milli := job.HeldMilli(v)
		gain[v] = r.Jobs.PreemptionGain(v, plan.Now)
		out = append(out, &candidateVictim{entry: v, milli: milli, cost: r.preemptionCost(v, milli, plan.Now), reason: ares.PreemptByOrder})
	}
	slices.SortFunc(out, func(a, b *candidateVictim) int {
		return cmp.Or(cmp.Compare(gain[b.entry], gain[a.entry]), cmp.Compare(b.entry.Job.Revision, a.entry.Job.Revision), cmp.Compare(b.entry.ID, a.entry.ID))
	})
	return out
}

// maxNodesTried limits the nodes on which fewestOnOneNode tries to place the waiting job.
const maxNodesTried = 8

// fewestOnOneNode finds the node where the fewest jobs must end so that a job with one member fits. Of nodes that need
// equally few, it takes the one whose victims free most devices, because these serve other waiting jobs too.
func (r *Round) fewestOnOneNode(e *job.Entry, from []*candidateVictim, sel *victimSelection, members int, ban uint64) bool {
	if members != 1 {
		return false
	}
	mark, req := r.Txn.Mark(), r.Cluster.WithoutModels(e.Shape.Request, ban)
	feasible, ok := r.Place.FeasibleNodes(e.Shape, req, r.Place.StayOf(e))
	if !ok {
		return false
	}
	options := r.nodeOptions(from, feasible, req)
	for _, option := range options[:min(len(options), maxNodesTried)] {
		placing, fits := r.fitsWithout(mark, option.victims, e, members, ban)
		if !fits || !slices.ContainsFunc(placing.Seats, func(s ares.Seat) bool { return s.Node == option.node.ID }) {
			continue
		}
		sel.seats, sel.victims = placing.Seats, option.victims
		return true
	}
	r.Txn.Undo(mark)
	return false
}

// nodeOption is a set of jobs on one node. If they end, one member of the waiting job fits there.
type nodeOption struct {
	node    *cluster.Node
	victims []*candidateVictim
	milli   int64 // thousandths of devices that the victims hold, on all their nodes
}

// nodeOptions returns a set of victims for each node on which a member fits after their end, the smallest set first.
func (r *Round) nodeOptions(from []*candidateVictim, feasible *cluster.Set, req *cluster.Request) []nodeOption {
	byNode := map[*cluster.Node]int{}
	var options []nodeOption
	for _, v := range from {
		for i := range v.entry.Run.Current().Seats {
			n := r.Cluster.NodesByID[v.entry.Run.Current().Seats[i].Node]
			if n == nil || !feasible.Has(n.Pos) {
				continue
			}
			at, known := byNode[n]
			if !known {
				at = len(options)
				byNode[n] = at
				options = append(options, nodeOption{node: n})
			}
			if victims := options[at].victims; len(victims) == 0 || victims[len(victims)-1] != v {
				options[at].victims = append(victims, v)
			}
		}
	}
	options = slices.DeleteFunc(options, func(o nodeOption) bool { return o.node.RoomWithout(req, seatsOn(o.node, o.victims)) < 1 })
	for i := range options {
		o := &options[i]
		slices.SortStableFunc(o.victims, func(a, b *candidateVictim) int { return cmp.Compare(b.milli, a.milli) })
		for k := len(o.victims) - 1; k >= 0 && len(o.victims) > 1; k-- { // the smallest first
			if rest := slices.Delete(slices.Clone(o.victims), k, k+1); o.node.RoomWithout(req, seatsOn(o.node, rest)) >= 1 {
				o.victims = rest
			}
		}
		for _, v := range o.victims {
			o.milli += v.milli
		}
	}
	slices.SortFunc(options, func(a, b nodeOption) int {
		return cmp.Or(len(a.victims)-len(b.victims), cmp.Compare(b.milli, a.milli), cmp.Compare(a.node.Pos, b.node.Pos))
	})
	return options
}

// seatsOn returns the seats of some running jobs on one node.
func seatsOn(n *cluster.Node, victims []*candidateVictim) func(func(*ares.Seat) bool) {
	return func(yield func(*ares.Seat) bool) {
		for _, v := range victims {
			a := v.entry.Run.Current()
			for i := range a.Seats {
				if h := &a.Seats[i]; h.Node == n.ID && !h.State.Free() && !yield(&h.Seat) {
					return
				}
			}
		}
	}
}
