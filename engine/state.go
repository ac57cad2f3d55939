package engine

import (
	"cmp"
	"iter"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// State is everything a decision may see: jobs, runs, nodes, sessions, cordons
// and tenants as of one revision of the store, with the accounts of what is
// taken kept up to date.
type State struct {
	revision int64
	at       time.Time // when the last batch was learned of; zero without a clock
	jobs     map[ares.JobID]*entry
	tenants  map[string]*tenant
	byID     map[string]*node
	nodes    []*node // by ID
	fleet    int     // counts the changes of nodes' records
	sky      sky     // what each of nodes has left, to find one without a scan
	shapes   shapes
	pending  []*entry // may be placed now, in the order of the cycle
	delayed  []*entry // retrying or preempted, by the end of the delay
	arrays   []*array // by ID

	moved   []*entry // changed by the batch under way
	touched []*node  // changed by the batch under way
	reindex bool     // a node came or went in the batch under way
	try     try      // scratch of one decision, empty between them
}

// tenant is a tenant's record and what its jobs hold. It exists as soon as
// somebody speaks of it; record is nil until the tenant itself is known.
type tenant struct {
	id     string
	record *ares.Tenant
	use    ares.Use
}

// New returns a state that knows nothing, at revision 0.
func New() *State {
	s := &State{}
	s.clear()
	return s
}

func (s *State) clear() {
	*s = State{
		jobs:    map[ares.JobID]*entry{},
		tenants: map[string]*tenant{},
		byID:    map[string]*node{},
		shapes:  newShapes(),
	}
}

// Revision is the store revision the state shows.
func (s *State) Revision() int64 { return s.revision }

// Apply brings the state to the batch's revision. A batch the state has seen
// is no change; one with Reset replaces everything, whatever its revision. The
// state keeps what the events point to: it must not change afterwards.
func (s *State) Apply(b ares.Batch) {
	if b.Reset {
		s.clear()
	} else if b.Revision <= s.revision {
		return
	}
	s.revision, s.at = b.Revision, b.At
	for i := range b.Events {
		s.apply(&b.Events[i])
	}
	s.requeue()
	s.resurvey()
}

func (s *State) apply(ev *ares.Event) {
	switch {
	case ev.Job != nil:
		e := s.entry(ev.Job.ID)
		s.change(e, func() { e.job = ev.Job })
	case ev.Run != nil:
		e := s.entry(ev.Run.Job)
		s.change(e, func() { e.run = &ev.Run.Run })
	case ev.Node != nil:
		n := s.node(ev.Node.ID)
		n.describe(ev.Node)
		s.fleet++
		s.touch(n)
	case ev.Session != nil:
		n := s.node(ev.Session.Node)
		n.session = ev.Session
		s.touch(n)
	case ev.Cordon != nil:
		n := s.node(ev.Cordon.Node)
		n.cordon = ev.Cordon
		s.touch(n)
	case ev.Tenant != nil:
		s.tenant(ev.Tenant.ID).record = ev.Tenant
	case ev.Gone.Kind != "":
		s.forget(ev.Gone)
	}
}

// forget drops what was deleted. The devices of a job that goes are free: the
// store archives a job only when they are.
func (s *State) forget(g ares.Gone) {
	switch g.Kind {
	case ares.KindJob:
		if e := s.jobs[ares.JobID(g.ID)]; e != nil {
			s.change(e, func() { e.job, e.run = nil, nil })
		}
	case ares.KindRun:
		if e := s.jobs[ares.JobID(g.ID)]; e != nil {
			s.change(e, func() { e.run = nil })
		}
	case ares.KindNode, ares.KindSession, ares.KindCordon:
		s.forgetNode(g)
	case ares.KindTenant:
		if t := s.tenants[g.ID]; t != nil {
			t.record = nil
		}
	case ares.KindProgress:
	}
}

func (s *State) forgetNode(g ares.Gone) {
	n := s.byID[g.ID]
	if n == nil {
		return
	}
	switch g.Kind {
	case ares.KindNode:
		n.describe(nil)
		s.fleet++
	case ares.KindSession:
		n.session = nil
	default:
		n.cordon = nil
	}
	s.touch(n)
}

// change alters an entry between taking its part out of the accounts and
// putting it back.
func (s *State) change(e *entry, alter func()) {
	s.charge(e, -1)
	s.tally(e, -1)
	before := e.job
	alter()
	if e.job != before {
		s.reshape(e)
	}
	s.charge(e, +1)
	s.tally(e, +1)
	if !e.moved {
		e.moved = true
		s.moved = append(s.moved, e)
	}
}

// charge adds an entry's seats that are not free to the accounts of their
// nodes and its tenant, or takes them out again.
func (s *State) charge(e *entry, sign int) {
	if e.run == nil {
		return
	}
	var use ares.Use
	for i := range e.run.Attempts {
		for k := range e.run.Attempts[i].Seats {
			h := &e.run.Attempts[i].Seats[k]
			if h.State.Free() {
				continue
			}
			n := s.node(h.Node)
			n.charge(&h.Seat, sign)
			s.touch(n)
			// A voided seat holds its node's devices until they are clean, but it
			// must not hold its own job's next attempt off by the tenant's limit.
			if e.job != nil && !h.State.Settled() {
				use = use.Add(seatUse(&h.Seat, e.job))
			}
		}
	}
	if e.job == nil || !e.holds() {
		return
	}
	use.Jobs = 1
	t := s.tenant(e.job.Tenant)
	if sign > 0 {
		t.use = t.use.Add(use)
	} else {
		t.use = t.use.Sub(use)
	}
}

// seatUse is what one seat of a job counts against its tenant's limits.
func seatUse(seat *ares.Seat, j *ares.Job) ares.Use {
	u := ares.Use{CPUs: seat.CPUs, MemoryMB: seat.Memory, GPUMemoryMB: j.GPUMemoryMB}
	for _, sh := range seat.Shares {
		if sh.Milli >= wholeMilli {
			u.GPUs++
		} else {
			u.GPUMilli += sh.Milli
		}
	}
	return u
}

func (s *State) entry(id ares.JobID) *entry {
	e := s.jobs[id]
	if e == nil {
		e = &entry{id: id}
		s.jobs[id] = e
	}
	return e
}

func (s *State) tenant(id string) *tenant {
	t := s.tenants[id]
	if t == nil {
		t = &tenant{id: id}
		s.tenants[id] = t
	}
	return t
}

func (s *State) node(id string) *node {
	n := s.byID[id]
	if n == nil {
		n = &node{id: id}
		s.byID[id] = n
		at, _ := slices.BinarySearchFunc(s.nodes, id, byNodeID)
		s.nodes = slices.Insert(s.nodes, at, n)
		s.reindex = true
	}
	return n
}

func byNodeID(n *node, id string) int { return cmp.Compare(n.id, id) }

func (s *State) touch(n *node) {
	if !n.touched {
		n.touched = true
		s.touched = append(s.touched, n)
	}
}

// resurvey brings the index over the nodes up to date after a batch, and drops
// nodes that nothing speaks of any more.
func (s *State) resurvey() {
	for _, n := range s.touched {
		n.touched = false
		n.survey()
		if n.forgotten() {
			delete(s.byID, n.id)
			at, _ := slices.BinarySearchFunc(s.nodes, n.id, byNodeID)
			s.nodes = slices.Delete(s.nodes, at, at+1)
			s.reindex = true
		}
	}
	if s.reindex {
		s.reindex = false
		s.fleet++
		s.sky.rebuild(s.nodes)
	} else {
		for _, n := range s.touched {
			s.sky.set(n.at, n.left())
		}
	}
	clear(s.touched)
	s.touched = s.touched[:0]
}

// Job finds a live job. It must not be changed.
func (s *State) Job(id ares.JobID) (*ares.Job, bool) {
	e := s.jobs[id]
	if e == nil || e.job == nil {
		return nil, false
	}
	return e.job, true
}

// Run is a copy of a job's run for the caller to change and commit. A job
// without a stored run has the run of one just accepted.
func (s *State) Run(id ares.JobID) (ares.Run, bool) {
	e := s.jobs[id]
	switch {
	case e == nil:
		return ares.Run{}, false
	case e.run != nil:
		return e.run.Clone(), true
	default:
		return ares.NewRun(e.job.AcceptedAt), true
	}
}

// Jobs yields every live job by ID with its run, nil where none is stored.
// Neither may be changed.
func (s *State) Jobs() iter.Seq2[*ares.Job, *ares.Run] {
	return func(yield func(*ares.Job, *ares.Run) bool) {
		for _, e := range s.entries() {
			if e.job != nil && !yield(e.job, e.run) {
				return
			}
		}
	}
}

func (s *State) entries() []*entry {
	all := make([]*entry, 0, len(s.jobs))
	for _, e := range s.jobs { // order-free: sorted right below
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	return all
}

// Nodes yields every node with a record by ID, with its session and cordon,
// nil where it has none. They must not be changed.
func (s *State) Nodes() iter.Seq[NodeView] {
	return func(yield func(NodeView) bool) {
		for _, n := range s.nodes {
			if n.record != nil && !yield(NodeView{n.record, n.session, n.cordon}) {
				return
			}
		}
	}
}

// NodeView is what the state knows of a node.
type NodeView struct {
	Node    *ares.Node
	Session *ares.Session
	Cordon  *ares.Cordon
}

// Tenant finds a tenant and what its jobs hold now: every seat that is not
// free, whatever became of the job.
func (s *State) Tenant(id string) (*ares.Tenant, ares.Use, bool) {
	t := s.tenants[id]
	if t == nil || t.record == nil {
		return nil, ares.Use{}, false
	}
	return t.record, t.use, true
}
