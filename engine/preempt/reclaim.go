package preempt

import (
	"slices"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/queue"
)

// quotaReclaim tracks borrowed quota during a search.
type quotaReclaim struct {
	guaranteed    uint64 // models that quotas guarantee to the waiting job
	borrowedCache map[borrowerKey]queue.Borrowing
	borrowed      []borrowedQuota // quotas found by isBorrowed
	allowPartial  bool            // the last victim of each quota may hold more than is borrowed
	before, after []int64         // scratch of admitsAfter
}

// borrowedQuota holds the amount borrowed from one quota, and the amount that remains borrowed when the
// selected victims have stopped.
type borrowedQuota struct {
	queue.Borrowing
	unreclaimed int64
}

// borrowerKey is a leaf queue and a GPU model that the queue may borrow.
type borrowerKey struct {
	leaf  *job.QueueLeaf
	model int
}

// borrowedPart says how much of one borrowed quota a job holds.
type borrowedPart struct {
	quota int // index in quotaReclaim.borrowed
	milli int64
}

// isBorrowed reports whether all devices of a job are borrowed. In addition, their models must be guaranteed
// to the waiting job. isBorrowed also records the borrowed quotas. isBorrowed returns false if the class of
// this job would allow it to preempt the waiting job. Otherwise the two jobs would preempt each other again
// and again.
func (s *victimSearch) isBorrowed(v *candidateVictim) bool {
	if v.rank >= s.rank+2 || v.entry.Shape.Leaf == s.shape.Leaf {
		return false
	}
	for _, part := range v.entry.Held.Allocation.ForQuotas {
		d, ok := s.borrowedByQueue(v.entry.Shape.Leaf, part.Model)
		if !ok || s.quota.guaranteed&cluster.ModelBit(part.Model) == 0 {
			return false // a part is within the job's own quota
		}
		at := slices.IndexFunc(s.quota.borrowed, func(o borrowedQuota) bool { return o.Borrowing == d })
		if at < 0 {
			at = len(s.quota.borrowed)
			s.quota.borrowed = append(s.quota.borrowed, borrowedQuota{d, d.Milli})
		}
		v.borrowedParts = append(v.borrowedParts, borrowedPart{at, part.Milli})
	}
	return len(v.borrowedParts) > 0
}

// borrowedByQueue returns the amount that a leaf queue borrows from the waiting job's queue. If the waiting job
// requests more than the rest of its own nominal quota, the amount is zero.
func (s *victimSearch) borrowedByQueue(l *job.QueueLeaf, model int) (queue.Borrowing, bool) {
	key := borrowerKey{l, model}
	d, known := s.quota.borrowedCache[key]
	if !known {
		if headroom, ok := s.shape.Leaf.NominalHeadroom(model, l); ok && headroom >= s.shape.MinGPUMilli() {
			d, _ = l.BorrowedFrom(s.shape.Leaf, model)
		}
		s.quota.borrowedCache[key] = d
	}
	return d, d.Milli > 0
}

// resetReclaim sets the reclaimed amounts to zero.
func (s *victimSearch) resetReclaim() {
	for i := range s.quota.borrowed {
		s.quota.borrowed[i].unreclaimed = s.quota.borrowed[i].Milli
	}
}

// withinBorrowed reports whether the victims hold no more than the borrowed amount. If allowPartial is true,
// the last victim may hold more than the rest of the borrowed amount.
func (s *victimSearch) withinBorrowed(victims []*candidateVictim) bool {
	s.resetReclaim()
	victims = slices.SortedFunc(slices.Values(victims), bySize)
	for _, v := range victims {
		if v.reason == ares.PreemptByQuota && !s.reclaim(v) {
			return false
		}
	}
	return true
}

// mayReclaim reports whether the job may be stopped to reclaim quota. The borrowed quota that is still to be
// reclaimed must be large enough for this job.
func (s *victimSearch) mayReclaim(v *candidateVictim) bool {
	if v.reason != ares.PreemptByQuota {
		return true
	}
	for _, p := range v.borrowedParts {
		if left := s.quota.borrowed[p.quota].unreclaimed; left <= 0 || !s.quota.allowPartial && left < p.milli {
			return false
		}
	}
	return true
}

// The method `reclaim` subtracts a job from the borrowed quota that is still to be
// reclaimed. If not enough of it is left, the method subtracts nothing and returns false.
func (s *victimSearch) reclaim(v *candidateVictim) bool {
	if !s.mayReclaim(v) {
		return false
	}
	if v.reason == ares.PreemptByQuota {
		for _, p := range v.borrowedParts {
			s.quota.borrowed[p.quota].unreclaimed -= p.milli
		}
	}
	return true
}

// admitsAfter reports whether limits and quotas allow the job as soon as the victims have stopped. If a victim is
// stopped to reclaim quota, the exchange must not make the job's tenant or queues borrow more than before.
func (s *victimSearch) admitsAfter(sel *victimSelection) bool {
	leaf := s.shape.Leaf
	reclaims := slices.ContainsFunc(sel.victims, func(v *candidateVictim) bool { return v.reason == ares.PreemptByQuota })
	if reclaims {
		s.quota.before = leaf.AppendBorrowed(s.quota.before[:0])
	}
	for _, v := range sel.victims {
		v.entry.Shape.Leaf.Charge(v.entry.Held.Allocation, -1)
	}
	ok := s.round.Jobs.AdmitsSeats(s.shape, sel.seats, s.now)
	if ok && reclaims {
		grant := s.round.Jobs.AllocationOf(s.shape, sel.seats)
		leaf.Charge(grant, 1)
		s.quota.after = leaf.AppendBorrowed(s.quota.after[:0])
		leaf.Charge(grant, -1)
		for i, borrowed := range s.quota.after {
			ok = ok && borrowed <= s.quota.before[i]
		}
	}
	for _, v := range sel.victims {
		v.entry.Shape.Leaf.Charge(v.entry.Held.Allocation, 1)
	}
	return ok
}

// Some jobs borrow quota that is guaranteed to the waiting job. reclaimQuota adds such jobs as victims, even if
// they are on other nodes. The waiting job may have enough free devices and still lack quota. reclaimQuota adds
// the cheapest victims first, and then drops victims that are not needed.
func (s *victimSearch) reclaimQuota(sel *victimSelection) {
	if !s.withinBorrowed(sel.victims) {
		return
	}
	var borrowers []*candidateVictim
	for _, e := range s.round.Victims {
		if v := s.round.victimBySlot[e.Slot]; v.eligibleIn == s.id && v.reason == ares.PreemptByQuota && !slices.Contains(sel.victims, v) {
			borrowers = append(borrowers, v)
		}
	}
	slices.SortFunc(borrowers, byCost)
	had, admitted := len(sel.victims), false
	for _, v := range borrowers {
		if !s.reclaim(v) {
			continue
		}
		sel.victims = append(sel.victims, v)
		if admitted = s.admitsAfter(sel); admitted {
			break
		}
	}
	if !admitted {
		sel.victims = sel.victims[:had]
		return
	}
	for i := len(sel.victims) - 2; i >= had; i-- { // the last victim is needed
		less := victimSelection{seats: sel.seats, victims: slices.Delete(slices.Clone(sel.victims), i, i+1)}
		if s.admitsAfter(&less) {
			sel.victims = less.victims
		}
	}
}
