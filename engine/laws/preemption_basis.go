package laws

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// checkPreemptionBasis checks that every victim is preempted for a valid reason. A preemption by class is valid
// under two conditions. The preempting job was submitted two or more classes above the victim, and its tenant is
// allowed to preempt jobs. A preemption by quota is valid if the victim has borrowed quota, and the preempting
// job stays within its own nominal quotas.
func checkPreemptionBasis(t *checker) error {
	for i := range t.plan.Nominate {
		n := &t.plan.Nominate[i]
		job, ok := t.state.Job(n.Job)
		if !ok {
			return fmt.Errorf("the nominated job %s does not exist", n.Job)
		}
		var gone []*ares.Job
		// Check the largest victim last. The last victim, and no other, may hold more devices than are still
		// borrowed.
		victims := slices.SortedStableFunc(slices.Values(n.Nomination.Victims), func(a, b ares.Victim) int {
			return cmp.Compare(a.Preemption.Milli, b.Preemption.Milli)
		})
		for k := range victims {
			v := &victims[k]
			victim, known := t.state.Job(v.Job)
			if !known {
				return fmt.Errorf("the victim %s does not exist", v.Job)
			}
			if err := t.checkVictimBasis(job, victim, &n.Nomination, v.Preemption.Why, gone); err != nil {
				return fmt.Errorf("%s is preempted for %s (%s): %w", v.Job, n.Job, v.Preemption.Why, err)
			}
			gone = append(gone, victim)
		}
	}
	return nil
}

// checkVictimBasis checks one victim. It assumes that the jobs in the parameter `gone` have already stopped.
func (t *checker) checkVictimBasis(job, victim *ares.Job, n *ares.Nomination, why ares.PreemptionBasis, gone []*ares.Job) error {
	run, _ := t.state.Run(victim.ID)
	if reason, protected := t.state.Protection(victim.ID); protected {
		return fmt.Errorf("the victim is protected: %s", reason)
	}
	mine, its := ares.ClassOf(job.PriorityValue()).Rank(), ares.ClassOf(victim.PriorityValue()).Rank()
	switch tenant := t.tenants[job.Tenant]; {
	case run.MustFinish(victim):
		return fmt.Errorf("the victim is an at_most_once job that has started")
	case victim.Placement().LatencySensitive && mine < ares.Critical.Rank():
		return fmt.Errorf("the victim is latency-sensitive, and the preempting job is not critical")
	case why == ares.PreemptByMove && victim.Placement().LatencySensitive:
		return fmt.Errorf("the victim is latency-sensitive, and such jobs are never moved")
	case why == ares.PreemptByOrder, why == ares.PreemptByMove:
		return nil // other laws on preemption check the rest
	case why == ares.PreemptByClass && (tenant == nil || !tenant.MayPreempt):
		return fmt.Errorf("tenant %s is not allowed to preempt jobs", job.Tenant)
	case why == ares.PreemptByClass && mine-its < 2:
		return fmt.Errorf("priority class %s must be at least two classes above %s", ares.ClassOf(job.PriorityValue()), ares.ClassOf(victim.PriorityValue()))
	case why == ares.PreemptByClass:
		return nil
	case why == ares.PreemptByQuota:
		return t.checkReclaim(job, victim, n, gone)
	}
	return fmt.Errorf("the preemption has an unknown reason")
}

// checkReclaim checks that the job stays within its own nominal quotas. It also checks that the victim has
// borrowed quota: a quota that applies to the victim, but not to the job, must be exceeded. Quota borrowed by
// jobs that are being stopped counts as returned. The plan's own placements and nominations count as demand.
func (t *checker) checkReclaim(job, victim *ares.Job, n *ares.Nomination, gone []*ares.Job) error {
	now := newChecker(t.state, t.plan)
	now.removeStopped(job.ID, gone)
	now.addOthers(job.ID)
	mine := map[*account]bool{}
	for a := now.ledger.accountOf(job); a != nil; a = a.parent {
		mine[a] = true
	}
	for _, pattern := range now.ledger.quotaPatterns() {
		if len(nominatedDevices(now, n, pattern)) == 0 {
			continue
		}
		for a := now.ledger.accountOf(victim); a != nil && !mine[a]; a = a.parent {
			q := a.quota(pattern)
			if q != nil && now.ledger.quotaDemand(a, pattern) > 1000*int64(q.Nominal) && t.isWithinQuota(job, n) {
				return nil
			}
		}
	}
	return fmt.Errorf("the victim has not borrowed from the nominal quota of %s", job.Tenant)
}

