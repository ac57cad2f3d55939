// Package enginetest drives an engine the way the server does, without a
// server: a World is a store in memory whose every change is a batch, and a
// script is a scenario in text. After every step the laws are checked, and a
// whole history can be replayed into a second engine, which must decide alike.
package enginetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/laws"
)

// mostTurns is up to how many placings a plan is gone through turn by turn.
const mostTurns = 50

// Epoch is when every world begins.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// World is a store in memory around a state. It knows the default tenant,
// without limits.
type World struct {
	State *engine.State
	Now   time.Time

	revision int64
	log      []ares.Batch
	plans    []ares.Plan
	life     life
	witness  laws.Witness
	keeper   laws.Keeper
	hurry    bool           // not every decision is looked at from all sides
	promised []ares.Promise // by the last plan
}

// NewWorld returns a world with no nodes and no jobs.
func NewWorld() *World { return NewWorldWith(engine.Default()) }

// NewWorldWith returns a world that decides by a configuration.
func NewWorldWith(cfg engine.Config) *World {
	w := &World{State: engine.NewWith(cfg), Now: Epoch}
	w.Put(ares.Event{Tenant: &ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits()}})
	return w
}

// Put writes events as one revision. Nodes, tenants, forecasts: all of that may move
// what was promised.
func (w *World) Put(events ...ares.Event) {
	if slices.ContainsFunc(events, func(ev ares.Event) bool { return ev.Job == nil && ev.Run == nil }) {
		w.keeper.Forget()
	}
	w.write(events)
}

func (w *World) write(events []ares.Event) {
	w.revision++
	for i := range events {
		events[i].Revision = w.revision
	}
	b := ares.Batch{Revision: w.revision, Events: events}
	w.log = append(w.log, b)
	w.State.Apply(b)
}

// Join writes a node's record and opens its session.
func (w *World) Join(n ares.Node) {
	n.Revision = w.revision + 1
	w.Put(ares.Event{Node: &n}, ares.Event{Session: &ares.Session{Node: n.ID, Instance: "i", Revision: n.Revision}})
}

// Submit accepts a job under the ID.
func (w *World) Submit(id ares.JobID, spec ares.Spec) {
	w.Put(ares.Event{Job: &ares.Job{Spec: spec.WithDefaults(), ID: id, AcceptedAt: w.Now, Revision: w.revision + 1}})
}

// Change applies one transition to a job's run, as the store does: the
// outcome is written only when the transition is allowed.
func (w *World) Change(id ares.JobID, transition func(*ares.Job, *ares.Run) error) error {
	job, ok := w.State.Job(id)
	if !ok {
		return fmt.Errorf("there is no job %s", id)
	}
	run, _ := w.State.Run(id)
	before := run.Clone()
	if err := transition(job, &run); err != nil {
		return err
	}
	run.Revision = before.Revision
	if reflect.DeepEqual(run, before) {
		return nil
	}
	run.Revision = w.revision + 1
	w.Put(ares.Event{Run: &ares.RunEvent{Job: id, Run: run}})
	return nil
}

// Decide decides once, and checks the laws on the plan and on the state after
// it: a decision leaves no trace.
func (w *World) Decide() (ares.Plan, error) {
	plan := engine.Decide(w.State, w.Now)
	w.promised = slices.Clone(w.State.Promises())
	w.plans = append(w.plans, plan)
	if err := same(plan, engine.Decide(w.State, w.Now)); err != nil {
		return plan, fmt.Errorf("decided twice: %w", err)
	}
	if err := CheckPlan(w.State, plan); err != nil {
		return plan, fmt.Errorf("plan at revision %d: %w", plan.Revision, err)
	}
	cfg := w.State.Config()
	if len(plan.Place) <= mostTurns && cfg.Queueing.Blocked == engine.BlockedSkip && !cfg.Yielding.Moving { // else who fits may wait
		if err := w.Turns(plan); err != nil {
			return plan, fmt.Errorf("plan at revision %d: %w", plan.Revision, err)
		}
	}
	if err := Check(w.State); err != nil {
		return plan, fmt.Errorf("after the decision at revision %d: %w", plan.Revision, err)
	}
	return plan, nil
}

// Plans are the decisions made so far.
func (w *World) Plans() []ares.Plan { return w.plans }

// Commit writes a plan, and checks the laws on the run so far and on the state
// after it.
func (w *World) Commit(plan ares.Plan) error {
	if err := errors.Join(w.witness.See(w.State, &plan), w.keeper.See(w.State, &plan, w.promised)); err != nil {
		return err
	}
	if err := w.Write(plan); err != nil {
		return err
	}
	return Check(w.State)
}

