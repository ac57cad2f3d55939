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

// State is everything a decision may see, with what Decide and Explain work with.
// It has one owner: see the package comment.
type State struct {
	core    *core
	round   *round
	explain *explainer
}

// The order of the engine's jobs.
type (
	queueTree = queue.Tree[*entry]
	queueLeaf = queue.LeafQueue[*entry]
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
	s := &State{core: newCore(cfg)}
	s.round = newRound(s.core)
	s.explain = newExplainer(s.core, s.round)
	return s
}

// Revision is the store revision the state shows.
func (s *State) Revision() int64 { return s.core.revision }

// Apply brings the state to the batch's revision. A batch the state has seen
// is no change; one with Reset replaces everything, whatever its revision. The
// state keeps what the events point to: it must not change afterwards.
func (s *State) Apply(b ares.Batch) {
	if b.Reset {
		*s = *NewWith(s.core.cfg)
	} else if b.Revision <= s.core.revision {
		return
	}
	s.core.apply(b)
}

// applyEvents takes events in, all of them before anybody looks.
func (co *core) applyEvents(events []ares.Event) {
	// Nodes first: what a seat counts depends on the model of its devices.
	for i := range events {
		if events[i].Node != nil {
			co.applyEvent(&events[i])
		}
	}
	for i := range events {
		if events[i].Node == nil {
			co.applyEvent(&events[i])
		}
	}
	co.jobs.requeue()
}

func (co *core) applyEvent(ev *ares.Event) {
	switch {
	case ev.Job != nil:
		e := co.jobs.entry(ev.Job.ID)
		co.jobs.updateEntry(e, func() { e.job = ev.Job })
	case ev.Run != nil:
		e := co.jobs.entry(ev.Run.Job)
		co.jobs.updateEntry(e, func() { e.run = &ev.Run.Run })
		if !ev.Run.Seen.IsZero() {
			if co.jobs.delaysLearned == nil {
				co.jobs.delaysLearned = map[*entry]time.Time{}
			}
			co.jobs.delaysLearned[e] = ev.Run.Seen
		}
	case ev.Node != nil:
		n := co.cluster.node(ev.Node.ID)
		co.jobs.setNodeRecord(n, ev.Node)
		co.cluster.markDirty(n)
	case ev.Session != nil:
		n := co.cluster.node(ev.Session.Node)
		n.session, n.gainedRoom, co.cluster.capacityStale = ev.Session, true, true
		co.cluster.markDirty(n)
	case ev.Cordon != nil:
		n := co.cluster.node(ev.Cordon.Node)
		n.cordon = ev.Cordon
		co.cluster.markDirty(n)
	case ev.Score != nil:
		co.cluster.setNodeScore(co.cluster.node(ev.Score.Node), ev.Score)
	case ev.Tenant != nil:
		co.jobs.tenant(ev.Tenant.ID).record = ev.Tenant
		co.jobs.queues.SetTenant(ev.Tenant.ID, ev.Tenant)
	case ev.Queue != nil:
		co.jobs.queues.SetQueue(ev.Queue)
	case ev.Reservation != nil:
		co.windows.setReservation(ev.Reservation.Name, ev.Reservation)
	case ev.Usage != nil:
		co.jobs.setArchivedUsage(*ev.Usage)
	case ev.Topology != nil:
		co.cluster.setTopology(ev.Topology)
	case ev.Forecast != nil:
		co.jobs.setForecast(ev.Forecast.Job, ev.Forecast)
	case ev.Gone.Kind != "":
		co.applyDeletion(ev.Gone)
	}
}

// applyDeletion drops what was deleted. The devices of a job that goes are free: the
// store archives a job only when they are.
func (co *core) applyDeletion(g ares.Gone) {
	switch g.Kind {
	case ares.KindJob:
		if e := co.jobs.entryByID[ares.JobID(g.ID)]; e != nil {
			co.jobs.updateEntry(e, func() { e.job, e.run, e.forecast = nil, nil, nil })
		}
	case ares.KindRun:
		if e := co.jobs.entryByID[ares.JobID(g.ID)]; e != nil {
			co.jobs.updateEntry(e, func() { e.run = nil })
		}
	case ares.KindNode, ares.KindSession, ares.KindCordon, ares.KindScore:
		co.jobs.applyNodeDeletion(g)
	case ares.KindTenant:
		if t := co.jobs.tenants[g.ID]; t != nil {
			t.record = nil
		}
		co.jobs.queues.SetTenant(g.ID, nil)
	case ares.KindQueue:
		tenant, name, _ := strings.Cut(g.ID, "/")
		co.jobs.queues.DropQueue(tenant, name)
	case ares.KindReservation:
		co.windows.setReservation(g.ID, nil)
	case ares.KindUsage:
		tenant, name, _ := strings.Cut(g.ID, "/")
		co.jobs.setArchivedUsage(ares.Usage{Tenant: tenant, Queue: name})
	case ares.KindTopology:
		co.cluster.setTopology(&ares.Topology{})
	case ares.KindForecast:
		co.jobs.setForecast(ares.JobID(g.ID), nil)
	case ares.KindProgress, ares.KindPolicy: // nothing is decided by them
	}
}

