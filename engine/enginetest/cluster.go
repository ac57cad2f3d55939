package enginetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/laws"
)

// CheckOrder is called only for plans with no more than maxPlacementsToCheckOrder placements.
const maxPlacementsToCheckOrder = 50

// StartTime is the time at which every Cluster starts.
var StartTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Cluster is an in-memory store around a state. A new Cluster has the default tenant,
// without limits.
type Cluster struct {
	State *engine.State
	Now   time.Time

	revision      int64        // of the last batch
	log           []ares.Batch // every batch so far
	plans         []ares.Plan  // every plan so far
	simulation    simulation
	preemptions   laws.PreemptionHistory
	plannedStarts laws.PlannedStartCheck
	fastChecks    bool                // see UseFastChecks
	lastPromises  []ares.PlannedStart // planned starts of the last plan
}

// NewCluster returns a Cluster without nodes and jobs.
func NewCluster() *Cluster { return NewClusterWithConfig(AgedConfig()) }

// AgedConfig returns the default configuration, but with config.OrderAged and with reservations that need no
// predictable runtimes. Most scripts use it: in the order of submission it is easy to see which job should be next.
func AgedConfig() config.Config {
	cfg := config.Default()
	cfg.Queue, cfg.Backfill.MaxSpread = config.QueueConfig{}, 0
	return cfg
}

// NewClusterWithConfig returns a Cluster with a configuration.
func NewClusterWithConfig(cfg config.Config) *Cluster {
	w := &Cluster{State: engine.NewWith(cfg), Now: StartTime}
	w.PutEvents(ares.Event{Tenant: &ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits()}})
	return w
}

// PutEvents writes events as one revision. Events that are not about jobs and runs may change planned starts, so they
// reset the check of planned starts.
func (w *Cluster) PutEvents(events ...ares.Event) {
	if slices.ContainsFunc(events, func(ev ares.Event) bool { return ev.Job == nil && ev.Run == nil }) {
		w.plannedStarts.Reset()
	}
	w.write(events)
}

// The method `write` writes events as one revision.
func (w *Cluster) write(events []ares.Event) {
	w.revision++
	for i := range events {
		events[i].Revision = w.revision
	}
	b := ares.Batch{Revision: w.revision, Events: events}
	w.log = append(w.log, b)
	w.State.Apply(b)
}

// AddNode writes a node's record and opens its session.
func (w *Cluster) AddNode(n ares.Node) {
	n.Revision = w.revision + 1
	w.PutEvents(ares.Event{Node: &n}, ares.Event{Session: &ares.Session{Node: n.ID, Instance: "i", Revision: n.Revision}})
}

// Submit accepts a job with the given ID.
func (w *Cluster) Submit(id ares.JobID, spec ares.Spec) {
	w.submit(id, spec, false)
}

// The method `submit` is Submit, for a job that a platform administrator submitted if `trusted` is true.
func (w *Cluster) submit(id ares.JobID, spec ares.Spec, trusted bool) {
	w.PutEvents(ares.Event{Job: &ares.Job{Spec: spec.WithDefaults(), ID: id, AcceptedAt: w.Now, Revision: w.revision + 1, Trusted: trusted}})
}

// UpdateRun applies one transition to a job's run. Like the store, UpdateRun writes the result only if the
// transition is allowed.
func (w *Cluster) UpdateRun(id ares.JobID, transition func(*ares.Job, *ares.Run) error) error {
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
	w.PutEvents(ares.Event{Run: &ares.RunEvent{Job: id, Run: run}})
	return nil
}

