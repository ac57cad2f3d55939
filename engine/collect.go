package engine

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// affords says whether no more is taken back of anybody than it has borrowed. Of
// who is borrowed in part only the last may exceed it.
func (h *hunt) affords(victims []*rival) bool {
	for i := range h.debts {
		h.debts[i].left = h.debts[i].Over
	}
	victims = slices.SortedFunc(slices.Values(victims), bySize)
	for _, v := range victims {
		if v.why == ares.YieldQuota && !h.collect(v) {
			return false
		}
	}
	return true
}

// owing says whether what is left of a job's debts allows to take it.
func (h *hunt) owing(v *rival) bool {
	if v.why != ares.YieldQuota {
		return true
	}
	for _, p := range v.debts {
		if left := h.debts[p.debt].left; left <= 0 || !h.partly && left < p.milli {
			return false
		}
	}
	return true
}

// collect counts that a job goes against what it owes. It is false, and counts
// nothing, when it does not owe enough any more.
func (h *hunt) collect(v *rival) bool {
	if !h.owing(v) {
		return false
	}
	if v.why == ares.YieldQuota {
		for _, p := range v.debts {
			h.debts[p.debt].left -= p.milli
		}
	}
	return true
}

// admits says whether the limits and quotas leave room for the job once the
// victims are gone.
func (h *hunt) admits(c *choice) bool {
	for _, v := range c.victims {
		v.entry.shape.leaf.Charge(v.entry.held.grant, -1)
	}
	ok := h.try.state.mayHave(h.sh, c.seats, h.now)
	for _, v := range c.victims {
		v.entry.shape.leaf.Charge(v.entry.held.grant, 1)
	}
	return ok
}

// makeRoom adds victims to a choice who sit elsewhere and have borrowed what quotas
// promise the job: it may have a place, and yet no room in the pool. It takes those
// that lose the least, and does without whom it need not have taken.
func (h *hunt) makeRoom(c *choice) {
	if !h.affords(c.victims) {
		return
	}
	var debtors []*rival
	for _, e := range h.try.rivals {
		if v := e.rival; v.search == h.id && v.why == ares.YieldQuota && !slices.Contains(c.victims, v) {
			debtors = append(debtors, v)
		}
	}
	slices.SortFunc(debtors, byLoss)
	had, some := len(c.victims), false
	for _, v := range debtors {
		if !h.collect(v) {
			continue
		}
		c.victims = append(c.victims, v)
		if some = h.admits(c); some {
			break
		}
	}
	if !some {
		c.victims = c.victims[:had]
		return
	}
	for i := len(c.victims) - 2; i >= had; i-- { // the last is needed
		less := choice{seats: c.seats, victims: slices.Delete(slices.Clone(c.victims), i, i+1)}
		if h.admits(&less) {
			c.victims = less.victims
		}
	}
}