// isWithinQuota assumes that the victims have stopped and that the job has its nominated seats. It reports
// whether the job then stays within all its nominal quotas. If the job's devices have several models, each model
// must stay within its quotas.
func (t *checker) isWithinQuota(job *ares.Job, n *ares.Nomination) bool {
	with := newChecker(t.state, t.plan)
	var gone []*ares.Job
	for i := range n.Victims {
		if victim, ok := t.state.Job(n.Victims[i].Job); ok {
			gone = append(gone, victim)
		}
	}
	with.removeStopped(job.ID, gone)
	for k := range n.Seats {
		with.addSeat(job, &n.Seats[k], true)
	}
	covered := map[deviceKey]bool{}
	for _, pattern := range with.ledger.quotaPatterns() {
		of := nominatedDevices(with, n, pattern)
		if len(of) == 0 {
			continue
		}
		for a := with.ledger.accountOf(job); a != nil; a = a.parent {
			q := a.quota(pattern)
			if q == nil {
				continue
			}
			for _, d := range of {
				covered[d] = true
			}
			// If the job and its victims use the same quota, this quota may already be exceeded. In that case
			// the job must not increase the demand.
			if after := with.ledger.quotaDemand(a, pattern); after > 1000*int64(q.Nominal) && after > t.currentDemand(a.name, pattern) {
				return false
			}
		}
	}
	return len(covered) == len(nominatedDevices(with, n, ""))
}

// currentDemand returns the amount that currently counts against a quota of the named account.
func (t *checker) currentDemand(name, pattern string) int64 {
	if a := t.ledger.accounts[name]; a != nil {
		return t.ledger.quotaDemand(a, pattern)
	}
	return 0
}

// removeStopped removes three kinds of jobs from the accounts. The first kind are jobs that are being stopped.
// The second kind are jobs that come before the given job's victims in the plan's list of stops. The third kind
// are the jobs in the parameter `gone`.
func (t *checker) removeStopped(job ares.JobID, gone []*ares.Job) {
	before := map[ares.JobID]bool{}
	for i := range t.plan.Stop {
		if y := t.plan.Stop[i].Stop.Preemption; y != nil && y.To == job {
			break
		}
		before[t.plan.Stop[i].Job] = true
	}
	for other, run := range t.state.Jobs() {
		if run != nil && (run.Stop != nil || before[other.ID] || slices.Contains(gone, other)) {
			t.removeJob(other, run)
		}
	}
}

// addOthers adds the plan's placements and the nominated seats of all other jobs to the accounts.
func (t *checker) addOthers(but ares.JobID) {
	for i := range t.plan.Place {
		if pl, err := t.nextPlacement(i); err == nil {
			t.addPlacement(pl)
		}
	}
	for job := range t.state.Jobs() {
		if n := t.nominationAfterPlan(job.ID); n != nil && job.ID != but {
			for k := range n.Seats {
				t.addSeat(job, &n.Seats[k], true)
			}
		}
	}
}

// nominatedDevices returns those devices of a nomination whose model matches the pattern.
func nominatedDevices(t *checker, n *ares.Nomination, pattern string) (out []deviceKey) {
	for i := range n.Seats {
		m := t.nodes[n.Seats[i].Node]
		for _, sh := range n.Seats[i].Shares {
			key := deviceKey{n.Seats[i].Node, sh.Device}
			if m != nil && m.device(sh.Device) != nil && strings.Contains(strings.ToLower(m.device(sh.Device).Model), pattern) && !slices.Contains(out, key) {
				out = append(out, key)
			}
		}
	}
	return out
}

// removeJob removes a job's devices from the accounts.
func (t *checker) removeJob(job *ares.Job, run *ares.Run) {
	for i := range run.Attempts {
		a := &run.Attempts[i]
		for k := range a.Seats {
			h := &a.Seats[k]
			if h.State.Settled() {
				continue
			}
			had := t.ledger.amountOf(job, &h.Seat)
			for model := range had.milliByModel { // order-free: entries are independent
				had.milliByModel[model] = -had.milliByModel[model]
			}
			for a := t.ledger.accountOf(job); a != nil; a = a.parent {
				for model, milli := range had.milliByModel { // order-free: as above
					a.current.milliByModel[model] += milli
				}
			}
		}
	}
}

// checkPreemptionRate checks that a tenant's jobs preempt no more lower-class jobs per hour than the
// configuration allows.
func checkPreemptionRate(t *checker) error {
	most := t.cfg.Preemption.PerTenant
	if most == 0 || len(t.plan.Nominate) == 0 {
		return nil
	}
	stops := map[string]int{}
	note := func(y *ares.Preemption, at time.Time) {
		if y != nil && y.Why == ares.PreemptByClass && at.After(t.plan.Now.Add(-time.Hour)) {
			stops[y.Tenant]++
		}
	}
	for _, run := range t.state.Jobs() {
		if run == nil {
			continue
		}
		for i := range run.Attempts {
			note(run.Attempts[i].Preemption, run.Attempts[i].EndedAt)
		}
		if run.Stop != nil {
			note(run.Stop.Preemption, run.Stop.At)
		}
	}
	for i := range t.plan.Stop {
		note(t.plan.Stop[i].Stop.Preemption, t.plan.Now)
	}
	for i := range t.plan.Nominate {
		for _, v := range t.plan.Nominate[i].Nomination.Victims {
			if n := stops[v.Preemption.Tenant]; v.Preemption.Why == ares.PreemptByClass && n > most {
				return fmt.Errorf("%d jobs were preempted for tenant %s within an hour, but the limit is %d", n, v.Preemption.Tenant, most)
			}
		}
	}
	return nil
}
