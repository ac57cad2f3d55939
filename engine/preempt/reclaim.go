package preempt

import (
	"slices"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/queue"
)

// quotaReclaim is what a search knows of borrowed quota.
type quotaReclaim struct {
	guaranteed    uint64 // models that quotas guarantee to the waiting job
	borrowedCache map[borrowerKey]queue.Borrowing
	borrowed      []borrowedQuota // found by isBorrowed
	allowPartial  bool            // the last victim of each quota may hold more than is borrowed
}

// borrowedQuota is what is borrowed of one quota, and what is left of that when the
// selected victims are gone.
type borrowedQuota struct {
	queue.Borrowing
	unreclaimed int64
}

// borrowerKey is a leaf queue and a model that it may borrow.
type borrowerKey struct {
	leaf  *job.QueueLeaf
	model int
}

// borrowedPart is what a job holds of one borrowed quota.
type borrowedPart struct {
	quota int // index in quotaReclaim.borrowed
	milli int64
}

// isBorrowed reports whether all a job holds is borrowed, of models that are guaranteed
// to the waiting job, and notes of which quotas. Jobs that could preempt the waiting job
// by class are left out: the two would preempt each other in turn.
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

// borrowedByQueue is what a leaf queue borrows from that of the waiting job. It is
// nothing if the job asks for more than its own guaranteed quota has left.
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

// resetReclaim starts over with nothing reclaimed.
func (s *victimSearch) resetReclaim() {
	for i := range s.quota.borrowed {
		s.quota.borrowed[i].unreclaimed = s.quota.borrowed[i].Milli
	}
}

// withinBorrowed reports whether the victims hold no more than is borrowed. With
// allowPartial the last victim of a quota may exceed it.
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

// mayReclaim reports whether enough of the borrowed quota is left to stop the job.
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

// reclaim counts a job against the borrowed quota. It returns false, and counts nothing,
// if not enough is left.
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

// admitsAfter reports whether limits and quotas admit the job once the victims are gone.
func (s *victimSearch) admitsAfter(sel *victimSelection) bool {
	for _, v := range sel.victims {
		v.entry.Shape.Leaf.Charge(v.entry.Held.Allocation, -1)
	}
	ok := s.round.Jobs.AdmitsSeats(s.shape, sel.seats, s.now)
	for _, v := range sel.victims {
		v.entry.Shape.Leaf.Charge(v.entry.Held.Allocation, 1)
	}
	return ok
}

// reclaimQuota adds victims that run elsewhere, but borrow quota that is guaranteed to
// the job: the job may have its seats and still lack quota. It adds the cheapest, and
// then drops those that are not needed.
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
	for i := len(sel.victims) - 2; i >= had; i-- { // the last is needed
		less := victimSelection{seats: sel.seats, victims: slices.Delete(slices.Clone(sel.victims), i, i+1)}
		if s.admitsAfter(&less) {
			sel.victims = less.victims
		}
	}
}
