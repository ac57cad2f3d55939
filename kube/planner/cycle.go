package planner

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Decision is what one cycle changed.
type Decision struct {
	// Planned has the pods that have an assignment now, by plan and rank.
	Planned []Ref
	// Withdrawn has the pods whose plan ended before they were bound.
	Withdrawn []Ref
	// Evictions has the units that must be evicted.
	Evictions []Eviction
	Placed    int       // number of placed units
	Plan      ares.Plan // of the engine
	Corrected []Correction
	// Again is true if another cycle may decide more.
	Again bool
	// Wake is when the next cycle is due without any event, zero for never.
	Wake time.Time
}

// Ref names a pod.
type Ref struct{ UID, Namespace, Name string }

// Eviction is a preemption: all pods of a unit are evicted, or none.
type Eviction struct {
	Job  ares.JobID
	For  ares.JobID // the unit that preempts it
	Why  string
	Pods []Ref
}

// Absorb brings the state up to date without deciding anything. A replica that does not lead calls it from time to time, so
// that it can take over at once.
func (p *Planner) Absorb(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refreshTopology()
	p.apply(now)
	p.adopted = append(p.adopted, p.adopt(now)...)
	p.readDevices()
	p.apply(now)
}

// Cycle makes one decision. The first cycle must come after all existing pods and nodes were set.
func (p *Planner) Cycle(now time.Time) (Decision, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var d Decision
	p.refreshTopology()
	p.apply(now) // nodes first: the pods that are adopted need them
	d.Planned, p.adopted = append(p.adopted, p.adopt(now)...), nil
	d.Corrected = p.readDevices()
	readmit := p.readmitLater(now)
	p.formUnits()
	d.Withdrawn, p.withdrawn = p.withdrawn, nil
	p.apply(now)
	p.predict(now)
	p.apply(now)
	plan := engine.Decide(p.state, now)
	changes, err := engine.PlanChanges(p.state, &plan, now)
	if err != nil {
		return d, fmt.Errorf("the engine made a plan that cannot be applied: %w", err)
	}
	for i := range changes {
		c := &changes[i]
		u := p.units[c.Job]
		if u == nil {
			return d, fmt.Errorf("the engine planned %s for the unknown job %s", c.Kind, c.Job)
		}
		switch c.Kind {
		case engine.ChangePlace:
			d.Planned = append(d.Planned, p.place(u, c.Run)...)
			d.Placed++
		case engine.ChangeStop:
			p.changeRun(u, func(r *ares.Run) { *r = c.Run })
			if stop := c.Run.Stop; stop != nil && stop.Preemption != nil {
				u.leaving = true
				d.Evictions = append(d.Evictions, Eviction{Job: c.Job, For: stop.Preemption.To, Why: string(stop.Preemption.Why), Pods: u.refs()})
			}
		default:
			p.changeRun(u, func(r *ares.Run) { *r = c.Run })
		}
	}
	p.apply(now)
	again, next := p.returning(now)
	d.Planned = append(d.Planned, again...)
	d.Plan = plan
	d.Again = p.retryDomains(now) || !plan.Empty()
	d.Wake = earlier(earlier(plan.Wake, next), readmit)
	return d, nil
}

// earlier returns the earlier of two times. The zero time means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// place notes the seats of a unit.
func (p *Planner) place(u *unit, run ares.Run) []Ref {
	p.fence++
	u.fence, u.sequence = ares.Fence(p.fence), p.fence
	u.arrived = map[string]bool{}
	run.Last().Fence = u.fence
	p.changeRun(u, func(r *ares.Run) { *r = run })
	for _, s := range u.run.Last().Seats {
		p.take(s.Seat, u.ranks[s.Rank].UID)
		o := u.ranks[s.Rank]
		o.rejections, o.departures, o.moved = 0, 0, false
	}
	return u.refs()
}

// refs names the pods of a unit, by rank.
func (u *unit) refs() []Ref {
	out := make([]Ref, 0, len(u.ranks))
	for _, o := range u.ranks {
		if o != nil {
			out = append(out, Ref{o.UID, o.Namespace, o.Name})
		}
	}
	return out
}

// Protect keeps a unit from being preempted, because a PodDisruptionBudget does not allow its eviction now. The stop that
// was planned for it is taken back, and the unit for which it was planned is decided again.
func (p *Planner) Protect(e Eviction, why string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.units[e.Job]; u != nil {
		u.leaving = false
		p.events = append(p.events, ares.Event{Protect: &ares.Protection{Job: e.Job, Why: why}})
		p.changeRun(u, func(r *ares.Run) { r.Stop = nil })
	}
	if u := p.units[e.For]; u != nil && u.run.Nominated != nil {
		p.changeRun(u, func(r *ares.Run) { _ = r.Withdraw(why, now) }) // it is nominated, as checked
	}
}

// Unprotect lets a unit be preempted again.
func (p *Planner) Unprotect(id ares.JobID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.units[id] != nil {
		p.gone(ares.KindProtection, string(id))
	}
}
