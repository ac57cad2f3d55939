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

// life is what carries a world on by itself, as agents, users and time do: seats
// are claimed when they are given, jobs end when they have run for as long as
// they need, stopped ones end after their grace, and streams bring new ones.
type life struct {
	needs   map[ares.JobID]time.Duration // in all; who is not in it runs for ever
	streams []*stream
	grace   time.Duration
	ticks   int
}

// stream brings a job of one kind every so often.
type stream struct {
	name  string
	spec  ares.Spec
	runs  time.Duration
	every time.Duration
	next  time.Time
	made  int
}

// defaultGrace is how long a stopped job takes to end in a script.
const defaultGrace = 10 * time.Second

// instantly is how many decisions may follow each other without time passing.
const instantly = 1000

// Need says how long a job has to run, in all its attempts together if it keeps
// its progress, or else in one.
func (w *World) Need(id ares.JobID, d time.Duration) {
	if w.life.needs == nil {
		w.life.needs = map[ares.JobID]time.Duration{}
	}
	w.life.needs[id] = d
}

// Ticks is how many decisions life has made.
func (w *World) Ticks() int { return w.life.ticks }

// Live carries the world on for some time. told hears of everything that
// happens.
func (w *World) Live(d time.Duration, told func(string)) error {
	end := w.Now.Add(d)
	var last ares.Plan
	for at, still := w.Now, 0; ; still++ {
		if w.Now.After(at) {
			at, still = w.Now, 0
		}
		if still > instantly {
			return fmt.Errorf("a thousand decisions have not settled it, and no time has passed; the last one:\n%s", describe(w, last))
		}
		if err := w.act(told); err != nil {
			return err
		}
		w.life.ticks++
		plan, err := w.decide()
		if err != nil {
			return err
		}
		last = plan
		w.tell(plan, told)
		if err := w.commit(plan); err != nil {
			return err
		}
		if !plan.Empty() || plan.Wake.Equal(plan.Now) {
			continue
		}
		next := w.next(plan.Wake)
		if next.IsZero() || next.After(end) {
			w.Now = end
			return nil
		}
		w.Now = next
	}
}

// Hurry has life look at plans that change something, and only at those, and at
// the laws of the run; not twice, nor turn by turn, nor at the accounts each time.
func (w *World) Hurry() { w.hurry = true }

func (w *World) decide() (ares.Plan, error) {
	if !w.hurry {
		return w.Decide()
	}
	plan := engine.Decide(w.State, w.Now)
	w.promised = slices.Clone(w.State.PlannedStarts())
	if plan.Empty() {
		return plan, nil
	}
	if err := CheckPlan(w.State, plan); err != nil {
		return plan, fmt.Errorf("plan at revision %d: %w\n%s", plan.Revision, err, describe(w, plan))
	}
	return plan, nil
}

func (w *World) commit(plan ares.Plan) error {
	if !w.hurry {
		return w.Commit(plan)
	}
	if err := errors.Join(w.witness.See(w.State, &plan), w.keeper.See(w.State, &plan, w.promised)); err != nil {
		return err
	}
	if len(plan.Nominate) > 0 && w.small() {
		if err := w.Needed(plan); err != nil {
			return err
		}
	}
	return w.Write(plan)
}

// tell says what a plan does that life is about.
func (w *World) tell(plan ares.Plan, told func(string)) {
	since := plan.Now.Sub(Epoch).Round(time.Second)
	for i := range plan.Place {
		p := &plan.Place[i]
		name := w.label(p.Job)
		if p.ArrayOf != "" {
			name = fmt.Sprintf("%s[%d]", p.ArrayOf, p.Index)
		}
		told(fmt.Sprintf("%s: %s starts on %s", since, name, places(p.Seats)))
	}
	for _, s := range plan.Stop {
		if s.Stop.Why == ares.StopPreempt {
			told(fmt.Sprintf("%s: %s gives way to %s", since, w.label(s.Job), w.label(winner(&s.Stop))))
		}
	}
	for _, g := range plan.Withdraw {
		told(fmt.Sprintf("%s: %s no longer has its seats: %s", since, w.label(g.Job), g.Why))
	}
}

// winner is for whom a job is stopped.
func winner(s *ares.Stop) ares.JobID {
	if s.Yield != nil {
		return s.Yield.To
	}
	return ares.JobID(strings.TrimPrefix(s.By, "job "))
}

// act does what agents and users do at this moment.
func (w *World) act(told func(string)) error {
	for _, s := range w.life.streams {
		for ; !w.Now.Before(s.next); s.next = s.next.Add(s.every) {
			id := ares.JobID(fmt.Sprintf("%s%03d", s.name, s.made))
			w.Submit(id, s.spec)
			w.Need(id, s.runs)
			s.made++
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
		if err := w.Change(id, w.report); err != nil {
			return fmt.Errorf("the agents of %s: %w", id, err)
		}
		if after, _ := w.State.Run(id); after.Phase != run.Phase && after.Phase != ares.Running {
			told(fmt.Sprintf("%s: %s is %s", w.Now.Sub(Epoch).Round(time.Second), w.label(id), after.Phase))
		}
	}
	return nil
}

// report is what the agents of a job say of its last attempt now.
func (w *World) report(j *ares.Job, r *ares.Run) error {
	a := r.Last()
	outcome := w.outcome(j, r)
	for i := range slices.Clone(a.Seats) {
		h := &r.Last().Seats[i]
		if !w.connected(h.Node) {
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
		if w.connected(h.Node) && (h.State == ares.SeatFinished || r.Last().Ended() && !h.State.Free()) {
			if err := r.Release(r.Last().Fence, h.Rank); err != nil {
				return err
			}
		}
	}
	return nil
}

// outcome is how the claimed ranks of a job's attempt end now, "" for not yet.
func (w *World) outcome(j *ares.Job, r *ares.Run) ares.Outcome {
	ends, stops := w.due(j, r)
	switch {
	case !ends.IsZero() && !w.Now.Before(ends):
		return ares.OutcomeSucceeded
	case !stops.IsZero() && !w.Now.Before(stops):
		return ares.OutcomeStopped
	}
	return ""
}

// due is when a job's attempt under way ends by itself, and when because it was
// asked to, zero for never.
func (w *World) due(j *ares.Job, r *ares.Run) (ends, stops time.Time) {
	a := r.Current()
	if a == nil {
		return ends, stops
	}
	if r.Stop != nil {
		stops = r.Stop.At.Add(cmp.Or(w.life.grace, defaultGrace))
	}
	need, known := w.life.needs[cmp.Or(j.ArrayOf, j.ID)]
	if !known || a.StartedAt.IsZero() {
		return ends, stops
	}
	if j.Checkpoint.Enabled {
		need -= r.RanFor(w.Now) - max(w.Now.Sub(a.StartedAt), 0)
	}
	return a.StartedAt.Add(max(need, time.Second)), stops
}

func (w *World) connected(node string) bool {
	for v := range w.State.Nodes() {
		if v.Node.ID == node {
			return v.Session != nil
		}
	}
	return false
}

// next is when something will happen, zero for never.
func (w *World) next(wake time.Time) time.Time {
	at := wake
	earlier := func(t time.Time) {
		if !t.IsZero() && t.After(w.Now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, s := range w.life.streams {
		earlier(s.next)
	}
	for job, run := range w.State.Jobs() {
		if run == nil || run.Current() == nil {
			continue
		}
		ends, stops := w.due(job, run)
		earlier(ends)
		earlier(stops)
	}
	return at
}
