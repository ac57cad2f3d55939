package sim

import (
	"container/heap"
	"strconv"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Epoch is the time at which every simulation starts.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// World simulates a fleet and the jobs of a trace in virtual time. For the engine, a World replaces the store. A
// World applies plans and reports the results as batches of events.
type World struct {
	state          *engine.State
	policy         Policy
	now            time.Time
	wake           time.Time // next time at which the plan may change without an event, zero for none
	lastChange     time.Time // time of the last event
	changed        bool      // a plan of the current time step changed something
	revision       int64
	jobs           []record
	ends           endHeap
	batch          []ares.Event // events of the current time step
	usage          map[string]ares.Usage
	tenants        map[string]bool // tenants that have a record
	gpus           int
	maxMachineGPUs int                       // GPUs of the largest machine
	fleet          *engine.StaticFeasibility // finds infeasible jobs and splits jobs that exceed one machine
	allocated      timeMeter
	demandMilli    int // thousandths of devices requested by jobs that arrived and have not ended
	finished       int // jobs that ended
	halted         bool
	hasAffinity    bool           // some job has an affinity to other jobs
	probes         []func(*World) // called after every time step with an event
	accounting     *accounting    // nil unless it is needed
	fairness       *fairnessMeter // nil unless it is needed
	laws           *lawChecker    // nil unless it is needed
	predictor      *predictor     // nil unless the policy uses predicted runtimes
	// The function `moved` is called when a job starts for the first time and when it ends; nil for none.
	moved func(r *record)
}

// A `record` is the state of one job that has arrived.
type record struct {
	id        ares.JobID
	tenant    string
	name      string
	traceID   string        // its ID in the trace
	line      int           // line in the trace
	runtime   time.Duration // as Arrival.Runs
	deadline  time.Time     // zero for none
	accepted  time.Time
	placed    time.Time // zero before its first placement
	ended     time.Time
	gpus      int       // thousandths of devices
	refused   bool      // the job can never run on this fleet
	leftQueue time.Time // when its queue timeout expired, zero if it did not

	remaining   time.Duration // runtime left at the start of the current attempt
	since       time.Time     // start of the current attempt
	attempts    int
	preemptions int   // number of preemptions
	lostMilli   int64 // thousandths of GPU-seconds lost by preemption
}

// NewWorld returns a world with the given policy. The world has the machines, tenants, queues and reservations of a
// fleet, but no jobs.
func NewWorld(f *Fleet, p Policy) *World {
	w := &World{state: engine.NewWith(p.Engine), policy: p, now: Epoch, usage: map[string]ares.Usage{}, tenants: map[string]bool{}}
	if p.Estimate == EstimateForecast {
		w.predictor = newPredictor()
	}
	for _, t := range f.Tenants() {
		w.tenants[t.ID] = true
		w.batch = append(w.batch, ares.Event{Tenant: t})
	}
	for _, q := range f.Queues() {
		w.batch = append(w.batch, ares.Event{Queue: q})
	}
	for _, r := range f.Reservations() {
		w.batch = append(w.batch, ares.Event{Reservation: r})
	}
	if f.Topology != nil {
		w.batch = append(w.batch, ares.Event{Topology: f.Topology})
	}
	w.allocated.since = Epoch
	for n := range f.Nodes() {
		w.gpus += len(n.Devices)
		w.maxMachineGPUs = max(w.maxMachineGPUs, len(n.Devices))
		w.batch = append(w.batch, ares.Event{Node: n}, ares.Event{Session: &ares.Session{Node: n.ID, Instance: "sim"}})
	}
	w.fleet = engine.NewStaticFeasibility()
	w.fleet.Apply(ares.Batch{Revision: 1, Events: w.batch})
	w.flush()
	return w
}

// Run simulates a trace until its last job has ended. The parameter `until` limits the simulated time. If it is not
// zero, the simulation ends after that time at the latest. After every time step with an event, Run calls the
// function `tick`.
func (w *World) Run(t *Trace, until time.Duration, tick func(now time.Time, waiting int)) error {
	at := 0
	w.Expect(len(t.Arrivals))
	return w.RunStream(func() (*Arrival, bool) {
		if at == len(t.Arrivals) {
			return nil, false
		}
		at++
		return &t.Arrivals[at-1], true
	}, until, tick)
}

// Expect allocates memory for the given number of jobs in advance.
func (w *World) Expect(jobs int) { w.jobs = make([]record, 0, jobs) }

// RunStream is like Run, but takes the jobs one by one, in the order of their
// arrival. Each arrival is valid until RunStream requests the next arrival.
func (w *World) RunStream(next func() (*Arrival, bool), until time.Duration, tick func(now time.Time, waiting int)) error {
	arrival, more := next()
	if !more {
		return ares.Errorf(ares.Invalid, "the trace has no jobs")
	}
	traceStart, waiting := arrival.At, 0
	for !w.halted && (more || len(w.ends) > 0 || !w.wake.IsZero()) {
		at := w.nextTime(arrival, more, traceStart)
		if until > 0 && at.After(Epoch.Add(until)) {
			w.now = Epoch.Add(until)
			return nil
		}
		w.now, w.changed = at, false
		hasEvent := len(w.ends) > 0 && !w.ends[0].at.After(at) || more && !Epoch.Add(arrival.At-traceStart).After(at)
		for len(w.ends) > 0 && !w.ends[0].at.After(at) {
			if waits, err := w.handleEnd(heap.Pop(&w.ends).(attemptEnd)); err != nil {
				return err
			} else if waits {
				waiting++
			}
		}
		for more && !Epoch.Add(arrival.At-traceStart).After(at) {
			if w.arrive(arrival) {
				waiting++
			}
			arrival, more = next()
		}
		w.flush()
		placed, err := w.decide()
		if err != nil {
			return err
		}
		waiting -= placed
		if !hasEvent && !w.changed {
			continue // the engine decided again, but nothing changed
		}
		w.lastChange = w.now
		for _, probe := range w.probes {
			probe(w)
		}
		if tick != nil {
			tick(w.now, waiting)
		}
	}
	w.now = w.lastChange
	return nil
}

// Halt ends a run after the current time step.
func (w *World) Halt() { w.halted = true }

// nextTime returns the time of the next event. The event is an arrival, the end of an attempt, or the wake time of
// the last plan.
func (w *World) nextTime(arrival *Arrival, more bool, traceStart time.Duration) time.Time {
	var at time.Time
	if more {
		at = Epoch.Add(arrival.At - traceStart)
	}
	if len(w.ends) > 0 && (at.IsZero() || w.ends[0].at.Before(at)) {
		at = w.ends[0].at
	}
	if !w.wake.IsZero() && (at.IsZero() || w.wake.Before(at)) {
		at = w.wake
	}
	return at
}

// This method accepts a job and returns whether it is waiting now.
func (w *World) arrive(a *Arrival) bool {
	id := jobID(len(w.jobs))
	split, refused := w.split(a.Spec)
	spec := split.WithDefaults()
	if !spec.Deadline.IsZero() { // the times of a trace count from its own start
		spec.Deadline = w.now.Add(spec.Deadline.Sub(time.Unix(0, 0)) - a.At)
	}
	if !w.tenants[spec.Tenant] {
		w.tenants[spec.Tenant] = true
		w.batch = append(w.batch, ares.Event{Tenant: &ares.Tenant{ID: spec.Tenant, Limits: ares.NoLimits()}})
	}
	w.jobs = append(w.jobs, record{
		id: id, tenant: spec.Tenant, name: spec.Name, traceID: a.ID, line: a.Line, runtime: a.Runs, deadline: spec.Deadline, accepted: w.now,
		gpus: spec.Members * max(1000*spec.GPUs, spec.GPUMilli), remaining: a.Runs, refused: refused,
	})
	if refused {
		return false
	}
	if w.policy.Engine.Queue.Preempt || w.policy.Preemptible {
		spec.Checkpoint.Enabled = true // a preempted job resumes from its checkpoint
	}
	spec.GraceSeconds = new(w.policy.CheckpointSeconds) // in a simulation, stopping takes exactly as long as the checkpoint
	w.demandMilli += w.jobs[len(w.jobs)-1].gpus
	w.hasAffinity = w.hasAffinity || len(spec.Placement().Affinity) > 0
	// A simulation does not ask who submits a job, so each job may use every node.
	job := &ares.Job{Spec: spec, ID: id, AcceptedAt: w.now, Revision: w.revision + 1, Owner: a.Owner, Trusted: true}
	w.batch = append(w.batch, ares.Event{Job: job})
	w.estimate(job, a)
	return true
}

// jobID returns the ID of the n-th job: job-0000042.
func jobID(n int) ares.JobID {
	const wide = len("job-0000000")
	b := strconv.AppendInt([]byte("job-0000000"), int64(n), 10)
	digits := b[wide:]
	if len(digits) > 7 {
		return ares.JobID("job-" + string(digits))
	}
	copy(b[wide-len(digits):], digits)
	return ares.JobID(b[:wide])
}

// This method makes decisions and applies them until nothing more changes. The method
// returns the net decrease in the number of waiting jobs.
func (w *World) decide() (placed int, err error) {
	for again := true; again; {
		plan := engine.Decide(w.state, w.now)
		if w.wake = plan.Wake; !w.wake.After(w.now) {
			w.wake = time.Time{}
		}
		if plan.Empty() {
			break
		}
		// A complete plan has tried every kind of waiting job, and its placements only reduce the free capacity. A
		// second decision would therefore usually change nothing. A second decision can make a difference in three
		// cases. A placement may satisfy another job's affinity. With preemption, a job placed just now may be the
		// next victim. Backfill reservations depend on the expected ends of the jobs placed just now.
		again = w.hasAffinity || len(w.state.PlannedStarts()) > 0 || w.policy.Engine.Queue.Preempt || !plan.Wake.IsZero() && !plan.Wake.After(w.now) ||
			len(plan.Ready)+len(plan.Arrays)+len(plan.Stop)+len(plan.Nominate)+len(plan.Withdraw) > 0
		w.changed = w.changed || len(plan.Place)+len(plan.Ready)+len(plan.Arrays)+len(plan.Stop)+len(plan.Nominate)+len(plan.Withdraw) > 0
		if w.laws != nil {
			w.laws.check(w.state, &plan)
		}
		n, err := w.apply(&plan)
		if err != nil {
			return placed, err
		}
		placed += n
		w.flush()
	}
	return placed, nil
}

// For a given plan, this method makes the same changes that a server would write. It starts and
// stops attempts immediately. The method returns the net decrease in the number of waiting
// jobs.
func (w *World) apply(plan *ares.Plan) (placed int, err error) {
	changes, err := engine.PlanChanges(w.state, plan, w.now)
	if err != nil {
		return 0, err
	}
	for i := range changes {
		c := &changes[i]
		switch {
		case c.Kind == engine.ChangeAdvance:
			return placed, ares.Errorf(ares.Invalid, "%s is an array: in a trace, each element of an array must be a separate job", c.Job)
		case c.Kind == engine.ChangePlace:
			w.start(c.Job)
			placed++
		case c.Kind == engine.ChangeStop && c.Run.Phase.Final():
			w.leaveQueue(w.record(c.Job))
			placed++
			continue
		case c.Kind == engine.ChangeStop:
			waits, err := w.stopAttempt(c)
			if err != nil {
				return placed, err
			}
			if waits {
				placed--
			}
		}
		w.put(c)
	}
	return placed, nil
}

// This method adds a changed run to the batch. The run gets the next revision, which is also the
// fence of a new attempt.
func (w *World) put(c *engine.RunChange) {
	c.Run.Revision = w.revision + 1
	if c.Kind == engine.ChangePlace {
		c.Run.Last().Fence, c.Run.Last().StartedAt = ares.Fence(w.revision+1), w.now
	}
	w.batch = append(w.batch, ares.Event{Run: &ares.RunEvent{Job: c.Job, Run: c.Run}})
}

// This method begins an attempt of a placed job and schedules its end.
func (w *World) start(id ares.JobID) {
	r := w.record(id)
	if r.placed.IsZero() {
		r.placed = w.now
		if w.moved != nil {
			w.moved(r)
		}
	}
	r.since = w.now
	r.attempts++
	w.allocated.to(w.now, r.gpus)
	w.scheduleOverdue(r)
	if r.runtime > 0 {
		heap.Push(&w.ends, attemptEnd{w.now.Add(r.remaining), r.id, r.attempts})
	}
}

// This method ends a job. The job is archived immediately and its usage is counted, as on a server.
func (w *World) finish(id ares.JobID) {
	r := w.record(id)
	r.ended = w.now
	if w.moved != nil {
		w.moved(r)
	}
	w.observeEnd(r)
	w.allocated.to(w.now, -r.gpus)
	w.demandMilli -= r.gpus
	w.finished++
	job, _ := w.state.Job(id)
	key := ares.QueueID(job.Tenant, job.Queue)
	before, known := w.usage[key]
	if !known {
		before = ares.Usage{Tenant: job.Tenant, Queue: job.Queue}
	}
	after := engine.FoldUsage(w.state, id, before, w.now)
	w.usage[key] = after
	w.batch = append(w.batch, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(id)}}, ares.Event{Usage: &after})
}

