package engine

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
	"github.com/ares-scheduler/ares/engine/topology"
)

// State is everything a decision may see: jobs, runs, nodes, sessions, cordons,
// tenants, queues and the topology as of one revision of the store, with the
// accounts of what is taken kept up to date.
type State struct {
	cfg      Config
	revision int64
	at       time.Time // when the last batch was learned of; zero without a clock
	jobs     map[ares.JobID]*entry
	tenants  map[string]*tenant
	order    *tree
	shapes   shapes
	delayed  []*entry  // retrying or preempted, by the end of the delay
	arrays   []*array  // by ID
	clock    time.Time // as of which those with deadlines are in order
	dates    alarms    // of those with deadlines that wait
	notices  alarms    // of those with deadlines that have not ended
	patience alarms    // of those that wait for their first place, and not for ever
	yard     yard
	// regrouping are the gangs that lost a node and do not run again yet, by ID.
	regrouping []*entry
	// returning are the jobs that are being moved, by ID.
	returning []*entry

	byID     map[string]*node
	nodes    []*node // by place, then ID, as of the last layout
	byName   []*node // the first of them by ID
	layout   int     // counts the times nodes got other positions
	topology *ares.Topology
	atlas    *topology.Atlas
	places   *topology.Tree
	profiles profiles
	demand   demand
	shifts   changes // nodes that have other things left than before
	shifted  []int   // by position: the last of its shifts
	spare    []spare // by position
	gists    []gist  // by position
	crests   []crest // of each 64 nodes
	rack     rack
	natures  changes // nodes that became another kind of node
	grown    changes // nodes that may have more room than before
	lost     []*want // of shapes that found no place
	capacity queue.Use
	models   []int // that some node has, by name, as the order numbers them
	calendar calendar
	reached  set             // scratch of reach
	welcomed set             // scratch of welcome
	fresh    []fresh         // scratch of weighAll, by profile
	peak     peak            // of any node
	lot      uint64          // of the job under way, where lots are drawn
	moves    int             // counts the changes of nodes
	granted  []queue.Part    // scratch of grantOf
	foreseen [lenses][]*want // that have openings, oldest first
	firsts   []int64         // scratch of enough
	lacks    lacks           // scratch of nearest
	foretold int             // jobs of which it is known how long they run
	steps    []widening      // scratch of enough

	moved     []*entry             // changed by the batch under way
	seen      map[*entry]time.Time // of the snapshot under way: when their delays were learned of
	touched   []*node              // changed since the index was last brought up to date
	reindex   bool                 // nodes came, went or moved since then
	remeasure bool                 // what the fleet has changed since then
	try       try                  // scratch of one decision, empty between them
	decision  int                  // counts them
	sight     int                  // counts them too, and what gives room in the middle of one
	refusals  int                  // of the last one, for the room of the next
	promises  []ares.Promise       // by the last one
	wants     int                  // counts those that were ever made
	prospects int                  // and these
}

// The order of the engine's jobs.
type (
	tree = queue.Tree[*entry]
	leaf = queue.Leaf[*entry]
	item = queue.Item[*entry]
)

// tenant is a tenant's record and what its jobs hold. It exists as soon as
// somebody speaks of it; record is nil until the tenant itself is known.
type tenant struct {
	id     string
	record *ares.Tenant
	use    ares.Use

	active   []*entry              // hold something, in no order
	ended    map[string]int64      // by month: thousandths of GPU-seconds of ended attempts of live jobs
	archived map[string]ares.Usage // by queue: of jobs that are no longer live
	stops    []time.Time           // when live jobs were stopped by class for its own, in order
}

// New returns a state that knows nothing, at revision 0, with the defaults.
func New() *State { return NewWith(Default()) }

// NewWith returns a state that knows nothing, at revision 0.
func NewWith(cfg Config) *State {
	s := &State{cfg: cfg}
	s.clear()
	return s
}

func (s *State) clear() {
	*s = State{
		cfg:      s.cfg,
		jobs:     map[ares.JobID]*entry{},
		tenants:  map[string]*tenant{},
		byID:     map[string]*node{},
		shapes:   newShapes(),
		order:    queue.New[*entry](queue.Config{Step: s.cfg.AgeingStep, HalfLife: s.cfg.HalfLife, Ranked: s.cfg.Queueing.Order != OrderAged}),
		profiles: profiles{byKey: map[string]*profile{}},
		topology: &ares.Topology{},
		layout:   s.layout + 1,
		reindex:  true,
	}
	s.atlas = topology.NewAtlas(s.topology)
	s.demand.kinds = map[askKind]*asked{}
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
	s.demand.begin(b.Revision)
	s.absorb(b.Events)
	s.advance()
}

// absorb takes events in, all of them before anybody looks.
func (s *State) absorb(events []ares.Event) {
	// Nodes first: what a seat counts depends on the model of its devices.
	for i := range events {
		if events[i].Node != nil {
			s.apply(&events[i])
		}
	}
	for i := range events {
		if events[i].Node == nil {
			s.apply(&events[i])
		}
	}
	s.requeue()
}

