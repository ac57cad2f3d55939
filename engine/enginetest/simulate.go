package enginetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// A simulation is the state of Simulate: how long each job runs, and which jobs arrive.
type simulation struct {
	runtimes  map[ares.JobID]time.Duration // total runtime by job; a job without an entry runs forever
	streams   []*jobStream
	grace     time.Duration // how long a stopped job takes to end
	decisions int           // decisions made so far
}

// jobStream submits a job of one kind periodically.
type jobStream struct {
	name    string
	spec    ares.Spec
	runtime time.Duration
	every   time.Duration
	next    time.Time // time of the next submission
	created int       // jobs submitted so far
}

// defaultGrace is how long a stopped job takes to end in a script.
const defaultGrace = 10 * time.Second

// maxDecisionsAtOnce is the maximum number of consecutive decisions at the same simulated time.
const maxDecisionsAtOnce = 1000

// SetRuntime sets how long a job has to run. If the job keeps checkpoints, this runtime is the sum over all its
// attempts. If the job keeps no checkpoints, a single attempt has to run for the whole time.
func (w *Cluster) SetRuntime(id ares.JobID, d time.Duration) {
	if w.simulation.runtimes == nil {
		w.simulation.runtimes = map[ares.JobID]time.Duration{}
	}
	w.simulation.runtimes[id] = d
}

// DecisionCount returns the number of decisions that Simulate has made.
func (w *Cluster) DecisionCount() int { return w.simulation.decisions }

// Simulate simulates agents, users and time for a duration. Agents claim the seats of placed jobs, jobs end after
// their runtime, stopped jobs end after their grace period, and streams submit new jobs. For every event,
// Simulate calls the function `told` with a description of the event.
func (w *Cluster) Simulate(d time.Duration, told func(string)) error {
	end := w.Now.Add(d)
	var last ares.Plan
	for at, still := w.Now, 0; ; still++ {
		if w.Now.After(at) {
			at, still = w.Now, 0
		}
		if still > maxDecisionsAtOnce {
			return fmt.Errorf("a thousand decisions have not settled it, and no time has passed; the last one:\n%s", formatPlan(w, last))
		}
		if err := w.stepAgents(told); err != nil {
			return err
		}
		w.simulation.decisions++
		plan, err := w.decideStep()
		if err != nil {
			return err
		}
		last = plan
		w.logPlan(plan, told)
		if err := w.commitStep(plan); err != nil {
			return err
		}
		if !plan.Empty() || plan.Wake.Equal(plan.Now) {
			continue
		}
		next := w.nextEvent(plan.Wake)
		if next.IsZero() || next.After(end) {
			w.Now = end
			return nil
		}
		w.Now = next
	}
}

// UseFastChecks makes Simulate check only plans that change something. With fast checks, Simulate also omits
// three checks: that the same decision can be repeated, the order of placements, and the indexes of the state.
func (w *Cluster) UseFastChecks() { w.fastChecks = true }

// decideStep makes one decision of Simulate.
func (w *Cluster) decideStep() (ares.Plan, error) {
	if !w.fastChecks {
		return w.Decide()
	}
	plan := engine.Decide(w.State, w.Now)
	w.lastPromises = slices.Clone(w.State.PlannedStarts())
	if plan.Empty() {
		return plan, nil
	}
	if err := CheckPlan(w.State, plan); err != nil {
		return plan, fmt.Errorf("plan at revision %d: %w\n%s", plan.Revision, err, formatPlan(w, plan))
	}
	return plan, nil
}

// commitStep commits one plan of Simulate.
func (w *Cluster) commitStep(plan ares.Plan) error {
	if !w.fastChecks {
		return w.Commit(plan)
	}
	if err := errors.Join(w.preemptions.Observe(w.State, &plan), w.plannedStarts.Observe(w.State, &plan, w.lastPromises)); err != nil {
		return err
	}
	if len(plan.Nominate) > 0 && w.isSmall() {
		if err := w.CheckVictimsNeeded(plan); err != nil {
			return err
		}
	}
	return w.ApplyPlan(plan)
}

// logPlan reports the starts, preemptions and withdrawals of a plan.
func (w *Cluster) logPlan(plan ares.Plan, told func(string)) {
	since := plan.Now.Sub(StartTime).Round(time.Second)
	for i := range plan.Place {
		p := &plan.Place[i]
		name := w.displayName(p.Job)
		if p.ArrayOf != "" {
			name = fmt.Sprintf("%s[%d]", p.ArrayOf, p.Index)
		}
		told(fmt.Sprintf("%s: %s starts on %s", since, name, formatSeats(p.Seats)))
	}
	for _, s := range plan.Stop {
		if s.Stop.Why == ares.StopPreempt {
			told(fmt.Sprintf("%s: %s is preempted for %s", since, w.displayName(s.Job), w.displayName(preemptor(&s.Stop))))
		}
	}
	for _, g := range plan.Withdraw {
		told(fmt.Sprintf("%s: %s no longer has its seats: %s", since, w.displayName(g.Job), g.Why))
	}
}