// Write writes a plan as one revision, which is the fence of every attempt it
// places. It is a second, simpler implementation of engine.PlanChanges on
// purpose: the oracle that every plan of a test is checked against.
func (w *World) Write(plan ares.Plan) error {
	var events []ares.Event
	put := func(id ares.JobID, run ares.Run) {
		run.Revision = w.revision + 1
		events = append(events, ares.Event{Run: &ares.RunEvent{Job: id, Run: run}})
	}
	for _, id := range plan.Ready {
		run, _ := w.State.Run(id)
		if err := run.Ready(plan.Now); err != nil {
			return fmt.Errorf("ready %s: %w", id, err)
		}
		put(id, run)
	}
	for _, step := range plan.Arrays {
		run, _ := w.State.Run(step.Job)
		if err := run.Advance(&step, plan.Now); err != nil {
			return fmt.Errorf("array %s: %w", step.Job, err)
		}
		put(step.Job, run)
	}
	for _, stop := range plan.Stop {
		run, _ := w.State.Run(stop.Job)
		if err := run.RequestStop(stop.Stop); err != nil {
			return fmt.Errorf("stop %s: %w", stop.Job, err)
		}
		put(stop.Job, run)
	}
	for i := range plan.Note {
		n := &plan.Note[i]
		run, _ := w.State.Run(n.Job)
		if err := run.NoteLateness(n, plan.Now); err != nil {
			return fmt.Errorf("note %s: %w", n.Job, err)
		}
		put(n.Job, run)
	}
	if err := w.nominate(&plan, put); err != nil {
		return err
	}
	for _, p := range plan.Place {
		run, _ := w.State.Run(p.Job)
		if p.ArrayOf != "" {
			array, _ := w.State.Job(p.ArrayOf)
			job := array.Element(p.Index)
			job.Revision = w.revision + 1
			events = append(events, ares.Event{Job: job})
			run = ares.NewRun(job.AcceptedAt)
			if f, known := w.State.Forecast(p.ArrayOf); known { // of jobs alike the same is said
				f.Job = p.Job
				events = append(events, ares.Event{Forecast: &f})
			}
		}
		if err := p.Apply(&run, plan.Now); err != nil {
			return fmt.Errorf("place %s: %w", p.Job, err)
		}
		run.Last().Fence = ares.Fence(w.revision + 1)
		put(p.Job, run)
	}
	if err := w.checkPlanChanges(&plan, events); err != nil {
		return err
	}
	if len(events) > 0 {
		w.write(events)
	}
	return nil
}

// nominate writes the seats that a plan keeps for jobs, and those it gives up.
func (w *World) nominate(plan *ares.Plan, put func(ares.JobID, ares.Run)) error {
	for _, n := range plan.Nominate {
		run, _ := w.State.Run(n.Job)
		if err := run.Nominate(n.Nomination); err != nil {
			return fmt.Errorf("nominate %s: %w", n.Job, err)
		}
		put(n.Job, run)
	}
	for _, n := range plan.Withdraw {
		run, _ := w.State.Run(n.Job)
		if err := run.Withdraw(n.Why, plan.Now); err != nil {
			return fmt.Errorf("withdraw %s: %w", n.Job, err)
		}
		put(n.Job, run)
	}
	return nil
}

// Settle decides and commits until nothing changes, then five times more: now
// nothing may move. It answers with the plans that changed something.
func (w *World) Settle() ([]ares.Plan, error) {
	var out []ares.Plan
	for range 100 {
		plan, err := w.Decide()
		if err != nil {
			return out, err
		}
		if plan.Empty() {
			return out, w.still(plan)
		}
		if err := w.Commit(plan); err != nil {
			return out, err
		}
		out = append(out, plan)
	}
	return out, fmt.Errorf("a hundred decisions have not settled it")
}

func (w *World) still(last ares.Plan) error {
	for range 5 {
		plan, err := w.Decide()
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(plan, last) {
			return fmt.Errorf("a settled state changed its plan from %+v to %+v", last, plan)
		}
	}
	return nil
}

// Replay gives the world's history to a new state, every batch twice, and
// wants the same plan, to the byte, wherever one was made.
func (w *World) Replay() error {
	s, next := engine.NewWith(w.State.Config()), 0
	for _, b := range w.log {
		s.Apply(b)
		s.Apply(b)
		for ; next < len(w.plans) && w.plans[next].Revision == b.Revision; next++ {
			if err := same(w.plans[next], engine.Decide(s, w.plans[next].Now)); err != nil {
				return err
			}
		}
	}
	if next != len(w.plans) {
		return fmt.Errorf("%d of %d decisions were replayed", next, len(w.plans))
	}
	if err := Check(s); err != nil {
		return err
	}
	return w.Resume()
}

