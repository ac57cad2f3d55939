package laws

import (
	"fmt"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reclaims wants a job that takes back to be promised what it asks for, and the
// one that gives way to be of somebody who has borrowed. What the plan gives
// others counts for the borrower only: it may have come before.
func (t *trial) reclaims(job, to *ares.Job) error {
	promised, owes := false, false
	for _, pattern := range t.accounts.patterns() {
		if t.promises(to, pattern) {
			promised = true
			owes = owes || t.borrows(job, to, pattern)
		}
	}
	switch {
	case !promised:
		return fmt.Errorf("%s gives way to %s, which no quota promises so much", job.ID, to.ID)
	case !owes:
		return fmt.Errorf("%s gives way to %s, and its tenant has borrowed nothing", job.ID, to.ID)
	}
	return nil
}

// promises says whether the quotas above a job hold what it asks for beside what
// is used, without borrowing. What quotas below keep for it is not seen above.
func (t *trial) promises(job *ares.Job, pattern string) bool {
	asked := int64(max(job.MinMembers, 1)) * int64(max(1000*job.GPUs, job.GPUMilli))
	if job.MinMembers == 0 {
		asked = int64(max(job.Members, 1)) * int64(max(1000*job.GPUs, job.GPUMilli))
	}
	seen := false
	for a := t.accounts.leaf(job); a != nil; a = a.parent {
		q := a.quota(pattern)
		if q == nil {
			continue
		}
		seen = true
		if t.accounts.demand(a, pattern)+asked > 1000*int64(q.Nominal) && t.slackBelow(job, a, pattern) < asked {
			return false
		}
	}
	return seen
}

// slackBelow is what quotas between a job and an account keep for themselves and
// do not use.
func (t *trial) slackBelow(job *ares.Job, up *account, pattern string) (slack int64) {
	for a := t.accounts.leaf(job); a != nil && a != up; a = a.parent {
		if a.quota(pattern) != nil {
			slack += max(t.accounts.claim(a, pattern)-t.accounts.demand(a, pattern), 0)
		}
	}
	return slack
}

// borrows says whether the side of one job holds more than it was promised, as
// the other sees it: by the highest quota that is not above both.
func (t *trial) borrows(job, other *ares.Job, pattern string) bool {
	above := map[*account]bool{}
	for a := t.accounts.leaf(other); a != nil; a = a.parent {
		above[a] = true
	}
	var top *account
	for a := t.accounts.leaf(job); a != nil && !above[a]; a = a.parent {
		if a.quota(pattern) != nil {
			top = a
		}
	}
	if top == nil {
		return false
	}
	have := t.accounts.demand(top, pattern) + t.coming(top, pattern)
	return have > 1000*int64(top.quota(pattern).Nominal)
}

// coming is what the plan gives, and nominations keep, to jobs under an account.
func (t *trial) coming(top *account, pattern string) (milli int64) {
	add := func(job *ares.Job, seats []ares.Seat) {
		for a := t.accounts.leaf(job); a != nil; a = a.parent {
			if a != top {
				continue
			}
			for i := range seats {
				for model, n := range t.accounts.amountOf(job, &seats[i]).models { // order-free: a sum
					if strings.Contains(model, pattern) {
						milli += int64(n)
					}
				}
			}
		}
	}
	for i := range t.plan.Place {
		if pl, err := t.next(i); err == nil {
			add(pl.job, pl.Seats)
		}
	}
	for id, n := range t.live() { // order-free: a sum
		if job, ok := t.state.Job(id); ok {
			add(job, n.Seats)
		}
	}
	return milli
}