// The method `preemptor` returns the waiting job for which the plan stops another job.
func preemptor(s *ares.Stop) ares.JobID {
	if s.Preemption != nil {
		return s.Preemption.To
	}
	return ares.JobID(strings.TrimPrefix(s.By, "job "))
}

// stepAgents performs the actions of agents and users at the current time.
func (w *Cluster) stepAgents(told func(string)) error {
	for _, s := range w.simulation.streams {
		for ; !w.Now.Before(s.next); s.next = s.next.Add(s.every) {
			id := ares.JobID(fmt.Sprintf("%s%03d", s.name, s.created))
			w.Submit(id, s.spec)
			w.SetRuntime(id, s.runtime)
			s.created++
		}
	}
	var busy []ares.JobID
	for job, run := range w.State.Jobs() {
		if run != nil && len(run.Attempts) > 0 && !run.Last().Free() {
			busy = append(busy, job.ID)
		}
	}
	for _, id := range busy {
		run, _ := w.State.Run(id)
		if err := w.UpdateRun(id, w.reportAttempt); err != nil {
			return fmt.Errorf("the agents of %s: %w", id, err)
		}
		if after, _ := w.State.Run(id); after.Phase != run.Phase && after.Phase != ares.Running {
			told(fmt.Sprintf("%s: %s is %s", w.Now.Sub(StartTime).Round(time.Second), w.displayName(id), after.Phase))
		}
	}
	return nil
}

// reportAttempt applies the reports that agents would now send about a job's last attempt.
func (w *Cluster) reportAttempt(j *ares.Job, r *ares.Run) error {
	a := r.Last()
	outcome := w.outcome(j, r)
	for i := range slices.Clone(a.Seats) {
		h := &r.Last().Seats[i]
		if !w.isConnected(h.Node) {
			continue
		}
		switch {
		case h.State == ares.SeatPlaced && r.Stop != nil && !a.Ended():
			if err := r.Decline(j, a.Fence, h.Rank, w.Now); err != nil {
				return err
			}
		case h.State == ares.SeatPlaced && !a.Ended():
			if err := r.Claim(j, a.Fence, h.Rank, h.Node, w.Now); err != nil {
				return err
			}
		case h.State == ares.SeatClaimed && outcome != "" && !a.Ended():
			res := ares.RankResult{Outcome: outcome, StartedAt: a.StartedAt, EndedAt: w.Now, Reason: string(outcome)}
			if err := r.Finish(j, a.Fence, h.Rank, res, w.Now); err != nil {
				return err
			}
		}
	}
	for i := range slices.Clone(a.Seats) {
		h := &r.Last().Seats[i]
		if w.isConnected(h.Node) && (h.State == ares.SeatFinished || r.Last().Ended() && !h.State.Free()) {
			if err := r.Release(r.Last().Fence, h.Rank); err != nil {
				return err
			}
		}
	}
	return nil
}

// If the claimed ranks of a job's attempt end now, the method `outcome` returns how they end. If they do not
// end now, the result is "".
func (w *Cluster) outcome(j *ares.Job, r *ares.Run) ares.Outcome {
	ends, stops := w.endTimes(j, r)
	switch {
	case !ends.IsZero() && !w.Now.Before(ends):
		return ares.OutcomeSucceeded
	case !stops.IsZero() && !w.Now.Before(stops):
		return ares.OutcomeStopped
	}
	return ""
}

// endTimes returns when the current attempt of a job ends normally, and when it ends because it was stopped. Zero
// means never.
func (w *Cluster) endTimes(j *ares.Job, r *ares.Run) (ends, stops time.Time) {
	a := r.Current()
	if a == nil {
		return ends, stops
	}
	if r.Stop != nil {
		stops = r.Stop.At.Add(cmp.Or(w.simulation.grace, defaultGrace))
	}
	need, known := w.simulation.runtimes[cmp.Or(j.ArrayOf, j.ID)]
	if !known || a.StartedAt.IsZero() {
		return ends, stops
	}
	if j.Checkpoint.Enabled {
		need -= r.RanFor(w.Now) - max(w.Now.Sub(a.StartedAt), 0)
	}
	return a.StartedAt.Add(max(need, time.Second)), stops
}

// isConnected reports whether a node has a session.
func (w *Cluster) isConnected(node string) bool {
	for v := range w.State.Nodes() {
		if v.Node.ID == node {
			return v.Session != nil
		}
	}
	return false
}

// nextEvent returns the time of the next event, or the zero time if there is none.
func (w *Cluster) nextEvent(wake time.Time) time.Time {
	at := wake
	earlier := func(t time.Time) {
		if !t.IsZero() && t.After(w.Now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, s := range w.simulation.streams {
		earlier(s.next)
	}
	for job, run := range w.State.Jobs() {
		if run == nil || run.Current() == nil {
			continue
		}
		ends, stops := w.endTimes(job, run)
		earlier(ends)
		earlier(stops)
	}
	return at
}
