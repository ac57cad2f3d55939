package laws

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// turns wants nobody placed before somebody who precedes him and is placed
// later. Who precedes him and is not placed at all must have found no place:
// that takes another look at the state, and World.Turns takes it.
func turns(t *trial, p *placed) error {
	if p.kept() {
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
func (t *trial) precedes(job, other *ares.Job) string {
	now, step := t.plan.Now, t.cfg.AgeingStep
	mine, its := job.PriorityValue(), other.PriorityValue()
	if t.cfg.Queue.Order == engine.OrderAged {
		mine, its = aged(job, now, step), aged(other, now, step)
	}
	if a, b := ares.ClassOf(mine).Rank(), ares.ClassOf(its).Rank(); a != b {
		if a > b {
			return fmt.Sprintf("its class is %s, not %s", ares.ClassOf(mine), ares.ClassOf(its))
		}
		return ""
	}
	a, b := t.accounts.leaf(job), t.accounts.leaf(other)
	if a == b {
		if t.earlier(job, other) {
			return "it is earlier in the same queue"
		}
		return ""
	}
	a, b = apart(a, b)
	_, mineAtMost := t.accounts.share(a)
	itsAtLeast, _ := t.accounts.share(b)
	if mineAtMost < itsAtLeast {
		return fmt.Sprintf("%s has %.6f of the fleet by weight, %s has %.6f", a.name, mineAtMost, b.name, itsAtLeast)
	}
	return ""
}

// steps is how many whole steps of time had passed since 1970.
func steps(at time.Time, step time.Duration) int64 {
	if step <= 0 {
		return 0
	}
	ms, each := at.UnixMilli(), step.Milliseconds()
	return (ms - ((ms%each)+each)%each) / each
}

// ClassAt is the class of a waiting job at a time.
func ClassAt(job *ares.Job, now time.Time, step time.Duration) ares.Class {
	return ares.ClassOf(aged(job, now, step))
}

// aged is the priority of a job at a time. Only what asked for it is critical.
func aged(job *ares.Job, now time.Time, step time.Duration) int {
	p := job.PriorityValue()
	grown := p + int(steps(now, step)-steps(job.AcceptedAt, step))
	if p >= ares.Critical.Floor() {
		return max(grown, ares.Critical.Floor())
	}
	return min(grown, ares.Critical.Floor()-1)
}

// earlier is the order of one queue inside a class, as it is configured.
func (t *trial) earlier(a, b *ares.Job) bool {
	if t.cfg.Queue.Order == engine.OrderAged {
		return t.ahead(a, b)
	}
	return cmp.Or(cmp.Compare(t.measure(a), t.measure(b)), cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.ID, b.ID)) < 0
}

// ahead is the order of one queue: the critical ones, aged priority or what a
// deadline puts in its place, submission, ID.
func (t *trial) ahead(a, b *ares.Job) bool {
	ac, bc := a.PriorityValue() >= ares.Critical.Floor(), b.PriorityValue() >= ares.Critical.Floor()
	if ac != bc {
		return ac
	}
	x, due := t.level(a)
	y, its := t.level(b)
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

// apart is where the ways of two accounts to the top part: the two siblings.
func apart(a, b *account) (x, y *account) {
	up, down := path(a), path(b)
	for i := range up {
		if up[i] != down[i] {
			return up[i], down[i]
		}
	}
	return a, b
}

// path is an account and all above it, the top first.
func path(a *account) []*account {
	var out []*account
	for ; a != nil; a = a.parent {
		out = append(out, a)
	}
	slices.Reverse(out)
	return out
}

// share is the dominant share of an account by its weight: at least, and at
// most, because past use is kept in whole units and for a limited time, and a weight
// that follows past use is known by its bounds.
func (b *book) share(a *account) (least, most float64) {
	const cut = 1.0 / 30_000
	for r, all := range b.capacity.share {
		if all <= 0 {
			continue
		}
		least = max(least, (a.held.share[r]+max(a.before[r]*(1-cut)-2, 0))/all/a.heavy)
		above := a.before[r]*(1+cut) + 2
		if a.before[r] == 0 {
			above = 0
		}
		most = max(most, (a.held.share[r]+above)/all/a.light)
	}
	return least, most
}
