package laws

import (
	"fmt"
	"slices"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// isOnNominatedSeats reports whether the placement uses exactly the nominated
// seats of the job, which do not depend on its position in the queue.
func (p *placement) isOnNominatedSeats() bool {
	n := p.run.Nominated
	return n != nil && slices.EqualFunc(n.Seats, p.Seats, func(a, b ares.Seat) bool {
		return a.Node == b.Node && a.Rank == b.Rank && slices.Equal(a.Shares, b.Shares)
	})
}

// checkVictims checks each preempted job apart from the basis, which has its
// own law.
func checkVictims(t *checker) error {
	for i := range t.plan.Stop {
		stop := &t.plan.Stop[i]
		if stop.Stop.Why != ares.StopPreempt {
			continue
		}
		y := stop.Stop.Yield
		if y == nil || stop.Stop.By != "job "+string(y.To) {
			return fmt.Errorf("%s is preempted for %q without a cost", stop.Job, stop.Stop.By)
		}
		job, known := t.state.Job(stop.Job)
		to, waits := t.state.Job(y.To)
		if !known || !waits {
			return fmt.Errorf("%s is preempted for %q", stop.Job, y.To)
		}
		run, _ := t.state.Run(stop.Job)
		waiting, _ := t.state.Run(to.ID)
		switch {
		case run.Current() == nil || run.Stop != nil || !waiting.Phase.Waiting():
			return fmt.Errorf("%s, which is %s, is preempted for %s, which is %s", job.ID, run.Phase, to.ID, waiting.Phase)
		case run.Endures(job):
			return fmt.Errorf("%s is preempted, and runs at most once", job.ID)
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

// checkProtection checks that no limit protects a job from preemption.
func (t *checker) checkProtection(job *ares.Job, run *ares.Run, to *ares.Job) error {
	cfg, a := t.cfg.Preemption, run.Current()
	critical := ares.ClassOf(to.PriorityValue()) == ares.Critical
	if cfg.MaxPreemptions > 0 && run.Yields >= cfg.MaxPreemptions && !critical {
		return fmt.Errorf("%s is preempted for %s, and was preempted %d times", job.ID, to.ID, run.Yields)
	}
	since := a.PlacedAt
	if a.StartedAt.After(since) {
		since = a.StartedAt
	}
	if run.Yields > 0 && t.plan.Now.Before(since.Add(cfg.Cooldown)) {
		return fmt.Errorf("%s is preempted for %s, and restarted only at %s", job.ID, to.ID, since)
	}
	return nil
}

// checkOrderPreemption checks preemption by the configured order, and that the
// configuration allows this kind of preemption.
func (t *checker) checkOrderPreemption(job, to *ares.Job, why ares.PreemptionBasis) error {
	switch {
	case why == ares.PreemptByMove:
		if !t.cfg.Preemption.Moving || !job.Checkpoint.Enabled || job.Placement.LatencySensitive {
			return fmt.Errorf("%s is moved for %s, which it must not", job.ID, to.ID)
		}
	case why != ares.PreemptByOrder && !t.cfg.Preemption.Enabled, why == ares.PreemptByOrder && !t.cfg.Queue.Preempt:
		return fmt.Errorf("%s is preempted for %s, though preemption is not allowed (%s)", job.ID, to.ID, why)
	case why != ares.PreemptByOrder:
	case job.Tenant != to.Tenant || job.Queue != to.Queue || ares.ClassOf(job.PriorityValue()) != ares.ClassOf(to.PriorityValue()):
		return fmt.Errorf("%s is preempted for %s of another queue or class", job.ID, to.ID)
	case !job.Checkpoint.Enabled || job.Placement.LatencySensitive:
		return fmt.Errorf("%s is preempted for %s, which must not preempt it", job.ID, to.ID)
	case !t.outranks(to, job):
		return fmt.Errorf("%s is preempted for %s, which does not come before it", job.ID, to.ID)
	}
	return nil
}

// outranks reports whether a waiting job comes before a running one by the
// configured order, or has the same key and has waited long enough.
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

// checkPreemptionLimit checks how much is preempted relative to the request.
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
		if most > 0 && stopped*1000 > most*asked {
			return fmt.Errorf("for %s, which asks for %d/1000, %d/1000 are stopped", n.Job, asked, stopped)
		}
	}
	return nil
}

// deviceKey identifies a device of a node.
type deviceKey struct{ node, device string }

// checkVictimSeats checks that the victims of each nomination hold its seats,
// and that there are not too many nominations at once.
func checkVictimSeats(t *checker) error {
	live := len(t.plan.Nominate)
	for job, run := range t.state.Jobs() {
		if run != nil && run.Nominated != nil && t.nominationAfterPlan(job.ID) != nil && !t.isNominatedByPlan(job.ID) {
			live++
		}
	}
	if len(t.plan.Nominate) > 0 && live > config.MaxNominations {
		return fmt.Errorf("seats are kept for %d jobs at once", live)
	}
	for i := range t.plan.Nominate {
		if err := t.checkVictimsHoldSeats(&t.plan.Nominate[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkVictimsHoldSeats checks that the victims of a nomination hold its seats
// and are not being stopped yet. A victim preempted to reclaim quota may run
// elsewhere: its quota is what the job lacks.
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
			return fmt.Errorf("%s is a victim of %s, and does not run", v.Job, n.Job)
		}
		if v.Yield.Why != ares.PreemptByQuota && !slices.ContainsFunc(a.Seats, func(h ares.Held) bool { return nodes[h.Node] }) {
			return fmt.Errorf("%s is a victim of %s, and runs elsewhere", v.Job, n.Job)
		}
		victims[v.Job] = true
	}
	if len(victims) == 0 {
		return nil // the jobs there end by themselves
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
				return fmt.Errorf("%s sits on device %s of node %s, which is held for %s, and is not preempted", h.job.ID, sh.Device, h.seat.Node, n.Job)
			}
		}
	}
	return nil
}

// checkPreemptionCycles checks that no job is preempted for a job that was
// preempted for it, directly or through others.
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
			note(job.ID, run.Attempts[i].Yield)
		}
		if run.Stop != nil {
			note(job.ID, run.Stop.Yield)
		}
	}
	for i := range t.plan.Stop {
		note(t.plan.Stop[i].Job, t.plan.Stop[i].Stop.Yield)
	}
	state := map[ares.JobID]int{} // 1: in progress, 2: done
	var walk func(id ares.JobID) error
	walk = func(id ares.JobID) error {
		switch state[id] {
		case 1:
			return fmt.Errorf("%s is preempted for itself, by others", id)
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
	for id := range to { // order-free: any broken law will do
		if err := walk(id); err != nil {
			return err
		}
	}
	return nil
}
