package laws

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// checkOrder wants nobody placed before somebody who precedes him and is placed
// later. Who precedes him and is not placed at all must have found no place:
// that takes another look at the state, and World.Turns takes it.
func checkOrder(t *checker, p *placement) error {
	if p.isOnNominatedSeats() {
		return nil
	}
	for i := p.index + 1; i < len(t.plan.Place); i++ {
		later := &t.plan.Place[i]
		id := later.Job
		if later.ArrayOf != "" {
			id = later.ArrayOf
		}
		job, ok := t.state.Job(id)
		if !ok || job == p.job {
			continue
		}
		if why := t.precedes(job, p.job); why != "" {
			return fmt.Errorf("%s is placed later: %s", later.Job, why)
		}
	}
	return nil
}

// precedes says why a waiting job's turn is before another's, "" when it is not
// or when rounding could have decided it.
func (t *checker) precedes(job, other *ares.Job) string {
	now, step := t.plan.Now, t.cfg.AgeingStep
	mine, its := job.PriorityValue(), other.PriorityValue()
	if t.cfg.Queueing.Order == engine.OrderAged {
		mine, its = agedPriority(job, now, step), agedPriority(other, now, step)
	}
	if a, b := ares.ClassOf(mine).Rank(), ares.ClassOf(its).Rank(); a != b {
		if a > b {
			return fmt.Sprintf("its class is %s, not %s", ares.ClassOf(mine), ares.ClassOf(its))
		}
		return ""
	}
	a, b := t.ledger.accountOf(job), t.ledger.accountOf(other)
	if a == b {
		if t.isEarlier(job, other) {
			return "it is earlier in the same queue"
		}
		return ""
	}
	a, b = divergingAccounts(a, b)
	_, mineAtMost := t.ledger.dominantShare(a)
	itsAtLeast, _ := t.ledger.dominantShare(b)
	if mineAtMost < itsAtLeast {
		return fmt.Sprintf("%s has %.6f of the fleet by weight, %s has %.6f", a.name, mineAtMost, b.name, itsAtLeast)
	}
	return ""
}

// ageingSteps is how many whole steps of time had passed since 1970.
func ageingSteps(at time.Time, step time.Duration) int64 {
	if step <= 0 {
		return 0
	}
	ms, each := at.UnixMilli(), step.Milliseconds()
	return (ms - ((ms%each)+each)%each) / each
}

// ClassAt is the class of a waiting job at a time.
func ClassAt(job *ares.Job, now time.Time, step time.Duration) ares.Class {
	return ares.ClassOf(agedPriority(job, now, step))
}

// agedPriority is the priority of a job at a time. Only what asked for it is critical.
func agedPriority(job *ares.Job, now time.Time, step time.Duration) int {
	p := job.PriorityValue()
	grown := p + int(ageingSteps(now, step)-ageingSteps(job.AcceptedAt, step))
	if p >= ares.Critical.Floor() {
		return max(grown, ares.Critical.Floor())
	}
	return min(grown, ares.Critical.Floor()-1)
}

// isEarlier is the order of one queue inside a class, as it is configured.
func (t *checker) isEarlier(a, b *ares.Job) bool {
	if t.cfg.Queueing.Order == engine.OrderAged {
		return t.isEarlierAged(a, b)
	}
	return cmp.Or(cmp.Compare(t.orderKey(a), t.orderKey(b)), cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.ID, b.ID)) < 0
}

// isEarlierAged is the order of one queue: the critical ones, aged priority or what a
// deadline puts in its place, submission, ID.
func (t *checker) isEarlierAged(a, b *ares.Job) bool {
	ac, bc := a.PriorityValue() >= ares.Critical.Floor(), b.PriorityValue() >= ares.Critical.Floor()
	if ac != bc {
		return ac
	}
	x, due := t.queueRank(a)
	y, its := t.queueRank(b)
	if x != y {
		return x > y
	}
	if !due.Equal(its) {
		return due.Before(its)
	}
	if a.Revision != b.Revision {
		return a.Revision < b.Revision
	}
	return a.ID < b.ID
}

// divergingAccounts is where the ways of two accounts to the top part: the two siblings.
func divergingAccounts(a, b *account) (x, y *account) {
	up, down := pathFromTop(a), pathFromTop(b)
	for i := range up {
		if up[i] != down[i] {
			return up[i], down[i]
		}
	}
	return a, b
}

// pathFromTop is an account and all above it, the top first.
func pathFromTop(a *account) []*account {
	var out []*account
	for ; a != nil; a = a.parent {
		out = append(out, a)
	}
	slices.Reverse(out)
	return out
}

// dominantShare is the dominant share of an account by its weight: at least, and at
// most, because past use is kept in whole units and for a limited time, and a weight
// that follows past use is known by its bounds.
func (b *ledger) dominantShare(a *account) (least, most float64) {
	const cut = 1.0 / 30_000
	for r, all := range b.capacity.resources {
		if all <= 0 {
			continue
		}
		least = max(least, (a.current.resources[r]+max(a.pastUse[r]*(1-cut)-2, 0))/all/a.maxWeight)
		above := a.pastUse[r]*(1+cut) + 2
		if a.pastUse[r] == 0 {
			above = 0
		}
		most = max(most, (a.current.resources[r]+above)/all/a.minWeight)
	}
	return least, most
}
