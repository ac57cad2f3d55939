package planner

import (
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/kube/watch"
	"github.com/ares-scheduler/ares/learn"
)

// Observer is told what happens to the engine's state. Its methods must not call the planner.
type Observer interface {
	// Follow receives each batch that the engine's state applies.
	Follow(b ares.Batch, now time.Time)
	// Lost is called when a pod of a gang ended because its node is not there any more, and Recovered when all pods of the
	// gang have a node again. The ID of a gang stays the same when its pods are replaced.
	Lost(gang ares.JobID, now time.Time)
	Recovered(gang ares.JobID, now time.Time)
}

// Planner holds the engine's state of one cluster and the plans that are not carried out yet.
type Planner struct {
	scheduler string // the schedulerName of the pods that it plans
	observer  Observer

	mu       sync.Mutex
	state    *engine.State
	learner  *learn.Learner // of runtimes and of the reliability of nodes
	revision int64          // of the state; it counts batches
	fence    int64          // of the last plan
	events   []ares.Event

	nodes      map[string]*node
	pods       map[string]*pod // by UID
	gangs      map[string]*gang
	units      map[ares.JobID]*unit
	tenants    map[string]bool
	domainSize map[string]int // name of a domain → the number of its nodes
	// settings has the weights and limits of the configuration, and sent what the engine knows of the topology.
	settings      ares.Topology
	sent          *ares.Topology
	leavesChanged bool
	// changed has the gangs whose waiting pods may form a unit.
	changed map[*gang]bool
	// withdrawn has the pods whose plan ended since the last cycle.
	withdrawn []Ref
	departed  []departure
	// adopted has the pods that got an assignment while this process did not lead.
	adopted []Ref
	// Most clusters have neither excluded nodes nor gangs of several parts. These say whether a cycle has to look for them.
	hasExclusions, hasParts bool
	// unread has the bound pods whose real devices the planner may not have taken into account yet.
	unread map[*pod]bool
}

// A node is a node of the cluster with the devices that pods use or will use.
type node struct {
	record *ares.Node
	online bool
	cordon bool
	taken  map[int]string // device index → UID of the pod
	ids    map[string]int // ID of a device of the kubelet → its index; see devices.go
}

// A pod is a pod that uses GPUs.
type pod struct {
	*watch.Pod
	gang *gang
	unit *unit // nil while it waits for the other pods of its gang
	rank int   // its rank in the unit
	// excluded has the nodes that rejected this pod, and until when they are excluded for it.
	excluded   map[string]time.Time
	rejections int    // in a row, on the node that is planned
	departures int    // since its unit was planned
	told       string // the last reason that was reported for it
	moved      bool   // it has other devices than its plan had, because another pod uses those
}

// New returns a planner for the pods that name the given scheduler. The observer may be nil.
func New(scheduler string, observer Observer) *Planner {
	return &Planner{
		scheduler:  scheduler,
		settings:   ares.Topology{Weights: ares.DefaultWeights()},
		observer:   observer,
		state:      engine.New(),
		learner:    learn.New(),
		nodes:      map[string]*node{},
		pods:       map[string]*pod{},
		gangs:      map[string]*gang{},
		units:      map[ares.JobID]*unit{},
		tenants:    map[string]bool{},
		domainSize: map[string]int{},
		changed:    map[*gang]bool{},
	}
}

// SetTopology applies the weights and limits of the configuration.
func (p *Planner) SetTopology(t ares.Topology) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settings, p.leavesChanged = t, true
}

// SetNode adds or changes a node. A node that is not ready is offline: it gets no pods, but its pods keep their devices.
func (p *Planner) SetNode(record *ares.Node, ready, cordoned bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.node(record.ID)
	p.countDomains(record, 1) // before the old record is taken away, so that a domain that stays is never empty
	p.countDomains(n.record, -1)
	n.record, p.leavesChanged = record, true
	p.events = append(p.events, ares.Event{Node: record})
	if ready != n.online {
		n.online = ready
		if ready {
			p.events = append(p.events, ares.Event{Session: &ares.Session{Node: record.ID, Instance: record.ID}})
		} else {
			p.gone(ares.KindSession, record.ID)
		}
	}
	if cordoned != n.cordon {
		n.cordon = cordoned
		if cordoned {
			p.events = append(p.events, ares.Event{Cordon: &ares.Cordon{Node: record.ID, Why: "cordoned in Kubernetes"}})
		} else {
			p.gone(ares.KindCordon, record.ID)
		}
	}
	p.readmit(record.ID)
}