func (w *World) record(id ares.JobID) *record {
	n, err := strconv.Atoi(strings.TrimPrefix(string(id), "job-"))
	if err != nil {
		panic("sim: unknown job " + string(id))
	}
	return &w.jobs[n]
}

// This method passes the collected events to the engine as one batch.
func (w *World) flush() {
	if len(w.batch) == 0 {
		return
	}
	w.revision++
	for i := range w.batch {
		w.batch[i].Revision = w.revision
	}
	w.state.Apply(ares.Batch{Revision: w.revision, Events: w.batch, At: w.now})
	if w.accounting != nil {
		w.accounting.apply(w.batch, w.now)
	}
	w.batch = nil
}

// attemptEnd is the scheduled end of an attempt.
type attemptEnd struct {
	at      time.Time
	job     ares.JobID
	attempt int // the event is ignored unless this is still the current attempt; 0 for the end of a checkpoint
}

// endHeap is a heap of attempt ends, ordered by time. Ends with the same time are ordered by job.
type endHeap []attemptEnd

func (e endHeap) Len() int { return len(e) }
func (e endHeap) Less(i, j int) bool {
	if c := e[i].at.Compare(e[j].at); c != 0 {
		return c < 0
	}
	return e[i].job < e[j].job
}
func (e endHeap) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *endHeap) Push(x any)   { *e = append(*e, x.(attemptEnd)) }
func (e *endHeap) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
