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
	cfg            Config
	revision       int64
	at             time.Time // when the last batch was learned of; zero without a clock
	entryByID           map[ares.JobID]*entry
	tenants        map[string]*tenant
	queues         *queueTree
	shapes         shapes
	delayed        []*entry  // retrying or preempted, by the end of the delay
	arrays         []*array  // by ID
	clock          time.Time // as of which those with deadlines are in order
	urgencyTimers  timerHeap // of those with deadlines that wait
	deadlineTimers timerHeap // of those with deadlines that have not ended
	queueTimeouts  timerHeap // of those that wait for their first place, and not for ever
	running        runningIndex
	// regrouping are the gangs that lost a node and do not run again yet, by ID.
	restarting []*entry
	// returning are the jobs that are being moved, by ID.
	migrating []*entry

	nodesByID             map[string]*node
	nodes                 []*node // by place, then ID, as of the last layout
	firstByName           []*node // the first of them by ID
	layout                int     // counts the times nodes got other positions
	topology              *ares.Topology
	atlas                 *topology.Atlas
	domains               *topology.Tree
	nodeTypes             nodeTypes
	demand                demandTracker
	capacityChanges       changeLog     // nodes that have other things left than before
	lastCapacityChange    []int         // by position: the last of its shifts
	freeCPUMem            []freeCPUMem  // by position
	summaries             []nodeSummary // by position
	blockMaxes            []blockMax    // of each 64 nodes
	scoreCaches           scoreCachePool
	traitChanges          changeLog  // nodes that became another kind of node
	roomChanges           changeLog  // nodes that may have more room than before
	unschedulableRequests []*request // of shapes that found no place
	capacity              queue.Use
	models                []int // that some node has, by name, as the order numbers them
	calendar              calendar
	feasibleScratch       set                   // scratch of reach
	preferredScratch      set                   // scratch of welcome
	idleScratch           []idleNode            // scratch of weighAll, by profile
	largest               largestNode           // of any node
	jobDraw               uint64                // of the job under way, where lots are drawn
	changeCount           int                   // counts the changes of nodes
	grantScratch          []queue.Part          // scratch of grantOf
	openingCaches         [quantiles][]*request // that have openings, oldest first
	firstScratch          []int64               // scratch of enough
	shortage              deviceShortage        // scratch of nearest
	estimated             int                   // jobs of which it is known how long they run
	increaseScratch       []roomIncrease        // scratch of enough

	changedEntries []*entry             // changed by the batch under way
	delaysLearned  map[*entry]time.Time // of the snapshot under way: when their delays were learned of
	dirtyNodes     []*node              // changed since the index was last brought up to date
	layoutStale    bool                 // nodes came, went or moved since then
	capacityStale  bool                 // what the fleet has changed since then
	round          round                // scratch of one decision, empty between them
	cycle          int                  // counts them
	epoch          int                  // counts them too, and what gives room in the middle of one
	lastRefusals   int                  // of the last one, for the room of the next
	plannedStarts  []ares.Promise       // by the last one
	requestCount   int                  // counts those that were ever made
	mixCount       int                  // and these
}

// The order of the engine's jobs.
type (
	queueTree = queue.Tree[*entry]
	queueLeaf = queue.Leaf[*entry]
	queueItem = queue.Item[*entry]
)

// tenant is a tenant's record and what its jobs hold. It exists as soon as
// somebody speaks of it; record is nil until the tenant itself is known.
type tenant struct {
	id     string
	record *ares.Tenant
	use    ares.Use

	active     []*entry              // hold something, in no order
	monthlyUse map[string]int64      // by month: thousandths of GPU-seconds of ended attempts of live jobs
	archived   map[string]ares.Usage // by queue: of jobs that are no longer live
	classStops []time.Time           // when live jobs were stopped by class for its own, in order
}

// New returns a state that knows nothing, at revision 0, with the defaults.
func New() *State { return NewWith(Default()) }

// NewWith returns a state that knows nothing, at revision 0.
func NewWith(cfg Config) *State {
	s := &State{cfg: cfg}
	s.reset()
	return s
}

func (s *State) reset() {
	*s = State{
		cfg:         s.cfg,
		entryByID:        map[ares.JobID]*entry{},
		tenants:     map[string]*tenant{},
		nodesByID:   map[string]*node{},
		shapes:      newShapes(),
		queues:      queue.New[*entry](queue.Config{Step: s.cfg.AgeingStep, HalfLife: s.cfg.HalfLife, Ranked: s.cfg.Queue.Order != OrderAged}),
		nodeTypes:   nodeTypes{byKey: map[string]*nodeType{}},
		topology:    &ares.Topology{},
		layout:      s.layout + 1,
		layoutStale: true,
	}
	s.atlas = topology.NewAtlas(s.topology)
	s.demand.kinds = map[demandKind]*demandCount{}
}