func (s *State) apply(ev *ares.Event) {
	switch {
	case ev.Job != nil:
		e := s.entry(ev.Job.ID)
		s.change(e, func() { e.job = ev.Job })
	case ev.Run != nil:
		e := s.entry(ev.Run.Job)
		s.change(e, func() { e.run = &ev.Run.Run })
		if !ev.Run.Seen.IsZero() {
			if s.seen == nil {
				s.seen = map[*entry]time.Time{}
			}
			s.seen[e] = ev.Run.Seen
		}
	case ev.Node != nil:
		n := s.node(ev.Node.ID)
		s.describe(n, ev.Node)
		s.touch(n)
	case ev.Session != nil:
		n := s.node(ev.Session.Node)
		n.session, n.grew, s.remeasure = ev.Session, true, true
		s.touch(n)
	case ev.Cordon != nil:
		n := s.node(ev.Cordon.Node)
		n.cordon = ev.Cordon
		s.touch(n)
	case ev.Score != nil:
		s.judge(s.node(ev.Score.Node), ev.Score)
	case ev.Tenant != nil:
		s.tenant(ev.Tenant.ID).record = ev.Tenant
		s.order.Tenant(ev.Tenant.ID, ev.Tenant)
	case ev.Queue != nil:
		s.order.Queue(ev.Queue)
	case ev.Reservation != nil:
		s.reserved(ev.Reservation.Name, ev.Reservation)
	case ev.Usage != nil:
		s.remember(*ev.Usage)
	case ev.Topology != nil:
		s.survey(ev.Topology)
	case ev.Forecast != nil:
		s.predict(ev.Forecast.Job, ev.Forecast)
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
			s.change(e, func() { e.job, e.run, e.forecast = nil, nil, nil })
		}
	case ares.KindRun:
		if e := s.jobs[ares.JobID(g.ID)]; e != nil {
			s.change(e, func() { e.run = nil })
		}
	case ares.KindNode, ares.KindSession, ares.KindCordon, ares.KindScore:
		s.forgetNode(g)
	case ares.KindTenant:
		if t := s.tenants[g.ID]; t != nil {
			t.record = nil
		}
		s.order.Tenant(g.ID, nil)
	case ares.KindQueue:
		tenant, name, _ := strings.Cut(g.ID, "/")
		s.order.DropQueue(tenant, name)
	case ares.KindReservation:
		s.reserved(g.ID, nil)
	case ares.KindUsage:
		tenant, name, _ := strings.Cut(g.ID, "/")
		s.remember(ares.Usage{Tenant: tenant, Queue: name})
	case ares.KindTopology:
		s.survey(&ares.Topology{})
	case ares.KindForecast:
		s.predict(ares.JobID(g.ID), nil)
	case ares.KindProgress, ares.KindPolicy: // nothing is decided by them
	}
}

func (s *State) forgetNode(g ares.Gone) {
	n := s.byID[g.ID]
	if n == nil {
		return
	}
	switch g.Kind {
	case ares.KindNode:
		s.describe(n, nil)
	case ares.KindSession:
		n.session, s.remeasure = nil, true
	case ares.KindScore:
		s.judge(n, nil)
	default:
		n.cordon, n.grew = nil, true
	}
	s.touch(n)
}

// change alters an entry between taking its part out of the accounts and
// putting it back.
func (s *State) change(e *entry, alter func()) {
	s.charge(e, -1)
	s.tally(e, -1)
	s.foretold -= e.foretells()
	before := e.job
	alter()
	s.foretold += e.foretells()
	if e.job != before {
		s.unlearn(e)
		s.dequeue(e)
		s.reshape(e)
		s.learn(e)
	}
	s.charge(e, +1)
	s.tally(e, +1)
	if !e.moved {
		e.moved = true
		s.moved = append(s.moved, e)
	}
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
		t = &tenant{id: id, ended: map[string]int64{}, archived: map[string]ares.Usage{}}
		s.tenants[id] = t
	}
	return t
}

// remember takes over what archived jobs of a queue have used.
func (s *State) remember(u ares.Usage) {
	s.tenant(u.Tenant).archived[u.Queue] = u
	s.order.Leaf(u.Tenant, u.Queue).Archived(u)
}

// tenantOr finds a tenant without adding one.
func (s *State) tenantOr(id string) *tenant {
	if t := s.tenants[id]; t != nil {
		return t
	}
	return &tenant{id: id}
}

func (s *State) node(id string) *node {
	n := s.byID[id]
	if n == nil {
		n = &node{id: id, lot: s.drawn(id)}
		s.byID[id] = n
		s.reindex = true
		s.locate(n) // the topology may list it before it has a record
	}
	return n
}

func (s *State) touch(n *node) {
	if !n.touched {
		n.touched = true
		s.touched = append(s.touched, n)
	}
}

