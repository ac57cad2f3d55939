package sim

import (
	"container/heap"
	"strconv"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Epoch is when every simulation begins.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// World is a fleet and the jobs of a trace in virtual time. What a store does
// for a server, it does for the engine: it applies what plans want, and tells
// what became of it as batches of events.
type World struct {
	state       *engine.State
	policy      Policy
	now         time.Time
	wake        time.Time // when the plan may change without an event, zero for never
	lastChange  time.Time // when something last happened
	changed     bool      // the plans of the present moment changed something
	revision    int64
	jobs        []record
	ends        endHeap
	batch       []ares.Event // of the present moment
	usage       map[string]ares.Usage
	known       map[string]bool // tenants
	gpus        int
	largest     int           // GPUs of a machine
	fleet       *engine.Fleet // tells what can never run, and how to split what is larger
	allocated   timeMeter
	demandMilli int // thousandths of devices that jobs ask for which have come and not ended
	finished    int // jobs
	halted      bool
	hasAffinity bool           // some job wants to be near others
	probes      []func(*World) // each sees every moment at which something happened
	accounting  *accounting    // nil when nobody asked for it
	fairness    *fairnessMeter // as above
	laws        *lawChecker    // as above
	predictor   *predictor     // nil unless the policy learns how long jobs run
}

// record is what becomes of one arrival.
type record struct {
	id        ares.JobID
	tenant    string
	name      string
	traceID   string        // the trace's name for it
	line      int           // of the trace
	runtime   time.Duration // as Arrival.Runs
	deadline  time.Time     // zero for none
	accepted  time.Time
	placed    time.Time // zero while it waits
	ended     time.Time
	gpus      int       // thousandths of devices
	refused   bool      // it can never run on this fleet
	leftQueue time.Time // it had waited for as long as it would, and ended

	remaining   time.Duration // to run, as of the start of the attempt under way
	since       time.Time     // when that started
	attempts    int
	preemptions int   // times it gave way
	lostMilli   int64 // thousandths of GPU-seconds that this has cost
}

// NewWorld is the fleet, with nothing to do, decided on by a policy.
func NewWorld(f *Fleet, p Policy) *World {
	w := &World{state: engine.NewWith(p.Engine), policy: p, now: Epoch, usage: map[string]ares.Usage{}, known: map[string]bool{}}
	if p.Estimate == EstimateForecast {
		w.predictor = newPredictor()
	}
	for _, t := range f.Tenants() {
		w.known[t.ID] = true
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
		w.largest = max(w.largest, len(n.Devices))
		w.batch = append(w.batch, ares.Event{Node: n}, ares.Event{Session: &ares.Session{Node: n.ID, Instance: "sim"}})
	}
	w.fleet = engine.NewFleet()
	w.fleet.Apply(ares.Batch{Revision: 1, Events: w.batch})
	w.flush()
	return w
}

// Run lets the trace happen until its last job has ended, or until a time since
// the beginning if that is not zero. tick hears of every moment at which
// something happened.
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

// Expect makes room for so many jobs.
func (w *World) Expect(jobs int) { w.jobs = make([]record, 0, jobs) }

// RunStream is Run with jobs that are asked for one by one, in the order of
// their arrival, and not kept: each is good until the next is asked for.
func (w *World) RunStream(next func() (*Arrival, bool), until time.Duration, tick func(now time.Time, waiting int)) error {
	coming, more := next()
	if !more {
		return ares.Errorf(ares.Invalid, "the trace has no jobs")
	}
	zero, waiting := coming.At, 0
	for !w.halted && (more || len(w.ends) > 0 || !w.wake.IsZero()) {
		at := w.nextTime(coming, more, zero)
		if until > 0 && at.After(Epoch.Add(until)) {
			w.now = Epoch.Add(until)
			return nil
		}
		w.now, w.changed = at, false
		happens := len(w.ends) > 0 && !w.ends[0].at.After(at) || more && !Epoch.Add(coming.At-zero).After(at)
		for len(w.ends) > 0 && !w.ends[0].at.After(at) {
			if waits, err := w.handleEnd(heap.Pop(&w.ends).(attemptEnd)); err != nil {
				return err
			} else if waits {
				waiting++
			}
		}
		for more && !Epoch.Add(coming.At-zero).After(at) {
			if w.arrive(coming) {
				waiting++
			}
			coming, more = next()
		}
		w.flush()
		placed, err := w.decide()
		if err != nil {
			return err
		}
		waiting -= placed
		if !happens && !w.changed {
			continue // the engine looked again, and nothing came of it
		}
		w.lastChange = w.now
		for _, look := range w.probes {
			look(w)
		}
		if tick != nil {
			tick(w.now, waiting)
		}
	}
	w.now = w.lastChange
	return nil
}

// Halt ends a run after the present moment.
func (w *World) Halt() { w.halted = true }

// nextTime is when something happens next.
func (w *World) nextTime(coming *Arrival, more bool, zero time.Duration) time.Time {
	var at time.Time
	if more {
		at = Epoch.Add(coming.At - zero)
	}
	if len(w.ends) > 0 && (at.IsZero() || w.ends[0].at.Before(at)) {
		at = w.ends[0].at
	}
	if !w.wake.IsZero() && (at.IsZero() || w.wake.Before(at)) {
		at = w.wake
	}
	return at
}

// arrive accepts a job, and says whether it waits now.
func (w *World) arrive(a *Arrival) bool {
	id := jobID(len(w.jobs))
	said, refused := w.split(a.Spec)
	spec := said.WithDefaults()
	if !spec.Deadline.IsZero() { // traces count from their own beginning
		spec.Deadline = w.now.Add(spec.Deadline.Sub(time.Unix(0, 0)) - a.At)
	}
	if !w.known[spec.Tenant] {
		w.known[spec.Tenant] = true
		w.batch = append(w.batch, ares.Event{Tenant: &ares.Tenant{ID: spec.Tenant, Limits: ares.NoLimits()}})
	}
	w.jobs = append(w.jobs, record{
		id: id, tenant: spec.Tenant, name: spec.Name, traceID: a.ID, line: a.Line, runtime: a.Runs, deadline: spec.Deadline, accepted: w.now,
		gpus: spec.Members * max(1000*spec.GPUs, spec.GPUMilli), remaining: a.Runs, refused: refused,
	})
	if refused {
		return false
	}
	if w.policy.Engine.Queueing.Yield {
		spec.Checkpoint.Enabled = true // whoever gives way goes on where it was
	}
	spec.GraceSeconds = new(w.policy.CheckpointSeconds) // that is how long it takes here
	w.demandMilli += w.jobs[len(w.jobs)-1].gpus
	w.hasAffinity = w.hasAffinity || len(spec.Placement.Affinity) > 0
	job := &ares.Job{Spec: spec, ID: id, AcceptedAt: w.now, Revision: w.revision + 1}
	w.batch = append(w.batch, ares.Event{Job: job})
	w.estimate(job, a)
	return true
}

// jobID names the n'th job: job-0000042.
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

// decide decides and carries out until nothing more would change. It answers
// with how many fewer wait.
func (w *World) decide() (placed int, err error) {
	for again := true; again; {
		plan := engine.Decide(w.state, w.now)
		if w.wake = plan.Wake; !w.wake.After(w.now) {
			w.wake = time.Time{}
		}
		if plan.Empty() {
			break
		}
		// A plan that was not cut has tried every line, and placings leave no more
		// room than there was. Only company may make a place for somebody, or those
		// who give way; and who was just placed may be the next to do so. When that
		// one ends counts for the places that are kept, and so for those behind.
		again = w.hasAffinity || len(w.state.Promises()) > 0 || w.policy.Engine.Queueing.Yield || !plan.Wake.IsZero() && !plan.Wake.After(w.now) ||
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

// apply makes the changes of a plan, which are those that a server writes, and
// what follows from each at once: attempts begin and stop. It says how many jobs
// fewer wait.
func (w *World) apply(plan *ares.Plan) (placed int, err error) {
	changes, err := engine.PlanChanges(w.state, plan, w.now)
	if err != nil {
		return 0, err
	}
	for i := range changes {
		c := &changes[i]
		switch {
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

// put writes a changed run with the next revision, which is the fence of an
// attempt that begins.
func (w *World) put(c *engine.RunChange) {
	c.Run.Revision = w.revision + 1
	if c.Kind == engine.ChangePlace {
		c.Run.Last().Fence, c.Run.Last().StartedAt = ares.Fence(w.revision+1), w.now
	}
	w.batch = append(w.batch, ares.Event{Run: &ares.RunEvent{Job: c.Job, Run: c.Run}})
}

// start notes when a placed job will end.
func (w *World) start(id ares.JobID) {
	r := w.record(id)
	if r.placed.IsZero() {
		r.placed = w.now
	}
	r.since = w.now
	r.attempts++
	w.allocated.to(w.now, r.gpus)
	w.scheduleOverdue(r)
	if r.runtime > 0 {
		heap.Push(&w.ends, attemptEnd{w.now.Add(r.remaining), r.id, r.attempts})
	}
}

// finish ends a job. It is archived at once: what it used is kept, as by a
// server.
func (w *World) finish(id ares.JobID) {
	r := w.record(id)
	r.ended = w.now
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
	after := engine.Fold(w.state, id, before, w.now)
	w.usage[key] = after
	w.batch = append(w.batch, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(id)}}, ares.Event{Usage: &after})
}

func (w *World) record(id ares.JobID) *record {
	n, err := strconv.Atoi(strings.TrimPrefix(string(id), "job-"))
	if err != nil {
		panic("sim: no job of this world is called " + string(id))
	}
	return &w.jobs[n]
}

// flush tells the engine what has happened.
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

// attemptEnd is when a job ends.
type attemptEnd struct {
	at      time.Time
	job     ares.JobID
	attempt int // the end of another one means nothing; 0 for the end of a stop
}

// endHeap is a heap of them: by time, then job.
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