// Resume gives the present records to new states as one snapshot, made from the
// history and taken from the state itself: both must decide like the one that
// saw everything happen.
func (w *World) Resume() error {
	s, err := w.Fresh()
	if err != nil {
		return err
	}
	want := engine.Decide(w.State, w.Now)
	if err = same(want, engine.Decide(s, w.Now)); err != nil {
		return err
	}
	s = engine.NewWith(w.State.Config())
	s.Apply(w.State.Snapshot())
	if err = Check(s); err != nil {
		return fmt.Errorf("after a snapshot of the state: %w", err)
	}
	return same(want, engine.Decide(s, w.Now))
}

// Fresh is a state that has the present records as one snapshot, and knows
// nothing of how they came about.
func (w *World) Fresh() (*engine.State, error) {
	s := engine.NewWith(w.State.Config())
	s.Apply(ares.Batch{Revision: 1, Events: []ares.Event{{Tenant: &ares.Tenant{ID: "old"}}}})
	s.Apply(w.Snapshot())
	if err := Check(s); err != nil {
		return nil, fmt.Errorf("after a snapshot: %w", err)
	}
	return s, nil
}

// Snapshot is the whole present content as a batch with Reset, runs before
// jobs and nodes last, so that no order is taken for granted.
func (w *World) Snapshot() ares.Batch {
	records := map[string]int{} // where the last event of each record is in all
	var all []ares.Event
	for _, b := range w.log {
		for _, ev := range b.Events {
			key, gone := recordOf(ev)
			if gone {
				delete(records, key)
				if ev.Gone.Kind == ares.KindJob {
					delete(records, "run/"+ev.Gone.ID)
					delete(records, "forecast/"+ev.Gone.ID)
				}
				continue
			}
			records[key] = len(all)
			all = append(all, ev)
		}
	}
	b := ares.Batch{Revision: w.revision, Reset: true}
	for i, ev := range slices.Backward(all) {
		if key, _ := recordOf(ev); records[key] == i {
			if _, ok := records[key]; ok {
				b.Events = append(b.Events, ev)
			}
		}
	}
	return b
}

func recordOf(ev ares.Event) (key string, gone bool) {
	switch {
	case ev.Job != nil:
		return "job/" + string(ev.Job.ID), false
	case ev.Run != nil:
		return "run/" + string(ev.Run.Job), false
	case ev.Node != nil:
		return "node/" + ev.Node.ID, false
	case ev.Session != nil:
		return "session/" + ev.Session.Node, false
	case ev.Cordon != nil:
		return "cordon/" + ev.Cordon.Node, false
	case ev.Tenant != nil:
		return "tenant/" + ev.Tenant.ID, false
	case ev.Queue != nil:
		return "queue/" + ev.Queue.ID(), false
	case ev.Reservation != nil:
		return "reservation/" + ev.Reservation.Name, false
	case ev.Topology != nil:
		return "topology/", false
	case ev.Forecast != nil:
		return "forecast/" + string(ev.Forecast.Job), false
	case ev.Score != nil:
		return "score/" + ev.Score.Node, false
	case ev.Usage != nil:
		return "usage/" + ares.QueueID(ev.Usage.Tenant, ev.Usage.Queue), false
	default:
		if ev.Gone.Kind == ares.KindTopology {
			return "topology/", true // there is one
		}
		return string(ev.Gone.Kind) + "/" + ev.Gone.ID, true
	}
}

func same(want, got ares.Plan) error {
	if a, b := spell(want), spell(got); a != b || want.Digest() != got.Digest() {
		return fmt.Errorf("the same events gave another plan at revision %d:\n%s\n%s", want.Revision, a, b)
	}
	return nil
}

// spell writes a plan out whole, what it points to included.
func spell(p ares.Plan) string {
	var yields []ares.Yield
	p.Stop = slices.Clone(p.Stop)
	for i := range p.Stop {
		if y := p.Stop[i].Stop.Yield; y != nil {
			yields, p.Stop[i].Stop.Yield = append(yields, *y), nil
		}
	}
	return fmt.Sprintf("%#v %#v", p, yields)
}

// Fork is a world with the same history, which then goes its own way.
func (w *World) Fork() *World {
	f := &World{State: engine.NewWith(w.State.Config()), Now: w.Now, revision: w.revision, log: slices.Clone(w.log)}
	for _, b := range f.log {
		f.State.Apply(b)
	}
	return f
}