// DeleteNode removes a node. Pods that are bound to it keep their seats until they are deleted too.
func (p *Planner) DeleteNode(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.nodes[name]; n == nil || n.record == nil {
		return
	}
	if p.nodes[name].online {
		p.gone(ares.KindSession, name)
	}
	p.gone(ares.KindNode, name)
	p.countDomains(p.nodes[name].record, -1)
	p.leavesChanged = true
	p.nodes[name].record, p.nodes[name].online, p.nodes[name].cordon = nil, false, false
	if len(p.nodes[name].taken) == 0 {
		delete(p.nodes, name)
	}
}

// SetPod adds or changes a pod that uses GPUs, of this scheduler or another.
func (p *Planner) SetPod(seen *watch.Pod, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.pods[seen.UID]
	if known != nil && known.Node != "" && seen.Node == "" {
		return // an event of its owner is late: a pod never leaves its node
	}
	if seen.Ended {
		if known != nil {
			known.Pod = seen
			p.remove(known, now)
		}
		return
	}
	if known == nil {
		known = &pod{Pod: seen, gang: p.gang(seen.Gang)}
		p.pods[seen.UID] = known
		known.gang.pods[seen.UID] = known
	} else {
		p.reconsider(known, seen)
		if seen.Gang != known.Gang && known.unit == nil {
			p.leaveGang(known)
			known.gang = p.gang(seen.Gang)
			known.gang.pods[seen.UID] = known
		}
		known.Pod = seen
	}
	if known.unit != nil && seen.Node != "" {
		p.claim(known, now)
		p.recovered(known.gang, now)
	}
	p.noteDevices(known)
	p.changed[known.gang] = true
}

// DeletePod removes a pod that no longer exists.
func (p *Planner) DeletePod(uid string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.pods[uid]; known != nil {
		p.remove(known, now)
	}
}

// remove takes a pod out of its gang and unit, and frees its devices.
func (p *Planner) remove(o *pod, now time.Time) {
	if n := p.nodes[o.Node]; o.unit != nil && o.Node != "" && (n == nil || !n.online) && p.ours(o.Pod) {
		p.lost(o.gang, now)
	}
	if o.unit != nil {
		p.release(o, p.resultOf(o, now))
	}
	p.leaveGang(o)
	delete(p.pods, o.UID)
}

func (p *Planner) leaveGang(o *pod) {
	delete(o.gang.pods, o.UID)
	if len(o.gang.pods) == 0 {
		delete(p.gangs, o.gang.key)
		delete(p.changed, o.gang)
		return
	}
	p.changed[o.gang] = true
}

func (p *Planner) node(name string) *node {
	if p.nodes[name] == nil {
		p.nodes[name] = &node{taken: map[int]string{}}
	}
	return p.nodes[name]
}

func (p *Planner) gone(kind ares.Kind, id string) {
	p.events = append(p.events, ares.Event{Gone: ares.Gone{Kind: kind, ID: id}})
}

// addTenant makes the engine know a tenant: without limits, of the same weight as the others.
func (p *Planner) addTenant(id string) {
	if !p.tenants[id] {
		p.tenants[id] = true
		p.events = append(p.events, ares.Event{Tenant: &ares.Tenant{ID: id, Name: id, Weight: 1, Limits: ares.NoLimits(), MayPreempt: true}})
	}
}

// ours reports whether this planner places the pod.
func (p *Planner) ours(o *watch.Pod) bool { return o.Scheduler == p.scheduler }

// apply passes the collected events to the engine.
func (p *Planner) apply(now time.Time) {
	if len(p.events) == 0 {
		return
	}
	p.revision++
	// The first batch has all nodes, so it is a snapshot: the learner drops what it knows of other nodes.
	batch := ares.Batch{Revision: p.revision, Reset: p.revision == 1, Events: p.events, At: now}
	p.state.Apply(batch)
	p.learner.Follow(batch, now)
	if p.observer != nil {
		p.observer.Follow(batch, now)
	}
	p.events = nil
}
