package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
)

// simulateSteps applies the steps to the state, calls the function `look`, and undoes the steps. The caller has
// exclusive access to the state, so no other code sees the simulated change. The cached information about which
// jobs cannot be placed remains valid, because a step never reduces free capacity.
func (ex *Explainer) simulateSteps(e *job.Entry, steps []ares.Step, now time.Time, look func()) {
	shape := e.Shape
	shape.Refs++ // keeps the caches of the shape, which are needed again afterwards
	var delays []savedDelay
	undo := make([][]ares.Event, 0, len(steps))
	for i := range steps {
		events := ex.eventsOf(e, &steps[i], now)
		undo = append(undo, ex.inverseEvents(events))
		delays = ex.saveDelays(events, delays)
		ex.core.ApplyEvents(events)
	}
	if w := e.Shape.Request; w != shape.Request {
		w.AnyNodeDoes = w.Refs == 1 && e.Shape.Refs == 1 // otherwise other jobs share the request
	}
	ex.core.Refresh()
	look()
	for _, events := range slices.Backward(undo) {
		ex.core.ApplyEvents(events)
	}
	ex.core.Refresh()
	ex.jobs.Shapes.Release(shape)
	for _, d := range delays {
		if !d.entry.DelayUntil.Equal(d.due) { // the undo computed the delay from a different time
			ex.jobs.Dequeue(d.entry)
			ex.jobs.EnqueueDelayed(d.entry, d.due)
		}
	}
}

// savedDelay holds a delayed job and the end of its delay.
type savedDelay struct {
	entry *job.Entry
	due   time.Time
}

// saveDelays adds each delayed job to the list if one of the events changes the job.
func (ex *Explainer) saveDelays(events []ares.Event, to []savedDelay) []savedDelay {
	for i := range events {
		var e *job.Entry
		if run := events[i].Run; run != nil {
			e = ex.jobs.EntryByID[run.Job]
		} else if job := events[i].Job; job != nil {
			e = ex.jobs.EntryByID[job.ID]
		}
		if e != nil && e.Queue == job.InDelayed {
			to = append(to, savedDelay{e, e.DelayUntil})
		}
	}
	return to
}

// eventsOf returns the events that a step for the job would cause in the store.
func (ex *Explainer) eventsOf(e *job.Entry, step *ares.Step, now time.Time) []ares.Event {
	switch step.Kind {
	case ares.StepWait:
		return ex.readyEvents(now.Add(time.Duration(step.Amount) * time.Millisecond))
	case ares.StepSucceed:
		return ex.endEvents(ares.JobID(step.Target.ID), ares.Succeeded, now)
	case ares.StepPriority, ares.StepRelax, ares.StepShrink:
		job := *e.Job
		job.Spec = step.Changed(job.Spec)
		return []ares.Event{{Job: &job}}
	case ares.StepLimit, ares.StepQuota:
		return ex.raiseEvents(step)
	case ares.StepUncordon:
		return []ares.Event{{Gone: ares.Gone{Kind: ares.KindCordon, ID: step.Target.ID}}}
	case ares.StepEnd, ares.StepFree:
		var out []ares.Event
		for _, id := range step.Jobs {
			out = append(out, ex.endEvents(id, ares.Cancelled, now)...)
		}
		return out
	case ares.StepNode:
		var out []ares.Event
		for i := range step.Amount {
			n := cloneNode(ex.cluster.NodesByID[step.Target.ID].Record, i)
			out = append(out, ares.Event{Node: n}, ares.Event{Session: &ares.Session{Node: n.ID}})
		}
		return out
	}
	return nil
}

// readyEvents returns events for all jobs whose delay is over at the given time. Like a plan, the events make the
// runs of these jobs pending.
func (ex *Explainer) readyEvents(at time.Time) []ares.Event {
	var plan ares.Plan
	ex.jobs.ReadyDelayed(&plan, at)
	var out []ares.Event
	for _, id := range plan.Ready {
		run := ex.jobs.EntryByID[id].Run.Clone()
		run.Phase, run.NotBefore = ares.Pending, time.Time{}
		out = append(out, ares.Event{Run: &ares.RunEvent{Job: id, Run: run}})
	}
	return out
}

// cloneNode returns the i-th copy of a node record. The copy has a new ID, and its devices are healthy and cool.
func cloneNode(like *ares.Node, i int) *ares.Node {
	n := *like
	n.ID = fmt.Sprintf("%s-more-%d", like.ID, i)
	n.Unfit, n.Revision = "", 0
	n.Devices = slices.Clone(like.Devices)
	for k := range n.Devices {
		d := &n.Devices[k]
		d.ID, d.Healthy, d.Reason, d.Celsius = n.ID+"/"+d.ID, true, "", 0
		if d.Parent != "" {
			d.Parent = n.ID + "/" + d.Parent
		}
	}
	return &n
}

// endEvents returns the events that end a job and its array elements. The events release the seats of the job's
// last attempt. Seats of earlier attempts on lost nodes stay taken.
func (ex *Explainer) endEvents(id ares.JobID, as ares.Phase, now time.Time) []ares.Event {
	e := ex.jobs.EntryByID[id]
	if e == nil {
		return nil
	}
	run := ares.Run{}
	if e.Run != nil {
		run = e.Run.Clone()
	}
	if a := run.Current(); a != nil {
		a.EndedAt, a.Outcome = now, ares.OutcomeStopped
		for i := range a.Seats {
			a.Seats[i].State = ares.SeatReleased
		}
	}
	run.Phase, run.Stop, run.Nominated, run.FinishedAt = as, nil, nil, now
	out := []ares.Event{{Run: &ares.RunEvent{Job: id, Run: run}}}
	for i := range run.Next { // the elements of an array end with it
		if element := ex.jobs.EntryByID[ares.ElementID(id, i)]; element != nil && !element.Phase().Final() {
			out = append(out, ex.endEvents(element.ID, as, now)...)
		}
	}
	return out
}