// Revision is the store revision the state shows.
func (s *State) Revision() int64 { return s.revision }

// Apply brings the state to the batch's revision. A batch the state has seen
// is no change; one with Reset replaces everything, whatever its revision. The
// state keeps what the events point to: it must not change afterwards.
func (s *State) Apply(b ares.Batch) {
	if b.Reset {
		s.reset()
	} else if b.Revision <= s.revision {
		return
	}
	s.revision, s.at = b.Revision, b.At
	s.demand.beginWindow(b.Revision)
	s.applyEvents(b.Events)
	s.advanceHorizon()
}

// applyEvents takes events in, all of them before anybody looks.
func (s *State) applyEvents(events []ares.Event) {
	// Nodes first: what a seat counts depends on the model of its devices.
	for i := range events {
		if events[i].Node != nil {
			s.applyEvent(&events[i])
		}
	}
	for i := range events {
		if events[i].Node == nil {
			s.applyEvent(&events[i])
		}
	}
	s.requeue()
}

func (s *State) applyEvent(ev *ares.Event) {
	switch {
	case ev.Job != nil:
		e := s.entry(ev.Job.ID)
		s.updateEntry(e, func() { e.job = ev.Job })
	case ev.Run != nil:
		e := s.entry(ev.Run.Job)
		s.updateEntry(e, func() { e.run = &ev.Run.Run })
		if !ev.Run.Seen.IsZero() {
			if s.delaysLearned == nil {
				s.delaysLearned = map[*entry]time.Time{}
			}
			s.delaysLearned[e] = ev.Run.Seen
		}
	case ev.Node != nil:
		n := s.node(ev.Node.ID)
		s.setNodeRecord(n, ev.Node)
		s.markDirty(n)
	case ev.Session != nil:
		n := s.node(ev.Session.Node)
		n.session, n.gainedRoom, s.capacityStale = ev.Session, true, true
		s.markDirty(n)
	case ev.Cordon != nil:
		n := s.node(ev.Cordon.Node)
		n.cordon = ev.Cordon
		s.markDirty(n)
	case ev.Score != nil:
		s.setNodeScore(s.node(ev.Score.Node), ev.Score)
	case ev.Tenant != nil:
		s.tenant(ev.Tenant.ID).record = ev.Tenant
		s.queues.Tenant(ev.Tenant.ID, ev.Tenant)
	case ev.Queue != nil:
		s.queues.Queue(ev.Queue)
	case ev.Reservation != nil:
		s.setReservation(ev.Reservation.Name, ev.Reservation)
	case ev.Usage != nil:
		s.setArchivedUsage(*ev.Usage)
	case ev.Topology != nil:
		s.setTopology(ev.Topology)
	case ev.Forecast != nil:
		s.setForecast(ev.Forecast.Job, ev.Forecast)
	case ev.Gone.Kind != "":
		s.applyDeletion(ev.Gone)
	}
}

// applyDeletion drops what was deleted. The devices of a job that goes are free: the
// store archives a job only when they are.
func (s *State) applyDeletion(g ares.Gone) {
	switch g.Kind {
	case ares.KindJob:
		if e := s.entryByID[ares.JobID(g.ID)]; e != nil {
			s.updateEntry(e, func() { e.job, e.run, e.forecast = nil, nil, nil })
		}
	case ares.KindRun:
		if e := s.entryByID[ares.JobID(g.ID)]; e != nil {
			s.updateEntry(e, func() { e.run = nil })
		}
	case ares.KindNode, ares.KindSession, ares.KindCordon, ares.KindScore:
		s.applyNodeDeletion(g)
	case ares.KindTenant:
		if t := s.tenants[g.ID]; t != nil {
			t.record = nil
		}
		s.queues.Tenant(g.ID, nil)
	case ares.KindQueue:
		tenant, name, _ := strings.Cut(g.ID, "/")
		s.queues.DropQueue(tenant, name)
	case ares.KindReservation:
		s.setReservation(g.ID, nil)
	case ares.KindUsage:
		tenant, name, _ := strings.Cut(g.ID, "/")
		s.setArchivedUsage(ares.Usage{Tenant: tenant, Queue: name})
	case ares.KindTopology:
		s.setTopology(&ares.Topology{})
	case ares.KindForecast:
		s.setForecast(ares.JobID(g.ID), nil)
	case ares.KindProgress, ares.KindPolicy: // nothing is decided by them
	}
}

