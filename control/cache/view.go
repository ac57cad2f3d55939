package cache

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/pause"
)

// Entry is a live job as the view knows it. An Entry is never changed in place.
type Entry struct {
	Job      *ares.Job
	Run      ares.Run
	Progress *ares.Progress
	Forecast *ares.RuntimePredicted // nil before the first prediction
}

// NodeEntry is a node as the view knows it.
type NodeEntry struct {
	Node    ares.Node
	Session *ares.Session // nil without one
	Cordon  *ares.Cordon
	Score   *ares.NodeScore // nil before the first score
	Since   time.Time       // when its session began or was seen to end
}

// HistoricalScore is the reliability of the node, a number from 0 to ares.FullScore.
func (n *NodeEntry) HistoricalScore() int { return ScoreOf(n.Score) }

// State returns the node's state. A node without a session is in the state "suspect" while a job with the default
// lost_after may still run there. On a node that does not fence itself, a job may run for any time.
func (n *NodeEntry) State(now time.Time) ares.NodeState {
	switch {
	case n.Session != nil && (n.Cordon != nil || n.Node.Unfit != ""):
		return ares.Cordoned
	case n.Session != nil:
		return ares.Online
	case now.Sub(n.Since) < ares.DefaultLostAfter, !n.Node.SelfFencing():
		return ares.Suspect
	default:
		return ares.Offline
	}
}

// View is this server's copy of the live state. The store's watch keeps the View up to date. Each
// answer of a View includes the store revision that it reflects.
type View struct {
	// Now is the clock used to record when a node's session changes.
	Now func() time.Time

	mu        sync.RWMutex
	revision  int64
	moved     chan struct{} // closed and replaced at each new revision
	jobs      map[ares.JobID]jobRecord
	order     []*ares.Job // by acceptance, see inOrder
	nodes     map[string]*NodeEntry
	seats     map[string]map[ares.JobID]bool // jobs with a seat that is not free, by node
	touched   map[string]chan struct{}       // closed and replaced when a node's seats change
	tenants   map[string]*ares.Tenant
	queues    map[string]*ares.Queue // by their IDs
	topology  *ares.Topology         // nil before the first
	windows   map[string]*ares.Reservation
	use       map[string]ares.Use // by tenant, and by the ID of a queue
	waiting   map[string]int      // by tenant, and by the ID of a queue
	queued    int                 // waiting jobs of all tenants
	counts    map[countKey]int
	inQueue   map[countKey]int              // like counts, but each key has the ID of a queue instead of a tenant
	arrays    map[ares.JobID]*ares.Elements // by the array's ID; the array itself may not be known yet
	awaited   map[ares.JobID]int            // number of unfinished jobs that depend on this one
	preempted map[ares.JobID]bool           // jobs that are or were preempted
	kept      int                           // jobs for which seats are held
	images    *ImageNodes                   // nil after a change of a node, see ImageNodes
	events    ring
	sinks     []func(ares.Batch)
}

// countKey identifies a set of jobs that share one counter.
type countKey struct {
	tenant  string
	phase   ares.Phase
	element bool
}

// NewView returns an empty view.
func NewView(now func() time.Time) *View {
	v := &View{Now: now, moved: make(chan struct{}), touched: map[string]chan struct{}{}}
	v.reset()
	return v
}

func (v *View) reset() {
	v.jobs = map[ares.JobID]jobRecord{}
	v.order = nil
	v.seats = map[string]map[ares.JobID]bool{}
	v.tenants = map[string]*ares.Tenant{}
	v.queues = map[string]*ares.Queue{}
	v.topology = nil
	v.windows = map[string]*ares.Reservation{}
	v.use = map[string]ares.Use{}
	v.waiting = map[string]int{}
	v.queued, v.kept = 0, 0
	v.counts, v.inQueue = map[countKey]int{}, map[countKey]int{}
	v.arrays = map[ares.JobID]*ares.Elements{}
	v.awaited = map[ares.JobID]int{}
	v.preempted = map[ares.JobID]bool{}
}

