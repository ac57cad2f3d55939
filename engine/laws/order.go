package laws

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// checkOrder checks that no job is placed before another that precedes it and
// is placed later. A job that precedes it and is not placed at all must not
// have fit; that check needs a second state (see SkippedJobs).
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

// roundingError is the relative difference below which two shares are equal: they are
// quotients of whole numbers, and the law computes with floating point.
const roundingError = 1e-12

// precedes returns why a waiting job comes before another, "" if it does not or
// if rounding could decide it.
func (t *checker) precedes(job, other *ares.Job) string {
	now, step := t.plan.Now, t.cfg.AgeingStep
	mine, its := job.PriorityValue(), other.PriorityValue()
	if t.cfg.Queue.Order == config.OrderAged {
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
	if mineAtMost < itsAtLeast*(1-roundingError) {
		return fmt.Sprintf("%s has %.6f of the fleet by weight, %s has %.6f", a.name, mineAtMost, b.name, itsAtLeast)
	}
	return ""
}

// ageingSteps returns the whole ageing steps from 1970 until a time.
func ageingSteps(at time.Time, step time.Duration) int64 {
	if step <= 0 {
		return 0
	}
	ms, each := at.UnixMilli(), step.Milliseconds()
	return (ms - ((ms%each)+each)%each) / each
}

// AgedClass returns the class of a waiting job at a time, after ageing.
func AgedClass(job *ares.Job, now time.Time, step time.Duration) ares.Class {
	return ares.ClassOf(agedPriority(job, now, step))
}

// agedPriority returns the priority of a job at a time. Only jobs submitted as
// critical are critical.
func agedPriority(job *ares.Job, now time.Time, step time.Duration) int {
	p := job.PriorityValue()
	grown := p + int(ageingSteps(now, step)-ageingSteps(job.AcceptedAt, step))
	if p >= ares.Critical.Floor() {
		return max(grown, ares.Critical.Floor())
	}
	return min(grown, ares.Critical.Floor()-1)
}

// isEarlier reports whether a comes before b in one queue and class, by the
// configured order.
func (t *checker) isEarlier(a, b *ares.Job) bool {
	if t.cfg.Queue.Order == config.OrderAged {
		return t.isEarlierAged(a, b)
	}
	return cmp.Or(cmp.Compare(t.orderKey(a), t.orderKey(b)), cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.ID, b.ID)) < 0
}

// isEarlierAged reports whether a comes before b in the default order: critical
// jobs, then aged priority or the rank by deadline, then submission, then ID.
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

// divergingAccounts returns the two siblings at which the paths of two accounts
// to the top diverge.
func divergingAccounts(a, b *account) (x, y *account) {
	up, down := pathFromTop(a), pathFromTop(b)
	for i := range up {
		if up[i] != down[i] {
			return up[i], down[i]
		}
	}
	return a, b
}

// pathFromTop returns an account and all above it, the topmost first.
func pathFromTop(a *account) []*account {
	var out []*account
	for ; a != nil; a = a.parent {
		out = append(out, a)
	}
	slices.Reverse(out)
	return out
}

// dominantShare returns bounds on the weighted dominant share of an account. It
// is not exact because past use is stored in whole units and for a limited
// time, and a weight that depends on past use is only known by its bounds.
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
