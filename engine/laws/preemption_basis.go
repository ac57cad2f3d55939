package laws

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// checkPreemptionBasis checks that every victim is preempted on a valid basis:
// by a job at least two submitted classes higher whose tenant may preempt, or
// by a job whose quota covers what the victim has borrowed.
func checkPreemptionBasis(t *checker) error {
	for i := range t.plan.Nominate {
		n := &t.plan.Nominate[i]
		job, ok := t.state.Job(n.Job)
		if !ok {
			return fmt.Errorf("there is no job %s", n.Job)
		}
		var gone []*ares.Job
		// Of victims with partly borrowed devices, the largest may come last.
		victims := slices.SortedStableFunc(slices.Values(n.Nomination.Victims), func(a, b ares.Victim) int {
			return cmp.Compare(a.Yield.Milli, b.Yield.Milli)
		})
		for k := range victims {
			v := &victims[k]
			victim, known := t.state.Job(v.Job)
			if !known {
				return fmt.Errorf("there is no job %s", v.Job)
			}
			if err := t.checkVictimBasis(job, victim, &n.Nomination, v.Yield.Why, gone); err != nil {
				return fmt.Errorf("%s is preempted for %s (%s): %w", v.Job, n.Job, v.Yield.Why, err)
			}
			gone = append(gone, victim)
		}
	}
	return nil
}

// checkVictimBasis checks one victim, given that those in gone have left.
func (t *checker) checkVictimBasis(job, victim *ares.Job, n *ares.Nomination, why ares.PreemptionBasis, gone []*ares.Job) error {
	run, _ := t.state.Run(victim.ID)
	mine, its := ares.ClassOf(job.PriorityValue()).Rank(), ares.ClassOf(victim.PriorityValue()).Rank()
	switch tenant := t.tenants[job.Tenant]; {
	case run.Endures(victim):
		return fmt.Errorf("it must not be stopped once it has begun")
	case victim.Placement.LatencySensitive && mine < ares.Critical.Rank():
		return fmt.Errorf("it is latency-sensitive and the other is not critical")
	case why == ares.PreemptByMove && victim.Placement.LatencySensitive:
		return fmt.Errorf("it is latency-sensitive, and is moved for nobody")
	case why == ares.PreemptByOrder, why == ares.PreemptByMove:
		return nil // the law of yields says the rest
	case why == ares.PreemptByClass && (tenant == nil || !tenant.MayPreempt):
		return fmt.Errorf("tenant %s may not preempt", job.Tenant)
	case why == ares.PreemptByClass && mine-its < 2:
		return fmt.Errorf("class %s is not two above %s", ares.ClassOf(job.PriorityValue()), ares.ClassOf(victim.PriorityValue()))
	case why == ares.PreemptByClass:
		return nil
	case why == ares.PreemptByQuota:
		return t.checkReclaim(job, victim, n, gone)
	}
	return fmt.Errorf("by no right")
}

// checkReclaim checks that the job's quotas cover its whole request, and that a
// quota on the victim's side is exceeded only because of the victim. Jobs that
// are being stopped are about to return what they borrowed; placements and
// nominations of this plan count.
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
	return fmt.Errorf("it has borrowed nothing that quotas promise %s", job.Tenant)
}

// isWithinQuota reports whether a job with its nominated seats stays within
// every quota above it, without borrowing, once its victims have left. If its
// devices have several models, each needs such a quota.
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
	promised := map[deviceKey]bool{}
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
				promised[d] = true
			}
			// In an account above both, the job only replaces its victims.
			if after := with.ledger.quotaDemand(a, pattern); after > 1000*int64(q.Nominal) && after > t.currentDemand(a.name, pattern) {
				return false
			}
		}
	}
	return len(promised) == len(nominatedDevices(with, n, ""))
}

// currentDemand returns what counts against a quota of the named account now.
func (t *checker) currentDemand(name, pattern string) int64 {
	if a := t.ledger.accounts[name]; a != nil {
		return t.ledger.quotaDemand(a, pattern)
	}
	return 0
}

// removeStopped removes jobs that are being stopped, jobs that the plan stops
// before the victims of job, and those in gone.
func (t *checker) removeStopped(job ares.JobID, gone []*ares.Job) {
	before := map[ares.JobID]bool{}
	for i := range t.plan.Stop {
		if y := t.plan.Stop[i].Stop.Yield; y != nil && y.To == job {
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

// addOthers adds the placements of the plan and the nominated seats of all
// other jobs.
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

// nominatedDevices returns the devices of a nomination whose model matches the
// pattern.
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

// removeJob removes the devices that a job holds from the accounts.
func (t *checker) removeJob(job *ares.Job, run *ares.Run) {
	for i := range run.Attempts {
		a := &run.Attempts[i]
		for k := range a.Seats {
			h := &a.Seats[k]
			if h.State.Settled() {
				continue
			}
			had := t.ledger.amountOf(job, &h.Seat)
			for model := range had.milliByModel { // order-free: each by itself
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

// checkPreemptionRate checks that the jobs of a tenant preempt no more victims
// by class per hour than configured.
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
			note(run.Attempts[i].Yield, run.Attempts[i].EndedAt)
		}
		if run.Stop != nil {
			note(run.Stop.Yield, run.Stop.At)
		}
	}
	for i := range t.plan.Stop {
		note(t.plan.Stop[i].Stop.Yield, t.plan.Now)
	}
	for i := range t.plan.Nominate {
		for _, v := range t.plan.Nominate[i].Nomination.Victims {
			if n := stops[v.Yield.Tenant]; v.Yield.Why == ares.PreemptByClass && n > most {
				return fmt.Errorf("%d have given way to jobs of %s within an hour, and %d may", n, v.Yield.Tenant, most)
			}
		}
	}
	return nil
}