func (j *jobTable) applyNodeDeletion(g ares.Gone) {
	n := j.cluster.nodesByID[g.ID]
	if n == nil {
		return
	}
	switch g.Kind {
	case ares.KindNode:
		j.setNodeRecord(n, nil)
	case ares.KindSession:
		n.session, j.cluster.capacityStale = nil, true
	case ares.KindScore:
		j.cluster.setNodeScore(n, nil)
	default:
		n.cordon, n.gainedRoom = nil, true
	}
	j.cluster.markDirty(n)
}

// updateEntry alters an entry between taking its part out of the accounts and
// putting it back.
func (j *jobTable) updateEntry(e *entry, alter func()) {
	j.chargeJob(e, -1)
	j.countArray(e, -1)
	j.estimated -= e.estimates()
	before := e.job
	alter()
	j.estimated += e.estimates()
	if e.job != before {
		j.scorer.uncountDemand(&e.ask)
		j.dequeue(e)
		j.reshape(e)
		j.scorer.countDemand(&e.ask)
	}
	j.chargeJob(e, +1)
	j.countArray(e, +1)
	if !e.changed {
		e.changed = true
		j.changedEntries = append(j.changedEntries, e)
	}
}

func (j *jobTable) entry(id ares.JobID) *entry {
	e := j.entryByID[id]
	if e == nil {
		e = &entry{id: id}
		j.entryByID[id] = e
	}
	return e
}

func (j *jobTable) tenant(id string) *tenant {
	t := j.tenants[id]
	if t == nil {
		t = &tenant{id: id, monthlyUse: map[string]int64{}, archived: map[string]ares.Usage{}}
		j.tenants[id] = t
	}
	return t
}

// setArchivedUsage takes over what archived jobs of a queue have used.
func (j *jobTable) setArchivedUsage(u ares.Usage) {
	j.tenant(u.Tenant).archived[u.Queue] = u
	j.queues.Leaf(u.Tenant, u.Queue).SetArchived(u)
}

// tenantOrEmpty finds a tenant without adding one.
func (j *jobTable) tenantOrEmpty(id string) *tenant {
	if t := j.tenants[id]; t != nil {
		return t
	}
	return &tenant{id: id}
}

func (c *Cluster) node(id string) *node {
	n := c.nodesByID[id]
	if n == nil {
		n = &node{id: id}
		c.nodesByID[id] = n
		c.layoutStale = true
		c.locateNode(n) // the topology may list it before it has a record
	}
	return n
}

func (c *Cluster) markDirty(n *node) {
	if !n.dirty {
		n.dirty = true
		c.dirtyNodes = append(c.dirtyNodes, n)
	}
}

// setTopology takes over a topology: every node may be somewhere else now.
func (c *Cluster) setTopology(t *ares.Topology) {
	c.topology, c.atlas = t, topology.NewLocator(t)
	c.layoutStale = true
	for _, n := range c.nodesByID { // order-free: each by itself
		c.locateNode(n)
	}
}

// locateNode finds where a node stands.
func (c *Cluster) locateNode(n *node) {
	var labels map[string]string
	if n.record != nil {
		labels = n.record.Labels
	}
	if place := c.atlas.Locate(n.id, labels); place != n.place {
		n.place, n.traitsChanged, c.layoutStale = place, true, true
		c.markDirty(n)
	}
}

// refresh brings everything that is derived from the records up to date.
func (co *core) refresh() {
	co.scorer.refreshMix()
	before := co.cluster.capacity
	co.cluster.refreshIndex()
	co.scorer.syncLayout()
	if co.cluster.capacity != before {
		co.jobs.queues.SetCapacity(co.cluster.capacity)
	}
}

// refreshIndex brings the index over the nodes up to date. It is done when somebody
// asks, not with each batch, because a fleet that comes up one node at a time
// would be laid out anew for each.
func (c *Cluster) refreshIndex() {
	for _, n := range c.dirtyNodes {
		n.recountFree()
		if n.isUnknown() {
			delete(c.nodesByID, n.id)
			c.layoutStale = true
		}
	}
	if c.layoutStale {
		c.rebuildLayout()
	}
	for _, n := range c.dirtyNodes {
		if n.traitsChanged && c.nodesByID[n.id] == n {
			c.traitChanges.add(n.pos)
		}
		if n.gainedRoom && c.nodesByID[n.id] == n {
			c.roomChanges.add(n.pos)
		}
		if c.nodesByID[n.id] == n {
			c.domains.SetHistory(n.pos, n.historyScore())
			c.capacityChanged(n)
		}
		n.dirty, n.traitsChanged, n.gainedRoom = false, false, false
	}
	if c.capacityStale {
		c.capacityStale = false
		c.measureCapacity()
	}
	clear(c.dirtyNodes)
	c.dirtyNodes = c.dirtyNodes[:0]
}