// Feed registers the function `sink`. The view then passes every batch to `sink`, in order. Feed must be called
// before Run.
func (v *View) Feed(sink func(ares.Batch)) { v.sinks = append(v.sinks, sink) }

// The type `watcher` is the source of a view's batches.
type watcher interface {
	Watch(ctx context.Context, apply func(ares.Batch) error) error
}

// Run follows the store until ctx ends. If the store cannot be read, Run tries again, and meanwhile the view stays at
// its revision.
func (v *View) Run(ctx context.Context, store watcher, failed func(error)) error {
	for {
		err := store.Watch(ctx, func(b ares.Batch) error {
			v.Apply(b)
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		failed(err)
		if !pause.For(ctx, time.Second) {
			return nil
		}
	}
}

// Apply applies all changes of one revision.
func (v *View) Apply(b ares.Batch) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if b.Revision <= v.revision && !b.Reset {
		return
	}
	if b.Reset {
		v.restart(b)
	} else {
		for i := range b.Events {
			v.apply(&b.Events[i], true)
		}
	}
	v.revision = b.Revision
	for _, sink := range v.sinks {
		sink(b)
	}
	close(v.moved)
	v.moved = make(chan struct{})
}

// The method `restart` replaces the view's whole content with a snapshot. A node whose session did not change keeps
// its Since time.
func (v *View) restart(b ares.Batch) {
	old := v.nodes
	v.reset()
	v.nodes, v.images = map[string]*NodeEntry{}, nil
	for i := range b.Events {
		v.apply(&b.Events[i], false)
	}
	slices.SortFunc(v.order, ByAcceptance)
	for i, j := range v.order {
		v.order[i] = v.jobs[j.ID].job // a run in the snapshot may have replaced it
	}
	for id, n := range v.nodes { // order-free: nodes are independent
		if was := old[id]; was != nil && (was.Session == nil) == (n.Session == nil) {
			n.Since = was.Since
		}
	}
	v.events.restart(b.Revision)
	for node := range v.touched { // order-free: nodes are independent
		v.touch(node)
	}
}

func (v *View) apply(e *ares.Event, live bool) {
	switch {
	case e.Job != nil:
		v.putJob(e.Job, e.Revision, live)
	case e.Run != nil:
		v.putRun(e.Run, e.Revision, live)
	case e.Node != nil:
		v.node(e.Node.ID).Node = *e.Node
	case e.Session != nil:
		n := v.node(e.Session.Node)
		n.Session, n.Since = e.Session, v.Now()
		v.nodeEvent(e, live, e.Session.Node, ares.Online, "session opened")
		v.touch(e.Session.Node)
	case e.Cordon != nil:
		v.node(e.Cordon.Node).Cordon = e.Cordon
		word := "cordoned by "
		if e.Cordon.Drain {
			word = "drained by "
		}
		v.nodeEvent(e, live, e.Cordon.Node, ares.Cordoned, word+e.Cordon.By)
	case e.Score != nil:
		v.node(e.Score.Node).Score = e.Score
	case e.Tenant != nil:
		v.tenants[e.Tenant.ID] = e.Tenant
	case e.Queue != nil:
		v.queues[e.Queue.ID()] = e.Queue
	case e.Topology != nil:
		v.topology = e.Topology
	case e.Reservation != nil:
		v.windows[e.Reservation.Name] = e.Reservation
	case e.Policy != nil: // admission.Policies handles policies
	case e.Grant != nil: // the federation handles grants
	case e.Protect != nil: // only the engine uses it, and it never comes from a store
	case e.Progress != nil:
		if was := v.entry(e.Progress.Job); was != nil {
			v.put(&Entry{Job: was.Job, Run: was.Run, Progress: &e.Progress.Progress, Forecast: was.Forecast})
		}
	case e.Forecast != nil:
		was := v.jobs[e.Forecast.Job]
		if was.job != nil {
			e.Forecast.Job = was.job.ID // the same text; the prediction's own copy of it can be freed
		}
		if was.entry != nil {
			v.put(&Entry{Job: was.job, Run: was.entry.Run, Progress: was.entry.Progress, Forecast: e.Forecast})
		} else if was.job != nil {
			v.jobs[e.Forecast.Job] = jobRecord{job: was.job, forecast: e.Forecast}
		}
	default:
		v.gone(e, live)
	}
}

func (v *View) gone(e *ares.Event, live bool) {
	switch e.Gone.Kind {
	case ares.KindJob:
		v.dropJob(ares.JobID(e.Gone.ID))
	case ares.KindNode:
		delete(v.nodes, e.Gone.ID)
		v.images = nil
	case ares.KindSession:
		n := v.node(e.Gone.ID)
		n.Session, n.Since = nil, v.Now()
		v.nodeEvent(e, live, e.Gone.ID, ares.Suspect, "session ended")
	case ares.KindCordon:
		v.node(e.Gone.ID).Cordon = nil
		v.nodeEvent(e, live, e.Gone.ID, ares.Online, "uncordoned")
	case ares.KindScore:
		if n := v.nodes[e.Gone.ID]; n != nil {
			v.node(e.Gone.ID).Score = nil
		}
	case ares.KindTenant:
		delete(v.tenants, e.Gone.ID)
	case ares.KindQueue:
		delete(v.queues, e.Gone.ID)
	case ares.KindTopology:
		v.topology = nil
	case ares.KindReservation:
		delete(v.windows, e.Gone.ID)
	case ares.KindProgress:
		if was := v.jobs[ares.JobID(e.Gone.ID)].entry; was != nil && was.Progress != nil {
			v.put(&Entry{Job: was.Job, Run: was.Run, Forecast: was.Forecast})
		}
	case ares.KindRun, ares.KindForecast: // removed together with their job
	case ares.KindPolicy: // admission.Policies handles policies
	case ares.KindGrant: // the federation handles grants
	case ares.KindUsage, ares.KindProtection: // only the engine needs them
	}
}

func (v *View) putJob(j *ares.Job, rev int64, live bool) {
	if v.jobs[j.ID].job != nil {
		return
	}
	r := jobRecord{job: j}
	v.jobs[j.ID] = r
	e := r.view()
	v.count(e, 1)
	if !live {
		v.order = append(v.order, j) // sorted when the snapshot is complete
		return
	}
	i, _ := slices.BinarySearchFunc(v.order, j, ByAcceptance) // usually at or near the end
	v.order = slices.Insert(v.order, i, j)
	v.events.jobEvents(nil, e, rev)
}

func (v *View) putRun(re *ares.RunEvent, rev int64, live bool) {
	was := v.entry(re.Job)
	if was == nil {
		return
	}
	now := &Entry{Job: was.Job.Updated(re.Run.Updated), Run: re.Run, Progress: was.Progress, Forecast: was.Forecast}
	v.count(was, -1)
	v.put(now)
	v.count(now, 1)
	v.touchSeats(&was.Run)
	v.touchSeats(&now.Run)
	if live {
		v.events.jobEvents(was, now, rev)
	}
}

func (v *View) dropJob(id ares.JobID) {
	was := v.entry(id)
	if was == nil {
		return
	}
	v.count(was, -1)
	delete(v.jobs, id)
	if i, ok := slices.BinarySearchFunc(v.order, was.Job, ByAcceptance); ok {
		v.order = slices.Delete(v.order, i, i+1)
	}
}

// ByAcceptance compares jobs by the order of acceptance. Jobs accepted in one transaction have the same revision and
// are sorted by descending ID. Lists are read from the end, so they show these jobs by ascending ID.
func ByAcceptance(a, b *ares.Job) int {
	return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(b.ID, a.ID))
}

