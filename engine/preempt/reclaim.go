package preempt

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// withinDebts says whether no more is taken back of anybody than it has borrowed. Of
// who is borrowed in part only the last may exceed it.
func (h *victimSearch) withinDebts(victims []*candidateVictim) bool {
	for i := range h.debts {
		h.debts[i].left = h.debts[i].Milli
	}
	victims = slices.SortedFunc(slices.Values(victims), bySize)
	for _, v := range victims {
		if v.why == ares.YieldQuota && !h.reclaim(v) {
			return false
		}
	}
	return true
}

// stillBorrowed says whether what is left of a job's debts allows to take it.
func (h *victimSearch) stillBorrowed(v *candidateVictim) bool {
	if v.why != ares.YieldQuota {
		return true
	}
	for _, p := range v.debtParts {
		if left := h.debts[p.debt].left; left <= 0 || !h.allowPartial && left < p.milli {
			return false
		}
	}
	return true
}

// reclaim counts that a job goes against what it owes. It is false, and counts
// nothing, when it does not owe enough any more.
func (h *victimSearch) reclaim(v *candidateVictim) bool {
	if !h.stillBorrowed(v) {
		return false
	}
	if v.why == ares.YieldQuota {
		for _, p := range v.debtParts {
			h.debts[p.debt].left -= p.milli
		}
	}
	return true
}

// admitsAfter says whether the limits and quotas leave room for the job once the
// victims are gone.
func (h *victimSearch) admitsAfter(c *victimSelection) bool {
	for _, v := range c.victims {
		v.entry.Shape.Leaf.Charge(v.entry.Held.Grant, -1)
	}
	ok := h.round.Jobs.AdmitsSeats(h.sh, c.seats, h.now)
	for _, v := range c.victims {
		v.entry.Shape.Leaf.Charge(v.entry.Held.Grant, 1)
	}
	return ok
}

// reclaimQuota adds victims to a choice who sit elsewhere and have borrowed what quotas
// promise the job: it may have a place, and yet no room in the pool. It takes those
// that lose the least, and does without whom it need not have taken.
func (h *victimSearch) reclaimQuota(c *victimSelection) {
	if !h.withinDebts(c.victims) {
		return
	}
	var debtors []*candidateVictim
	for _, e := range h.round.Victims {
		if v := h.round.victimAt[e.Slot]; v.search == h.id && v.why == ares.YieldQuota && !slices.Contains(c.victims, v) {
			debtors = append(debtors, v)
		}
	}
	slices.SortFunc(debtors, byCost)
	had, some := len(c.victims), false
	for _, v := range debtors {
		if !h.reclaim(v) {
			continue
		}
		c.victims = append(c.victims, v)
		if some = h.admitsAfter(c); some {
			break
		}
	}
	if !some {
		c.victims = c.victims[:had]
		return
	}
	for i := len(c.victims) - 2; i >= had; i-- { // the last is needed
		less := victimSelection{seats: c.seats, victims: slices.Delete(slices.Clone(c.victims), i, i+1)}
		if h.admitsAfter(&less) {
			c.victims = less.victims
		}
	}
}