// rebuildLayout gives every node its position, by place and ID, so that each domain
// is a range.
func (c *Cluster) rebuildLayout() {
	c.layoutStale = false
	c.layout++
	c.nodes = c.nodes[:0]
	for _, n := range c.nodesByID { // order-free: sorted right below
		c.nodes = append(c.nodes, n)
	}
	slices.SortFunc(c.nodes, compareByPlace)
	c.firstByName = slices.SortedFunc(slices.Values(c.nodes), func(a, b *node) int { return cmp.Compare(a.id, b.id) })
	c.firstByName = c.firstByName[:min(len(c.firstByName), firstFitNodes)]
	places := make([]topology.Location, len(c.nodes))
	for i, n := range c.nodes {
		n.pos, places[i] = i, n.place
	}
	c.domains = topology.NewTree(places, c.topology)
	c.traitChanges.reset()
	c.roomChanges.reset()
	c.capacityChanges.reset()
	c.freeCPUMem = slices.Grow(c.freeCPUMem[:0], len(c.nodes))[:len(c.nodes)]
	c.summaries = slices.Grow(c.summaries[:0], len(c.nodes))[:len(c.nodes)]
	c.lastCapacityChange = slices.Grow(c.lastCapacityChange[:0], len(c.nodes))[:len(c.nodes)]
	c.blockMaxes = make([]blockMax, (len(c.nodes)+63)/64)
	for _, n := range c.nodes {
		c.domains.SetHistory(n.pos, n.historyScore())
		c.capacityChanged(n)
	}
}

// compareByPlace is the order of the nodes.
func compareByPlace(a, b *node) int {
	return cmp.Or(topology.CompareLocations(a.place, b.place), cmp.Compare(a.id, b.id))
}

// measureCapacity counts what the fleet has: what shares are shares of, and the models
// that quotas have to be asked about.
func (c *Cluster) measureCapacity() {
	var sum queue.Resources
	c.models, c.largest = c.models[:0], largestNode{}
	seen := make([]bool, len(c.modelNames))
	for _, n := range c.nodes {
		if n.record == nil {
			continue
		}
		for i := range n.typ.devices {
			if m := n.typ.devices[i].modelIndex; !seen[m] {
				seen[m] = true
				c.models = append(c.models, m)
			}
		}
		if n.session == nil {
			continue
		}
		c.largest.cpus = max(c.largest.cpus, n.typ.cpus)
		c.largest.gpus = max(c.largest.gpus, len(n.typ.devices)*WholeMilli)
		has := n.typ.capacity()
		has.Memory = int64(n.record.MemoryMB) // not rounded
		sum = sum.Add(has, 1)
	}
	slices.SortFunc(c.models, func(a, b int) int { return cmp.Compare(c.modelNames[a], c.modelNames[b]) })
	c.capacity = sum
}

// Job finds a live job. It must not be changed.
func (s *State) Job(id ares.JobID) (*ares.Job, bool) {
	e := s.core.jobs.entryByID[id]
	if e == nil || e.job == nil {
		return nil, false
	}
	return e.job, true
}

// Run is a copy of a job's run for the caller to change and commit. A job
// without a stored run has the run of one just accepted.
func (s *State) Run(id ares.JobID) (ares.Run, bool) {
	e := s.core.jobs.entryByID[id]
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
		for _, e := range s.core.jobs.entries() {
			if e.job != nil && !yield(e.job, e.run) {
				return
			}
		}
	}
}

func (j *jobTable) entries() []*entry {
	all := make([]*entry, 0, len(j.entryByID))
	for _, e := range j.entryByID { // order-free: sorted right below
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	return all
}

// Nodes yields every node with a record by ID, with its session, cordon
// and score, nil where it has none. They must not be changed.
func (s *State) Nodes() iter.Seq[NodeView] {
	return func(yield func(NodeView) bool) {
		all := make([]*node, 0, len(s.core.cluster.nodesByID))
		for _, n := range s.core.cluster.nodesByID { // order-free: sorted right below
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
	t := s.core.jobs.tenants[id]
	if t == nil || t.record == nil {
		return nil, ares.Use{}, false
	}
	return t.record, t.use, true
}