// The method `count` adds an entry to the view's sums, or subtracts it if the argument `sign` is -1.
func (v *View) count(e *Entry, sign int) {
	tenant := e.Job.Tenant
	k := countKey{tenant, e.Run.Phase, e.Job.ArrayOf != ""}
	if v.counts[k] += sign; v.counts[k] == 0 {
		delete(v.counts, k)
	}
	queue := ares.QueueID(tenant, e.Job.Queue)
	if k.tenant = queue; v.inQueue[k]+sign == 0 {
		delete(v.inQueue, k)
	} else {
		v.inQueue[k] += sign
	}
	if e.Run.Phase.Waiting() {
		v.waiting[tenant] += sign
		v.waiting[queue] += sign
		v.queued += sign
	}
	v.relate(e, sign)
	use := UseOf(&e.Run)
	// A job uses its requested GPU memory once for each seat that it holds. This use counts
	// against the tenant's limit.
	use.GPUMemoryMB = e.Job.GPUMemoryMB * heldSeats(&e.Run)
	for _, who := range []string{tenant, queue} {
		if sign > 0 {
			v.use[who] = v.use[who].Add(use)
		} else {
			v.use[who] = v.use[who].Sub(use)
		}
	}
	for i := range e.Run.Attempts {
		for k := range e.Run.Attempts[i].Seats {
			h := &e.Run.Attempts[i].Seats[k]
			if h.State.Free() {
				continue
			}
			if v.seats[h.Node] == nil {
				v.seats[h.Node] = map[ares.JobID]bool{}
			}
			if sign > 0 {
				v.seats[h.Node][e.Job.ID] = true
			} else {
				delete(v.seats[h.Node], e.Job.ID)
			}
		}
	}
}