// Decide makes one decision. Decide also checks that the plan breaks no law, that a
// repeated decision gives the same plan, and that the state is unchanged.
func (w *Cluster) Decide() (ares.Plan, error) {
	plan := engine.Decide(w.State, w.Now)
	w.lastPromises = slices.Clone(w.State.PlannedStarts())
	w.plans = append(w.plans, plan)
	if err := laws.CheckHolds(w.State, w.Now, w.lastPromises); err != nil {
		return plan, fmt.Errorf("plan at revision %d: %w", plan.Revision, err)
	}
	if err := checkSamePlan(plan, engine.Decide(w.State, w.Now)); err != nil {
		return plan, fmt.Errorf("decided twice: %w", err)
	}
	if err := CheckPlan(w.State, plan); err != nil {
		return plan, fmt.Errorf("plan at revision %d: %w", plan.Revision, err)
	}
	cfg := w.State.Config()
	if len(plan.Place) <= maxPlacementsToCheckOrder && cfg.Queue.Blocked == config.BlockedSkip && !cfg.Preemption.Moving { // a job that fits may wait for other reasons
		if err := w.CheckOrder(plan); err != nil {
			return plan, fmt.Errorf("plan at revision %d: %w", plan.Revision, err)
		}
	}
	if err := CheckState(w.State); err != nil {
		return plan, fmt.Errorf("after the decision at revision %d: %w", plan.Revision, err)
	}
	return plan, nil
}

// Plans returns all plans that Decide has returned so far.
func (w *Cluster) Plans() []ares.Plan { return w.plans }

// Commit writes a plan. Commit also checks two groups of laws: those about the sequence
// of plans, and those about the new state.
func (w *Cluster) Commit(plan ares.Plan) error {
	if err := errors.Join(w.preemptions.Observe(w.State, &plan), w.plannedStarts.Observe(w.State, &plan, w.lastPromises)); err != nil {
		return err
	}
	if err := w.ApplyPlan(plan); err != nil {
		return err
	}
	return CheckState(w.State)
}

