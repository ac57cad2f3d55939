package laws

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// checkOrder checks that the placements of a plan are in the order of the jobs. A second state is needed to
// check also that no skipped job would have fit (see SkippedJobs).
func checkOrder(t *checker, p *placement) error {
	if p.isOnNominatedSeats() {
		return nil
	}
	turn := t.turnOf(p)
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
		if why := t.precedesTurn(job, &turn); why != "" {
			return fmt.Errorf("job %s should be placed before this job: %s", later.Job, why)
		}
	}
	return nil
}

// roundingError is the relative difference below which two shares count as equal. Shares are quotients of whole
// numbers, but the check computes them with floating-point numbers.
const roundingError = 1e-12

// The method `precedes` returns why a waiting job comes before another job. The result is "" if the waiting job
// does not come before the other job, or if the difference could be a rounding error.
func (t *checker) precedes(job, other *ares.Job) string {
	return t.precedesTurn(job, &turn{job: other, class: WaitingClass(&t.cfg, other, t.plan.Now)})
}

// precedesTurn is like precedes for the turn at which the other job is placed.
func (t *checker) precedesTurn(job *ares.Job, turn *turn) string {
	other, its := turn.job, turn.class
	mine := WaitingClass(&t.cfg, job, t.plan.Now)
	if turn.overdue && t.ledger.accountOf(job) == t.ledger.accountOf(other) {
		return ""
	}
	if a, b := mine.Rank(), its.Rank(); a != b {
		if a > b {
			return fmt.Sprintf("its priority class is %s, and the other job's class is %s", mine, its)
		}
		return ""
	}
	a, b := t.ledger.accountOf(job), t.ledger.accountOf(other)
	if a == b {
		if t.isEarlier(job, other) {
			return "it is ahead in the same queue"
		}
		return ""
	}
	a, b = divergingAccounts(a, b)
	_, mineAtMost := t.ledger.dominantShare(a)
	itsAtLeast, _ := t.ledger.dominantShare(b)
	if mineAtMost < itsAtLeast*(1-roundingError) {
		return fmt.Sprintf("the share of %s divided by its weight is %.6f, and the share of %s is %.6f", a.name, mineAtMost, b.name, itsAtLeast)
	}
	return ""
}

// ageingSteps returns the number of whole ageing steps from 1970 until a time.
func ageingSteps(at time.Time, step time.Duration) int64 {
	if step <= 0 {
		return 0
	}
	ms, each := at.UnixMilli(), step.Milliseconds()
	return (ms - ((ms%each)+each)%each) / each
}

// WaitingClass returns the priority class of a waiting job at the time `now`. Waiting may have raised its class.
func WaitingClass(cfg *config.Config, job *ares.Job, now time.Time) ares.Class {
	switch cfg.Queue.Order {
	case config.OrderAged:
		return ares.ClassOf(agedPriority(job, now, cfg.AgeingStep))
	case config.OrderExpectedWork:
		return ares.ClassOf(risenPriority(job, now, cfg.AgeingStep))
	default:
		return ares.ClassOf(job.PriorityValue())
	}
}

// agedPriority returns the priority of a job at the given time, including ageing. Ageing
// never makes a job critical: only jobs that were submitted as critical have that class.
func agedPriority(job *ares.Job, now time.Time, step time.Duration) int {
	p := job.PriorityValue()
	grown := p + int(ageingSteps(now, step)-ageingSteps(job.AcceptedAt, step))
	if p >= ares.Critical.Floor() {
		return max(grown, ares.Critical.Floor())
	}
	return min(grown, ares.Critical.Floor()-1)
}

// isEarlier compares two jobs of the same queue and class. It reports whether job a comes
// before job b by the configured order.
func (t *checker) isEarlier(a, b *ares.Job) bool {
	if t.cfg.Queue.Order == config.OrderAged {
		return t.isEarlierAged(a, b)
	}
	if t.cfg.Queue.Order == config.OrderExpectedWork {
		return cmp.Or(t.workRankOf(a).compare(t.workRankOf(b)), cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.ID, b.ID)) < 0
	}
	return cmp.Or(cmp.Compare(t.orderKey(a), t.orderKey(b)), cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.ID, b.ID)) < 0
}

// isEarlierAged reports whether job a comes before job b in the default order. Critical
// jobs come first. Other jobs are ordered by aged priority or deadline rank, then by
// submission, then by ID.
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

// divergingAccounts compares the paths from the top to two accounts. The paths diverge at two accounts that have
// the same parent. These two accounts are the results.
func divergingAccounts(a, b *account) (x, y *account) {
	up, down := pathFromTop(a), pathFromTop(b)
	for i := range up {
		if up[i] != down[i] {
			return up[i], down[i]
		}
	}
	return a, b
}

// pathFromTop returns an account and all accounts above it, starting with the topmost.
func pathFromTop(a *account) []*account {
	var out []*account
	for ; a != nil; a = a.parent {
		out = append(out, a)
	}
	slices.Reverse(out)
	return out
}

// dominantShare returns a lower and an upper bound of the weighted dominant share of an account. The bounds are not
// exact, for two reasons. Past usage is stored in whole units and for a limited time. A weight that depends on past
// usage is known only within bounds.
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