// UseOf returns the resources of a run that count against its tenant's limits.
func UseOf(r *ares.Run) ares.Use {
	var u ares.Use
	for i := range r.Attempts {
		for k := range r.Attempts[i].Seats {
			h := &r.Attempts[i].Seats[k]
			if h.State.Settled() {
				continue // a voided seat no longer counts against the tenant
			}
			u.Jobs = 1
			u.CPUs += h.CPUs
			u.CPUMilli += h.CPUMilli
			u.MemoryMB += h.Memory
			for _, sh := range h.Shares {
				if sh.Milli == 1000 {
					u.GPUs++
				} else {
					u.GPUMilli += sh.Milli
				}
			}
		}
	}
	return u
}

// heldSeats counts the seats of a run that count against the limits of its tenant.
func heldSeats(r *ares.Run) int {
	n := 0
	for i := range r.Attempts {
		for k := range r.Attempts[i].Seats {
			if !r.Attempts[i].Seats[k].State.Settled() {
				n++
			}
		}
	}
	return n
}

// The method `node` returns the entry of a node for a change.
func (v *View) node(id string) *NodeEntry {
	v.images = nil
	n := v.nodes[id]
	if n == nil {
		if v.nodes == nil {
			v.nodes = map[string]*NodeEntry{}
		}
		n = &NodeEntry{Node: ares.Node{ID: id}, Since: v.Now()}
		v.nodes[id] = n
		return n
	}
	// Readers may still use the old node entry, so a copy of it is changed instead.
	n = new(*n)
	v.nodes[id] = n
	return n
}

// The method `touch` wakes readers that wait for a change to a node's seats.
func (v *View) touch(node string) {
	if ch := v.touched[node]; ch != nil {
		close(ch)
		delete(v.touched, node)
	}
}

// touchSeats calls the method `touch` for every node on which a run has or had a seat.
func (v *View) touchSeats(r *ares.Run) {
	for i := range r.Attempts {
		for k := range r.Attempts[i].Seats {
			v.touch(r.Attempts[i].Seats[k].Node)
		}
	}
}

// SharesOn lists the device shares that a run holds on a node. Seats that are already free are left
// out.
func SharesOn(r *ares.Run, node string) []ares.Share {
	var out []ares.Share
	for i := range r.Attempts {
		for k := range r.Attempts[i].Seats {
			if h := &r.Attempts[i].Seats[k]; h.Node == node && !h.State.Free() {
				out = append(out, h.Shares...)
			}
		}
	}
	return out
}

// ScoreOf returns the reliability score in a record. A node without a reliability record gets the
// full score.
func ScoreOf(r *ares.NodeScore) int {
	if r == nil {
		return ares.FullScore
	}
	return r.Score
}