func (s *State) applyNodeDeletion(g ares.Gone) {
	n := s.nodesByID[g.ID]
	if n == nil {
		return
	}
	switch g.Kind {
	case ares.KindNode:
		s.setNodeRecord(n, nil)
	case ares.KindSession:
		n.session, s.capacityStale = nil, true
	case ares.KindScore:
		s.setNodeScore(n, nil)
	default:
		n.cordon, n.gainedRoom = nil, true
	}
	s.markDirty(n)
}

// updateEntry alters an entry between taking its part out of the accounts and
// putting it back.
func (s *State) updateEntry(e *entry, alter func()) {
	s.chargeJob(e, -1)
	s.countArray(e, -1)
	s.estimated -= e.estimates()
	before := e.job
	alter()
	s.estimated += e.estimates()
	if e.job != before {
		s.uncountDemand(e)
		s.dequeue(e)
		s.reshape(e)
		s.countDemand(e)
	}
	s.chargeJob(e, +1)
	s.countArray(e, +1)
	if !e.changed {
		e.changed = true
		s.changedEntries = append(s.changedEntries, e)
	}
}

func (s *State) entry(id ares.JobID) *entry {
	e := s.entryByID[id]
	if e == nil {
		e = &entry{id: id}
		s.entryByID[id] = e
	}
	return e
}

func (s *State) tenant(id string) *tenant {
	t := s.tenants[id]
	if t == nil {
		t = &tenant{id: id, monthlyUse: map[string]int64{}, archived: map[string]ares.Usage{}}
		s.tenants[id] = t
	}
	return t
}

// setArchivedUsage takes over what archived jobs of a queue have used.
func (s *State) setArchivedUsage(u ares.Usage) {
	s.tenant(u.Tenant).archived[u.Queue] = u
	s.queues.Leaf(u.Tenant, u.Queue).Archived(u)
}

// tenantOrEmpty finds a tenant without adding one.
func (s *State) tenantOrEmpty(id string) *tenant {
	if t := s.tenants[id]; t != nil {
		return t
	}
	return &tenant{id: id}
}

func (s *State) node(id string) *node {
	n := s.nodesByID[id]
	if n == nil {
		n = &node{id: id, draw: s.hashWithSeed(id)}
		s.nodesByID[id] = n
		s.layoutStale = true
		s.locateNode(n) // the topology may list it before it has a record
	}
	return n
}

func (s *State) markDirty(n *node) {
	if !n.dirty {
		n.dirty = true
		s.dirtyNodes = append(s.dirtyNodes, n)
	}
}

// setTopology takes over a topology: every node may be somewhere else now.
func (s *State) setTopology(t *ares.Topology) {
	s.topology, s.atlas = t, topology.NewAtlas(t)
	s.layoutStale = true
	for _, n := range s.nodesByID { // order-free: each by itself
		s.locateNode(n)
	}
}

// locateNode finds where a node stands.
func (s *State) locateNode(n *node) {
	var labels map[string]string
	if n.record != nil {
		labels = n.record.Labels
	}
	if place := s.atlas.PlaceOf(n.id, labels); place != n.place {
		n.place, n.traitsChanged, s.layoutStale = place, true, true
		s.markDirty(n)
	}
}

// refreshIndex brings the index over the nodes up to date. It is done when somebody
// asks, not with each batch, because a fleet that comes up one node at a time
// would be laid out anew for each.
func (s *State) refreshIndex() {
	expectations := s.refreshMix()
	for _, n := range s.dirtyNodes {
		n.recountFree()
		if n.isUnknown() {
			delete(s.nodesByID, n.id)
			s.layoutStale = true
		}
	}
	if s.layoutStale {
		s.rebuildLayout()
	}
	for _, n := range s.dirtyNodes {
		if n.traitsChanged && s.nodesByID[n.id] == n {
			s.traitChanges.add(n.pos)
		}
		if n.gainedRoom && s.nodesByID[n.id] == n {
			s.roomChanges.add(n.pos)
		}
		if s.nodesByID[n.id] == n {
			s.domains.Remember(n.pos, n.historyScore())
			s.capacityChanged(n)
		}
		n.dirty, n.traitsChanged, n.gainedRoom = false, false, false
	}
	if expectations {
		for _, n := range s.nodes {
			if n.schedulable() {
				s.refreshCapacity(n)
			}
		}
	}
	if s.capacityStale {
		s.capacityStale = false
		s.measureCapacity()
	}
	clear(s.dirtyNodes)
	s.dirtyNodes = s.dirtyNodes[:0]
}