// raiseEvents returns events that write the record of a tenant or queue with a raised limit or quota.
func (ex *Explainer) raiseEvents(step *ares.Step) []ares.Event {
	tenant, name := step.Target.Tenant, step.Target.Queue
	raise := func(limits *ares.Limits, quotas *[]ares.Quota) {
		if step.Kind == ares.StepLimit {
			limits.Raise(step.Field, step.Amount)
			return
		}
		*quotas = slices.Clone(*quotas)
		for i := range *quotas {
			if q := &(*quotas)[i]; strings.EqualFold(q.Model, step.Field) {
				q.Nominal = min(q.Nominal+step.Amount, ares.Unlimited)
			}
		}
	}
	if name != "" {
		q := *ex.jobs.Queues.QueueRecord(tenant, name)
		raise(&q.Limits, &q.Quotas)
		return []ares.Event{{Queue: &q}}
	}
	t := *ex.jobs.Tenants[tenant].Record
	raise(&t.Limits, &t.Quotas)
	if step.Field == ares.LimitGPUHours {
		t.GPUHours += step.Amount
	}
	return []ares.Event{{Tenant: &t}}
}

// inverseEvents returns the events that undo the given events. The inverse events restore replaced or removed
// records, and remove added records.
func (ex *Explainer) inverseEvents(events []ares.Event) []ares.Event {
	out := make([]ares.Event, 0, len(events))
	for i := range events {
		switch ev := &events[i]; {
		case ev.Job != nil:
			out = append(out, ares.Event{Job: ex.jobs.EntryByID[ev.Job.ID].Job})
		case ev.Run != nil:
			if run := ex.jobs.EntryByID[ev.Run.Job].Run; run != nil {
				out = append(out, ares.Event{Run: &ares.RunEvent{Job: ev.Run.Job, Run: *run}})
			} else {
				out = append(out, ares.Event{Gone: ares.Gone{Kind: ares.KindRun, ID: string(ev.Run.Job)}})
			}
		case ev.Tenant != nil:
			out = append(out, ares.Event{Tenant: ex.jobs.Tenants[ev.Tenant.ID].Record})
		case ev.Queue != nil:
			out = append(out, ares.Event{Queue: ex.jobs.Queues.QueueRecord(ev.Queue.Tenant, ev.Queue.Name)})
		case ev.Node != nil:
			out = append(out, ares.Event{Gone: ares.Gone{Kind: ares.KindNode, ID: ev.Node.ID}})
		case ev.Session != nil:
			out = append(out, ares.Event{Gone: ares.Gone{Kind: ares.KindSession, ID: ev.Session.Node}})
		case ev.Gone.Kind == ares.KindCordon:
			out = append(out, ares.Event{Cordon: ex.cluster.NodesByID[ev.Gone.ID].Cordon})
		}
	}
	return out
}

// inNextPlan reports whether the next plan places the job, or an element of the job's
// array. inNextPlan simulates the cycle up to the job's turn.
func (ex *Explainer) inNextPlan(e *job.Entry, now time.Time) bool {
	if ex.jobs.Queues.HasQuotas() && ex.cfg.Preemption.Enabled { // the cycle may need a second pass
		plan := ares.Plan{Now: now}
		ex.round.RunCycle(&plan, ex.cfg.Preemption.Moving)
		return slices.ContainsFunc(plan.Place, func(p ares.Placing) bool { return p.Job == e.ID || p.ArrayOf == e.ID })
	}
	places, found := 0, false
	ex.round.RunRound(&ares.Plan{Now: now}, func(o *job.Entry, placing *ares.Placing, _ bool) bool {
		if o == e || o.Shape == e.Shape && placing == nil && !ex.round.Preempt.HasHold(o) && ex.round.Backfill.BackfillConfig().First == 0 && !ex.round.Place.WouldDelay {
			found = placing != nil
			return false
		}
		if placing != nil {
			places++
		}
		return places < config.MaxPlacings
	})
	return found
}

// fitsAlone reports whether the job would be admitted and would fit if no other job waited. If fitsAlone returns
// false, inNextPlan also returns false.
func (ex *Explainer) fitsAlone(e *job.Entry, now time.Time) bool {
	if len(e.Shape.Affinity) > 0 {
		return true // the same plan may place the job that it has affinity to
	}
	members, ban := ex.jobs.AdmissibleMembers(e.Shape, now)
	if members == 0 || ex.round.Backfill.KnownUnschedulable(e.Shape, ban) {
		return false
	}
	t := ex.round.Begin(now)
	t.Preempt.AdvanceNominations(&ares.Plan{Now: now}, e, nil)
	kept := len(t.Backfill.Holds)
	stay := t.Place.StayOf(e)
	_, ok := t.Place.PlaceJob(e.Shape, members, ban, e, stay)
	if !ok && kept == 0 && !t.Place.IsBlockedByWindows(e, members, ban, stay) {
		ex.round.Place.RememberUnschedulable(e.Shape, ban)
	}
	t.Preempt.ReleaseNominations()
	t.Close()
	return ok
}

// nextPlanIsQuiet reports whether the next plan has no placements, no stops and no nominations.
func (ex *Explainer) nextPlanIsQuiet(now time.Time) bool {
	quiet, plan := true, ares.Plan{Now: now}
	ex.round.RunRound(&plan, func(_ *job.Entry, placing *ares.Placing, _ bool) bool {
		quiet = placing == nil
		return quiet
	})
	return quiet && len(plan.Nominate)+len(plan.Withdraw)+len(plan.Stop) == 0
}
