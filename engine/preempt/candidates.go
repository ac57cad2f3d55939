package preempt

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// candidateVictim is a running job as one decision sees it that looks for who could give
// way.
type candidateVictim struct {
	entry      *job.Entry
	cost       int64      // thousandths of GPU-seconds that stopping it costs
	milli      int64      // thousandths of devices that it holds
	rank       int        // its class
	protection protection // what protects it
	until      time.Time

	why       ares.YieldWhy // of the search under way
	search    int           // the last one it was found eligible in
	chosen    bool          // in the set that is being put together
	debtParts []debtPart    // of what it holds, what is borrowed: by which account
}

// debtPart is a part of one of the debts of a search.
type debtPart struct {
	debt  int
	milli int64
}

// protection is what protects a running job.
type protection uint8

const (
	unprotected       protection = iota
	protectedOnce                // it runs at most once, and has begun
	protectedLatency             // it is latency sensitive: only critical ones stop it
	protectedCooldown            // it gave way, and has run again for a short time only
	protectedCount               // it gave way often enough
	protectedHold                // seats are kept for another where it sits, or its array is to end
)

// loadVictims is who runs in a class, as a decision sees it. What is known of each is
// worked out once.
func (pr *Round) loadVictims(rank int, now time.Time) []*job.Entry {
	for len(pr.victimAt) < len(pr.Jobs.Slots) {
		pr.victimAt = append(pr.victimAt, nil)
	}
	list := pr.Jobs.Running.Running[rank]
	if pr.loadedClasses&(1<<rank) != 0 {
		return list
	}
	pr.loadedClasses |= 1 << rank
	rivals := make([]candidateVictim, len(list))
	for i, e := range list {
		r := &rivals[i]
		*r = candidateVictim{entry: e, rank: rank, milli: job.HeldMilli(e), protection: unprotected}
		r.cost = pr.preemptionCost(e, r.milli, now)
		r.protection, r.until = pr.protectionOf(e, now)
		pr.victimAt[e.Slot] = r
		pr.Victims = append(pr.Victims, e)
	}
	return list
}

// resetVictims forgets what was worked out of running jobs.
func (pr *Round) resetVictims() {
	for i, e := range pr.Victims {
		pr.victimAt[e.Slot], pr.Victims[i] = nil, nil
	}
	pr.Victims, pr.loadedClasses = pr.Victims[:0], 0
}

// preemptionCost is what stopping a job costs, in thousandths of GPU-seconds: what it
// has done since its progress was last safe, and starting again.
func (pr *Round) preemptionCost(e *job.Entry, milli int64, now time.Time) int64 {
	done := pr.Cfg.Preemption.Restart
	if kept := e.Run.Current().Kept(); !kept.IsZero() {
		done += max(now.Sub(kept), 0)
	}
	return milli * int64(done/time.Second)
}

// protectionOf is what protects a running job, and until when if that passes.
func (pr *Round) protectionOf(e *job.Entry, now time.Time) (protection, time.Time) {
	y, run := &pr.Cfg.Preemption, e.Run
	if run.Endures(e.Job) {
		return protectedOnce, time.Time{}
	}
	if pr.Jobs.ArrayIsStopping(e) {
		return protectedHold, time.Time{}
	}
	if e.Run.Yields > 0 && y.Cooldown > 0 {
		a := run.Current()
		if until := job.LaterOf(a.PlacedAt, a.StartedAt).Add(y.Cooldown); now.Before(until) {
			return protectedCooldown, until
		}
	}
	switch {
	case y.MaxPreemptions > 0 && run.Yields >= y.MaxPreemptions:
		return protectedCount, time.Time{}
	case e.Job.Placement.LatencySensitive:
		return protectedLatency, time.Time{}
	}
	return unprotected, time.Time{}
}

// mayBePreemptedBy says whether a job's protection lets one of a class stop it.
func (r *candidateVictim) mayBePreemptedBy(rank int) bool {
	return r.protection == unprotected || rank == job.Classes-1 && r.protection == protectedLatency
}

// protectionCounts says in words how many are protected, by what.
type protectionCounts struct {
	count [protectedHold + 1]int
	until time.Time // the first cooldown's end
}

func (g *protectionCounts) add(r *candidateVictim) {
	g.count[r.protection]++
	if r.protection == protectedCooldown && (g.until.IsZero() || r.until.Before(g.until)) {
		g.until = r.until
	}
}

// text says why those who could be stopped are not.
func (g *protectionCounts) text(y *config.PreemptionConfig) string {
	var out string
	add := func(n int, one, many string) {
		if n == 0 {
			return
		}
		if out != "" {
			out += ", "
		}
		if n == 1 {
			out += "1 job " + one
		} else {
			out += fmt.Sprintf("%d jobs %s", n, many)
		}
	}
	until := g.until.UTC().Format(time.RFC3339)
	add(g.count[protectedCooldown], "gave way lately and is left alone until "+until, "gave way lately and are left alone, the first until "+until)
	add(g.count[protectedCount], fmt.Sprintf("has given way %d times", y.MaxPreemptions), fmt.Sprintf("have given way %d times", y.MaxPreemptions))
	add(g.count[protectedOnce], "runs at most once", "run at most once")
	add(g.count[protectedLatency], "is latency sensitive", "are latency sensitive")
	add(g.count[protectedHold], "sits where seats are kept for another", "sit where seats are kept for others")
	return out
}