// rebuildLayout gives every node its position, by place and ID, so that each domain
// is a range.
func (s *State) rebuildLayout() {
	s.layoutStale = false
	s.layout++
	s.nodes = s.nodes[:0]
	for _, n := range s.nodesByID { // order-free: sorted right below
		s.nodes = append(s.nodes, n)
	}
	slices.SortFunc(s.nodes, compareByPlace)
	s.firstByName = slices.SortedFunc(slices.Values(s.nodes), func(a, b *node) int { return cmp.Compare(a.id, b.id) })
	s.firstByName = s.firstByName[:min(len(s.firstByName), firstFitNodes)]
	places := make([]topology.Place, len(s.nodes))
	for i, n := range s.nodes {
		n.pos, places[i] = i, n.place
	}
	s.domains = topology.Build(places, s.topology)
	s.traitChanges.reset()
	s.roomChanges.reset()
	s.capacityChanges.reset()
	s.freeCPUMem = slices.Grow(s.freeCPUMem[:0], len(s.nodes))[:len(s.nodes)]
	s.summaries = slices.Grow(s.summaries[:0], len(s.nodes))[:len(s.nodes)]
	s.lastCapacityChange = slices.Grow(s.lastCapacityChange[:0], len(s.nodes))[:len(s.nodes)]
	s.blockMaxes = make([]blockMax, (len(s.nodes)+63)/64)
	s.scoreCaches.clear()
	for _, n := range s.nodes {
		s.domains.Remember(n.pos, n.historyScore())
		s.capacityChanged(n)
	}
}

// compareByPlace is the order of the nodes.
func compareByPlace(a, b *node) int {
	return cmp.Or(topology.Compare(a.place, b.place), cmp.Compare(a.id, b.id))
}

// measureCapacity counts what the fleet has: what shares are shares of, and the models
// that quotas have to be asked about.
func (s *State) measureCapacity() {
	var sum queue.Use
	s.models, s.largest = s.models[:0], largestNode{}
	seen := make([]bool, len(s.queues.Models()))
	for _, n := range s.nodes {
		if n.record == nil {
			continue
		}
		for i := range n.typ.devices {
			if m := n.typ.devices[i].modelIndex; !seen[m] {
				seen[m] = true
				s.models = append(s.models, m)
			}
		}
		if n.session == nil {
			continue
		}
		s.largest.cpus = max(s.largest.cpus, n.typ.cpus)
		s.largest.gpus = max(s.largest.gpus, len(n.typ.devices)*WholeMilli)
		has := n.typ.capacity()
		has.Memory = int64(n.record.MemoryMB) // not rounded
		sum = sum.Add(has, 1)
	}
	names := s.queues.Models()
	slices.SortFunc(s.models, func(a, b int) int { return cmp.Compare(names[a], names[b]) })
	if sum != s.capacity {
		s.capacity = sum
		s.queues.Capacity(sum)
	}
}

// Job finds a live job. It must not be changed.
func (s *State) Job(id ares.JobID) (*ares.Job, bool) {
	e := s.entryByID[id]
	if e == nil || e.job == nil {
		return nil, false
	}
	return e.job, true
}

// Run is a copy of a job's run for the caller to change and commit. A job
// without a stored run has the run of one just accepted.
func (s *State) Run(id ares.JobID) (ares.Run, bool) {
	e := s.entryByID[id]
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
	all := make([]*entry, 0, len(s.entryByID))
	for _, e := range s.entryByID { // order-free: sorted right below
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	return all
}

// Nodes yields every node with a record by ID, with its session, cordon
// and score, nil where it has none. They must not be changed.
func (s *State) Nodes() iter.Seq[NodeView] {
	return func(yield func(NodeView) bool) {
		all := make([]*node, 0, len(s.nodesByID))
		for _, n := range s.nodesByID { // order-free: sorted right below
			all = append(all, n)
		}
		slices.SortFunc(all, func(a, b *node) int { return cmp.Compare(a.id, b.id) })
		for _, n := range all {
			if n.record != nil && !yield(NodeView{n.record, n.session, n.cordon, n.score}) {
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
