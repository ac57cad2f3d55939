package laws

import (
	"fmt"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// checkReservations checks that a placement respects the reservations of its nodes.
func checkReservations(t *checker, p *placement) error {
	for r := range t.state.Reservations() {
		if r.Entitles(p.job.Tenant, p.job.Queue) || !r.Bars(t.plan.Now, t.expectedRuntime(p)) {
			continue
		}
		for i := range p.Seats {
			if m := t.nodes[p.Seats[i].Node]; m != nil && m.isReservedBy(r) {
				return fmt.Errorf("node %s is reserved %s, from %s until %s (reservation %s)", m.Node.ID, r.For(), r.From, r.Until, r.Name)
			}
		}
	}
	return nil
}

// expectedRuntime returns the estimated runtime of an attempt. This is the p90 of similar jobs, minus the
// progress of earlier attempts. It is at most the job's limit. When a job runs past its estimate, the estimate is
// doubled. If the job has neither an estimate nor a limit, the result is the lead time of reservations.
func (t *checker) expectedRuntime(p *placement) time.Duration {
	limit := time.Duration(p.job.MaxRuntimeMinutes) * time.Minute
	f, _ := t.state.Forecast(p.job.ID)
	switch {
	case f.Samples == 0 && limit == 0:
		return ares.ReservationLead
	case f.Samples == 0:
		return limit
	}
	lasts := max(f.P50, f.P90)
	done := p.run.Done(p.job, t.plan.Now)
	if lasts <= done { // past the estimate: double it
		lasts = max(lasts, time.Second)
	}
	for lasts <= done {
		lasts *= 2
	}
	if lasts -= done; limit > 0 {
		lasts = min(lasts, limit)
	}
	return lasts
}

// isReservedBy reports whether a reservation includes the node.
func (m *nodeUse) isReservedBy(r *ares.Reservation) bool {
	return r.Holds(m.Node.ID, m.Node.Labels, func(level ares.Level, name string) bool {
		rank := level.Rank()
		return rank >= 0 && rank < len(m.location.names) && m.location.names[rank] == name
	})
}

// checkReservationDrains checks that a reservation's drain stops only jobs that block this reservation.
func checkReservationDrains(t *checker) error {
	for i := range t.plan.Stop {
		stop := &t.plan.Stop[i]
		name, drained := strings.CutPrefix(stop.Stop.By, "reservation ")
		if !drained || stop.Stop.Why != ares.StopDrain {
			continue
		}
		if !t.mayDrain(name, stop.Job) {
			return fmt.Errorf("%s is stopped by the drain of reservation %s, but that drain does not apply to this job", stop.Job, name)
		}
	}
	return nil
}

// mayDrain reports whether a reservation's drain may stop a job.
func (t *checker) mayDrain(name string, id ares.JobID) bool {
	job, known := t.state.Job(id)
	run, _ := t.state.Run(id)
	if !known {
		return false
	}
	_, protected := t.state.Protection(id)
	for r := range t.state.Reservations() {
		if r.Name != name || !r.Drain || r.StateAt(t.plan.Now) != ares.ReservationOpen || r.Entitles(job.Tenant, job.Queue) || protected && !r.Force {
			continue
		}
		for _, m := range t.nodes { // order-free: any match is enough
			if m.isReservedBy(r) && run.IsStoppedByDrain(job, m.Node.ID, r.Force) {
				return true
			}
		}
	}
	return false
}