// preemptorAncestry are the jobs that a waiting one gave way to, those that these gave
// way to, and so on. None of them gives way to it in turn: so nobody ever
// stops, by however many others, whom it was stopped by.
func (pr *Round) preemptorAncestry(e *job.Entry, plan *ares.Plan) map[ares.JobID]bool {
	var out map[ares.JobID]bool
	var walk func(e *job.Entry)
	add := func(y *ares.Yield) {
		if y == nil || out[y.To] {
			return
		}
		if out == nil {
			out = map[ares.JobID]bool{}
		}
		out[y.To] = true
		if next := pr.Jobs.EntryByID[y.To]; next != nil {
			walk(next)
		}
	}
	walk = func(e *job.Entry) {
		if e.Run == nil {
			return
		}
		for i := range e.Run.Attempts {
			add(e.Run.Attempts[i].Yield)
		}
		if e.Run.Stop != nil {
			add(e.Run.Stop.Yield)
		}
		for i := range plan.Stop { // two that are decided together must not close a circle either
			if plan.Stop[i].Job == e.ID {
				add(plan.Stop[i].Stop.Yield)
			}
		}
	}
	walk(e)
	return out
}

// markEligible marks who may give way to a job by some rights, and says whether
// anybody may. Protected ones are counted.
func (h *victimSearch) markEligible(r preemptionBasis) bool {
	h.round.searchCount++
	h.id, h.eligible, h.debts, h.protections = h.round.searchCount, 0, h.debts[:0], protectionCounts{}
	most := 0
	if r&basisClass != 0 {
		most = max(h.rank-1, 0)
	}
	if r&(basisQuota|basisMove) != 0 {
		most = job.Classes
	}
	for rank := range most {
		for _, e := range h.round.loadVictims(rank, h.now) {
			v := h.round.victimAt[e.Slot]
			v.debtParts = v.debtParts[:0]
			switch {
			case r&basisQuota != 0 && h.borrowedFrom(v):
				v.why = ares.YieldQuota
			case r&basisClass != 0 && rank <= h.rank-2:
				v.why = ares.YieldClass
			case r&basisMove != 0 && h.isMovable(v):
				v.why = ares.YieldMove
			default:
				continue
			}
			if h.barred[e] {
				h.protections.count[protectedHold]++
				continue
			}
			if !v.mayBePreemptedBy(h.rank) {
				h.protections.add(v)
				continue
			}
			if h.ancestry[e.ID] || slices.Contains(h.round.Stopping, e) {
				continue
			}
			v.search, v.chosen = h.id, false
			h.eligible++
		}
	}
	return h.eligible > 0
}

// borrowedFrom says whether all a job holds is borrowed from others, of models that the
// waiting one is promised, and notes by which accounts. One that could stop the
// waiting one by its class in turn is left alone: the two would take turns.
func (h *victimSearch) borrowedFrom(v *candidateVictim) bool {
	if v.rank >= h.rank+2 || v.entry.Shape.Leaf == h.sh.Leaf {
		return false
	}
	for _, part := range v.entry.Held.Grant.ForQuotas {
		d, ok := h.borrowedBy(v.entry.Shape.Leaf, part.Model)
		if !ok || h.guaranteed&cluster.ModelBit(part.Model) == 0 {
			return false // a part of it is its own
		}
		at := slices.IndexFunc(h.debts, func(o debt) bool { return o.Borrowing == d })
		if at < 0 {
			at = len(h.debts)
			h.debts = append(h.debts, debt{d, d.Milli})
		}
		v.debtParts = append(v.debtParts, debtPart{at, part.Milli})
	}
	return len(v.debtParts) > 0
}

// debt is what is borrowed by one account, and what of it is left when those
// are gone who were chosen.
type debt struct {
	queue.Borrowing
	left int64
}

// debtKey names what a leaf owes of a model.
type debtKey struct {
	leaf  *job.QueueLeaf
	model int
}

// borrowedBy is what a leaf owes the waiting job's, worked out once: nothing, if the
// job asks for more than it was promised.
func (h *victimSearch) borrowedBy(l *job.QueueLeaf, model int) (queue.Borrowing, bool) {
	key := debtKey{l, model}
	d, known := h.owed[key]
	if !known {
		if room, ok := h.sh.Leaf.NominalHeadroom(model, l); ok && room >= h.sh.MinGPUMilli() {
			d, _ = l.BorrowedFrom(h.sh.Leaf, model)
		}
		h.owed[key] = d
	}
	return d, d.Milli > 0
}

// bySize is the order in which victims are written down, the smallest first: of who
// is borrowed in part only the last takes more than was lent.
func bySize(a, b *candidateVictim) int { return cmp.Or(cmp.Compare(a.milli, b.milli), byCost(a, b)) }

// byCost is the order of victims, those that lose the least first; of equals
// the one that started last.
func byCost(a, b *candidateVictim) int {
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.milli, b.milli),
		b.entry.Run.Current().PlacedAt.Compare(a.entry.Run.Current().PlacedAt), cmp.Compare(a.entry.ID, b.entry.ID))
}

// NodeVictim is a job with seats on one node that could be ended.
type NodeVictim struct {
	Entry  *job.Entry
	victim *candidateVictim // nil where nobody is preempted
	Seats  []*ares.Seat
	Milli  int // of devices
	Own    bool
}

// SeatsOf yields the seats of some jobs on a node.
func SeatsOf(of []NodeVictim) iter.Seq[*ares.Seat] {
	return func(yield func(*ares.Seat) bool) {
		for i := range of {
			for _, seat := range of[i].Seats {
				if !yield(seat) {
					return
				}
			}
		}
	}
}