// ApplyPlan writes a plan as one revision. The number of this revision is the fence of every attempt that the
// plan places. ApplyPlan is intentionally a second, simpler implementation of engine.PlanChanges, and serves as
// the oracle for every plan of a test.
func (w *Cluster) ApplyPlan(plan ares.Plan) error {
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
	if err := w.appendNominations(&plan, put); err != nil {
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
			if f, known := w.State.Forecast(p.ArrayOf); known { // elements share the estimate
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

// appendNominations writes the nominations that a plan makes and the nominations that it
// withdraws.
func (w *Cluster) appendNominations(plan *ares.Plan, put func(ares.JobID, ares.Run)) error {
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

// DecideUntilStable makes and commits plans until a plan is empty, and checks that five
// more decisions give the same empty plan. DecideUntilStable returns the plans that were
// not empty.
func (w *Cluster) DecideUntilStable() ([]ares.Plan, error) {
	var out []ares.Plan
	for range 100 {
		plan, err := w.Decide()
		if err != nil {
			return out, err
		}
		if plan.Empty() {
			return out, w.checkStable(plan)
		}
		if err := w.Commit(plan); err != nil {
			return out, err
		}
		out = append(out, plan)
	}
	return out, fmt.Errorf("a hundred decisions have not settled it")
}

// checkStable checks that five more decisions give the same plan as the last decision.
func (w *Cluster) checkStable(last ares.Plan) error {
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

// CheckReplay applies every batch of the history twice to a new state. The new state must lead to the same plans
// as the original one, byte for byte.
func (w *Cluster) CheckReplay() error {
	s, next := engine.NewWith(w.State.Config()), 0
	for _, b := range w.log {
		s.Apply(b)
		s.Apply(b)
		for ; next < len(w.plans) && w.plans[next].Revision == b.Revision; next++ {
			if err := checkSamePlan(w.plans[next], engine.Decide(s, w.plans[next].Now)); err != nil {
				return err
			}
		}
	}
	if next != len(w.plans) {
		return fmt.Errorf("%d of %d decisions were replayed", next, len(w.plans))
	}
	if err := CheckState(s); err != nil {
		return err
	}
	return w.CheckSnapshot()
}

// CheckSnapshot checks that a fresh state built from a snapshot leads to the same decision as the original state.
// CheckSnapshot tests a snapshot that is built from the history and a snapshot that is taken from the state.
func (w *Cluster) CheckSnapshot() error {
	s, err := w.StateFromSnapshot()
	if err != nil {
		return err
	}
	want := engine.Decide(w.State, w.Now)
	if err = checkSamePlan(want, engine.Decide(s, w.Now)); err != nil {
		return err
	}
	s = engine.NewWith(w.State.Config())
	s.Apply(w.State.Snapshot())
	if err = CheckState(s); err != nil {
		return fmt.Errorf("after a snapshot of the state: %w", err)
	}
	return checkSamePlan(want, engine.Decide(s, w.Now))
}

// StateFromSnapshot returns a new state that is built from a snapshot of the current
// records. The new state does not know the earlier history.
func (w *Cluster) StateFromSnapshot() (*engine.State, error) {
	s := engine.NewWith(w.State.Config())
	s.Apply(ares.Batch{Revision: 1, Events: []ares.Event{{Tenant: &ares.Tenant{ID: "old"}}}})
	s.Apply(w.Snapshot())
	if err := CheckState(s); err != nil {
		return nil, fmt.Errorf("after a snapshot: %w", err)
	}
	return s, nil
}

// Snapshot returns all current records as one batch with Reset. Runs come before jobs, and nodes come last, to test that
// the order of records does not matter.
func (w *Cluster) Snapshot() ares.Batch {
	records := map[string]int{} // by record: index in all of its last event
	var all []ares.Event
	for _, b := range w.log {
		for _, ev := range b.Events {
			key, gone := recordKey(ev)
			if gone {
				delete(records, key)
				if ev.Gone.Kind == ares.KindJob {
					delete(records, "run/"+ev.Gone.ID)
					delete(records, "forecast/"+ev.Gone.ID)
					delete(records, "protection/"+ev.Gone.ID)
				}
				continue
			}
			records[key] = len(all)
			all = append(all, ev)
		}
	}
	b := ares.Batch{Revision: w.revision, Reset: true}
	for i, ev := range slices.Backward(all) {
		if key, _ := recordKey(ev); records[key] == i {
			if _, ok := records[key]; ok {
				b.Events = append(b.Events, ev)
			}
		}
	}
	return b
}

// recordKey returns the key of the record that an event changes, and whether the event deletes this
// record.
func recordKey(ev ares.Event) (key string, gone bool) {
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
	case ev.Protect != nil:
		return "protection/" + string(ev.Protect.Job), false
	case ev.Score != nil:
		return "score/" + ev.Score.Node, false
	case ev.Usage != nil:
		return "usage/" + ares.QueueID(ev.Usage.Tenant, ev.Usage.Queue), false
	default:
		if ev.Gone.Kind == ares.KindTopology {
			return "topology/", true // there is only one topology record
		}
		return string(ev.Gone.Kind) + "/" + ev.Gone.ID, true
	}
}

// checkSamePlan checks that two plans are equal, byte for byte.
func checkSamePlan(want, got ares.Plan) error {
	if a, b := formatWholePlan(want), formatWholePlan(got); a != b || want.Digest() != got.Digest() {
		return fmt.Errorf("the same events gave another plan at revision %d:\n%s\n%s", want.Revision, a, b)
	}
	return nil
}

// formatWholePlan prints a plan, including all values that its pointers refer to.
func formatWholePlan(p ares.Plan) string {
	var yields []ares.Preemption
	p.Stop = slices.Clone(p.Stop)
	for i := range p.Stop {
		if y := p.Stop[i].Stop.Preemption; y != nil {
			yields, p.Stop[i].Stop.Preemption = append(yields, *y), nil
		}
	}
	return fmt.Sprintf("%#v %#v", p, yields)
}

// Fork returns a copy of the Cluster with the same history. Later changes to the copy do not affect the original
// Cluster, and vice versa.
func (w *Cluster) Fork() *Cluster {
	f := &Cluster{State: engine.NewWith(w.State.Config()), Now: w.Now, revision: w.revision, log: slices.Clone(w.log)}
	for _, b := range f.log {
		f.State.Apply(b)
	}
	return f
}
