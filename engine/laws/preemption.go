package laws

import (
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// isOnNominatedSeats reports whether the placement uses exactly the nominated seats of the job. A placement on
// nominated seats does not depend on the job's position in the queue.
func (p *placement) isOnNominatedSeats() bool {
	n := p.run.Nominated
	return n != nil && slices.EqualFunc(n.Seats, p.Seats, func(a, b ares.Seat) bool {
		return a.Node == b.Node && a.Rank == b.Rank && slices.Equal(a.Shares, b.Shares)
	})
}

// checkVictims checks each preempted job. Another law checks the reason for the preemption.
func checkVictims(t *checker) error {
	for i := range t.plan.Stop {
		stop := &t.plan.Stop[i]
		if stop.Stop.Why != ares.StopPreempt {
			continue
		}
		y := stop.Stop.Preemption
		if y == nil || stop.Stop.By != "job "+string(y.To) {
			return fmt.Errorf("%[1]s is preempted by %[2]q, but %[1]s has no preemption record that names this job", stop.Job, stop.Stop.By)
		}
		job, known := t.state.Job(stop.Job)
		to, waits := t.state.Job(y.To)
		if !known || !waits {
			return fmt.Errorf("%s is preempted for %q, but one of these two jobs does not exist", stop.Job, y.To)
		}
		run, _ := t.state.Run(stop.Job)
		waiting, _ := t.state.Run(to.ID)
		switch {
		case run.Current() == nil || run.Stop != nil || !waiting.Phase.Waiting():
			return fmt.Errorf("%s (%s) is preempted for %s (%s), but the first job must be running and the second job must be waiting", job.ID, run.Phase, to.ID, waiting.Phase)
		case run.MustFinish(job):
			return fmt.Errorf("%s is preempted, but it is an at_most_once job that has started", job.ID)
		}
		if why, protected := t.state.Protection(job.ID); protected {
			return fmt.Errorf("%s is preempted, but it is protected: %s", job.ID, why)
		}
		if waiting.Nominated != nil {
			continue // the rest was checked when the seats were nominated
		}
		if err := t.checkProtection(job, &run, to); err != nil {
			return err
		}
		if err := t.checkOrderPreemption(job, to, y.Why); err != nil {
			return err
		}
	}
	return nil
}

// checkProtection checks that the job is not protected from preemption.
func (t *checker) checkProtection(job *ares.Job, run *ares.Run, to *ares.Job) error {
	cfg, a := t.cfg.Preemption, run.Current()
	critical := ares.ClassOf(to.PriorityValue()) == ares.Critical
	if cfg.MaxPreemptions > 0 && run.Preemptions >= cfg.MaxPreemptions && !critical {
		return fmt.Errorf("%[1]s is preempted for %[2]s, but %[1]s was already preempted %[3]d times, which is the limit", job.ID, to.ID, run.Preemptions)
	}
	since := a.PlacedAt
	if a.StartedAt.After(since) {
		since = a.StartedAt
	}
	if run.Preemptions > 0 && t.plan.Now.Before(since.Add(cfg.Cooldown)) {
		return fmt.Errorf("%[1]s is preempted for %[2]s, but %[1]s restarted at %[3]s and its cooldown has not ended", job.ID, to.ID, since)
	}
	return nil
}

// checkOrderPreemption checks that the configuration allows the kind of preemption. If a job is
// preempted by queue order, checkOrderPreemption also checks the queue, class and order of the two
// jobs.
func (t *checker) checkOrderPreemption(job, to *ares.Job, why ares.PreemptionBasis) error {
	switch {
	case why == ares.PreemptByMove:
		if !t.cfg.Preemption.Moving || !job.Checkpoint.Enabled || job.Placement().LatencySensitive {
			return fmt.Errorf("%[1]s must not be moved to make room for %[2]s: either the configuration disables moves, or %[1]s has no checkpoints, or %[1]s is latency-sensitive", job.ID, to.ID)
		}
	case why != ares.PreemptByOrder && !t.cfg.Preemption.Enabled, why == ares.PreemptByOrder && !t.cfg.Queue.Preempt && !t.cfg.PreemptsLonger():
		return fmt.Errorf("%s is preempted for %s, but the configuration does not allow this kind of preemption (%s)", job.ID, to.ID, why)
	case why != ares.PreemptByOrder || !t.cfg.Queue.Preempt: // the law "preemptible" checks the rest
	case job.Tenant != to.Tenant || job.Queue != to.Queue || ares.ClassOf(job.PriorityValue()) != ares.ClassOf(to.PriorityValue()):
		return fmt.Errorf("%s is preempted for %s because of the queue order, but these jobs are in different queues or priority classes", job.ID, to.ID)
	case !job.IsPreemptible():
		return fmt.Errorf("%[1]s is preempted for %[2]s because of the queue order, but %[1]s does not allow it or is latency-sensitive", job.ID, to.ID)
	case !t.outranks(to, job):
		return fmt.Errorf("%[1]s is preempted for %[2]s because of the queue order, but %[2]s is not ahead of %[1]s in the queue", job.ID, to.ID)
	}
	return nil
}

// The method `outranks` reports whether a waiting job comes before a running job by the configured order. It is
// also true if both have the same sort key and the waiting job has waited long enough.
func (t *checker) outranks(to, job *ares.Job) bool {
	mine, its := t.orderKey(to), t.orderKey(job)
	if patience := t.cfg.Queue.PeersAfter; patience > 0 && mine == its && to.Revision < job.Revision {
		since := to.AcceptedAt
		if run, ok := t.state.Run(to.ID); ok && run.Last() != nil {
			since = run.Last().EndedAt
		}
		return t.plan.Now.Sub(since) >= patience
	}
	return mine < its
}

// checkPreemptionLimit checks that the preempted amount of GPUs is within the ceiling for the request.
func checkPreemptionLimit(t *checker) error {
	most := int64(t.cfg.Preemption.Ceiling)
	for i := range t.plan.Nominate {
		n := &t.plan.Nominate[i]
		asked, stopped := seatMilli(n.Nomination.Seats), int64(0)
		for _, v := range n.Nomination.Victims {
			if run, _ := t.state.Run(v.Job); run.Current() != nil {
				stopped += attemptMilli(run.Current())
			}
		}
		if t.isOneJobOnOneNode(n) {
			continue // inside its class, one job on one node may be larger: the rest of its devices serves other jobs
		}
		if most > 0 && stopped*1000 > most*asked {
			return fmt.Errorf("the preempted jobs use %[1]d thousandths of a device, but the limit is %[2]d thousandths, because %[3]s requests only %[4]d thousandths", stopped, most*asked/1000, n.Job, asked)
		}
	}
	return nil
}

// isOneJobOnOneNode reports whether the only victim of a nomination is a job of the same queue and class with one seat.
func (t *checker) isOneJobOnOneNode(n *ares.Nominating) bool {
	victims := n.Nomination.Victims
	if t.cfg.Queue.Preempt || len(victims) != 1 || victims[0].Preemption.Why != ares.PreemptByOrder {
		return false
	}
	run, _ := t.state.Run(victims[0].Job)
	return run.Current() != nil && len(run.Current().Seats) == 1
}

// deviceKey identifies a device of a node.
type deviceKey struct{ node, device string }

// checkVictimSeats checks that the victims of each nomination hold the nominated seats, and
// that there are not too many nominations at the same time.
func checkVictimSeats(t *checker) error {
	live := len(t.plan.Nominate)
	for job, run := range t.state.Jobs() {
		if run != nil && run.Nominated != nil && t.nominationAfterPlan(job.ID) != nil && !t.isNominatedByPlan(job.ID) {
			live++
		}
	}
	if len(t.plan.Nominate) > 0 && live > config.MaxNominations {
		return fmt.Errorf("%d jobs have nominations at once, but the limit is %d", live, config.MaxNominations)
	}
	for i := range t.plan.Nominate {
		if err := t.checkVictimsHoldSeats(&t.plan.Nominate[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkVictimsHoldSeats checks that the victims of a nomination hold the nominated seats and are not being stopped
// already. A victim that is preempted to reclaim quota may run on other nodes, because the preempting job needs the
// quota and not the seat.
func (t *checker) checkVictimsHoldSeats(n *ares.Nominating) error {
	nodes, devices := map[string]bool{}, map[deviceKey]bool{}
	for k := range n.Nomination.Seats {
		seat := &n.Nomination.Seats[k]
		nodes[seat.Node] = true
		for _, sh := range seat.Shares {
			if sh.Milli == 1000 {
				devices[deviceKey{seat.Node, sh.Device}] = true
			}
		}
	}
	victims := map[ares.JobID]bool{}
	for _, v := range n.Nomination.Victims {
		run, ok := t.state.Run(v.Job)
		a := run.Current()
		if !ok || a == nil || a.Fence != v.Fence || run.Stop != nil {
			return fmt.Errorf("%[1]s is a victim of %[2]s, but %[1]s is not running or is already being stopped", v.Job, n.Job)
		}
		if v.Preemption.Why != ares.PreemptByQuota && !slices.ContainsFunc(a.Seats, func(h ares.SeatStatus) bool { return nodes[h.Node] }) {
			return fmt.Errorf("%[1]s is a victim of %[2]s, but %[1]s does not run on any node that is nominated for %[2]s", v.Job, n.Job)
		}
		victims[v.Job] = true
	}
	if len(victims) == 0 {
		return nil // the jobs there will end by themselves
	}
	going := map[ares.JobID]bool{}
	for i := range t.plan.Stop {
		going[t.plan.Stop[i].Job] = true
	}
	for _, h := range t.occupied {
		if run, _ := t.state.Run(h.job.ID); victims[h.job.ID] || going[h.job.ID] || !h.countsForTenant || run.Current() == nil || run.Stop != nil {
			continue
		}
		for _, sh := range h.seat.Shares {
			if devices[deviceKey{h.seat.Node, sh.Device}] {
				return fmt.Errorf("device %[2]s of node %[3]s is nominated for %[4]s, but %[1]s uses this device and is not preempted", h.job.ID, sh.Device, h.seat.Node, n.Job)
			}
		}
	}
	return nil
}

// checkPreemptionCycles checks that preemptions form no cycle. Suppose that job a was preempted for job b,
// directly or through other jobs. Then job b must not be preempted for job a.
func checkPreemptionCycles(t *checker) error {
	to := map[ares.JobID][]ares.JobID{}
	note := func(id ares.JobID, y *ares.Preemption) {
		if y != nil {
			to[id] = append(to[id], y.To)
		}
	}
	for job, run := range t.state.Jobs() {
		if run == nil {
			continue
		}
		for i := range run.Attempts {
			note(job.ID, run.Attempts[i].Preemption)
		}
		if run.Stop != nil {
			note(job.ID, run.Stop.Preemption)
		}
	}
	for i := range t.plan.Stop {
		note(t.plan.Stop[i].Job, t.plan.Stop[i].Stop.Preemption)
	}
	state := map[ares.JobID]int{} // 1: in progress, 2: done
	var walk func(id ares.JobID) error
	walk = func(id ares.JobID) error {
		switch state[id] {
		case 1:
			return fmt.Errorf("the preemptions form a cycle that contains job %s", id)
		case 2:
			return nil
		}
		state[id] = 1
		for _, next := range to[id] {
			if err := walk(next); err != nil {
				return err
			}
		}
		state[id] = 2
		return nil
	}
	for id := range to { // order-free: any violation is enough
		if err := walk(id); err != nil {
			return err
		}
	}
	return nil
}