// survey takes over a topology: every node may be somewhere else now.
func (s *State) survey(t *ares.Topology) {
	s.topology, s.atlas = t, topology.NewAtlas(t)
	s.reindex = true
	for _, n := range s.byID { // order-free: each by itself
		s.locate(n)
	}
}

// locate finds where a node stands.
func (s *State) locate(n *node) {
	var labels map[string]string
	if n.record != nil {
		labels = n.record.Labels
	}
	if place := s.atlas.PlaceOf(n.id, labels); place != n.place {
		n.place, n.altered, s.reindex = place, true, true
		s.touch(n)
	}
}

// ready brings the index over the nodes up to date. It is done when somebody
// asks, not with each batch, because a fleet that comes up one node at a time
// would be laid out anew for each.
func (s *State) ready() {
	expectations := s.expect()
	for _, n := range s.touched {
		n.survey()
		if n.forgotten() {
			delete(s.byID, n.id)
			s.reindex = true
		}
	}
	if s.reindex {
		s.relayout()
	}
	for _, n := range s.touched {
		if n.altered && s.byID[n.id] == n {
			s.natures.note(n.at)
		}
		if n.grew && s.byID[n.id] == n {
			s.grown.note(n.at)
		}
		if s.byID[n.id] == n {
			s.places.Remember(n.at, n.history())
			s.move(n)
		}
		n.touched, n.altered, n.grew = false, false, false
	}
	if expectations {
		for _, n := range s.nodes {
			if n.open() {
				s.stack(n)
			}
		}
	}
	if s.remeasure {
		s.remeasure = false
		s.measure()
	}
	clear(s.touched)
	s.touched = s.touched[:0]
}

// relayout gives every node its position, by place and ID, so that each domain
// is a range.
func (s *State) relayout() {
	s.reindex = false
	s.layout++
	s.nodes = s.nodes[:0]
	for _, n := range s.byID { // order-free: sorted right below
		s.nodes = append(s.nodes, n)
	}
	slices.SortFunc(s.nodes, byPlace)
	s.byName = slices.SortedFunc(slices.Values(s.nodes), func(a, b *node) int { return cmp.Compare(a.id, b.id) })
	s.byName = s.byName[:min(len(s.byName), lookedAt)]
	places := make([]topology.Place, len(s.nodes))
	for i, n := range s.nodes {
		n.at, places[i] = i, n.place
	}
	s.places = topology.Build(places, s.topology)
	s.natures.forget()
	s.grown.forget()
	s.shifts.forget()
	s.spare = slices.Grow(s.spare[:0], len(s.nodes))[:len(s.nodes)]
	s.gists = slices.Grow(s.gists[:0], len(s.nodes))[:len(s.nodes)]
	s.shifted = slices.Grow(s.shifted[:0], len(s.nodes))[:len(s.nodes)]
	s.crests = make([]crest, (len(s.nodes)+63)/64)
	s.rack.clear()
	for _, n := range s.nodes {
		s.places.Remember(n.at, n.history())
		s.move(n)
	}
}

// byPlace is the order of the nodes.
func byPlace(a, b *node) int {
	return cmp.Or(topology.Compare(a.place, b.place), cmp.Compare(a.id, b.id))
}

// measure counts what the fleet has: what shares are shares of, and the models
// that quotas have to be asked about.
func (s *State) measure() {
	var sum queue.Use
	s.models, s.peak = s.models[:0], peak{}
	seen := make([]bool, len(s.order.Models()))
	for _, n := range s.nodes {
		if n.record == nil {
			continue
		}
		for i := range n.profile.devices {
			if m := n.profile.devices[i].order; !seen[m] {
				seen[m] = true
				s.models = append(s.models, m)
			}
		}
		if n.session == nil {
			continue
		}
		s.peak.cpus = max(s.peak.cpus, n.profile.cpus)
		s.peak.gpus = max(s.peak.gpus, len(n.profile.devices)*wholeMilli)
		has := n.profile.worth()
		has.Memory = int64(n.record.MemoryMB) // not rounded
		sum = sum.Add(has, 1)
	}
	names := s.order.Models()
	slices.SortFunc(s.models, func(a, b int) int { return cmp.Compare(names[a], names[b]) })
	if sum != s.capacity {
		s.capacity = sum
		s.order.Capacity(sum)
	}
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

// Nodes yields every node with a record by ID, with its session, cordon
// and score, nil where it has none. They must not be changed.
func (s *State) Nodes() iter.Seq[NodeView] {
	return func(yield func(NodeView) bool) {
		all := make([]*node, 0, len(s.byID))
		for _, n := range s.byID { // order-free: sorted right below
			all = append(all, n)
		}
		slices.SortFunc(all, func(a, b *node) int { return cmp.Compare(a.id, b.id) })
		for _, n := range all {
			if n.record != nil && !yield(NodeView{n.record, n.session, n.cordon, n.past}) {
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
	Score   *ares.NodeScore
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
