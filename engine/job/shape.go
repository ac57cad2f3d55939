package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"

	ares "github.com/ares-scheduler/ares"
)

// Shape is everything that decides whether a job can be placed, apart from its run: its
// tenant and queue, its request, topology and dependencies. Jobs of one shape share it.
// When one of them cannot be placed, neither can the others in the same decision.
type Shape struct {
	// The fields that every turn of a decision reads lie side by side.
	Request        *cluster.Request // of one member
	Tenant         *Tenant
	Leaf           *QueueLeaf
	Members        int
	Unschedulable  UnschedulableMark
	After          []ares.JobID   // dependencies, sorted
	Affinity       []ares.Near    // jobs that must be near
	AntiAffinity   []ares.Near    // jobs that must not be near
	NoRoomRefusal  []ares.Blocker // NoRoomBlocker of the shape; nil until it is first needed
	RefusedInCycle int            // the last cycle that refused a job of the shape and went on with others of it

	Key   string // Invariant: equal for two shapes exactly when jobs of them can share one
	index int    // small, and unique among the shapes of live jobs; it is queue.Item.Shape
	Refs  int    // live jobs of the shape

	perMember  ares.Use
	MinMembers int // it can start with so many. Invariant: 1 <= MinMembers <= Members
	Wish       topologyRequest
	Labels     map[string]string // of the job; nil without affinities
	keys       []ShapeKey        // the keys of shapes.byShapeKey that lead here

	DelayingEpoch int   // the last epoch in which a job of the shape would have delayed a backfill reservation
	DelayingEnd   int64 // the expected end of that job

	WindowEpoch int           // the last epoch in which a job of the shape would have outlasted a reservation's begin
	WindowStay  time.Duration // the expected stay of that job
}

// topologyRequest says where the members of a job are to be in the topology.
type topologyRequest struct {
	Strategy  string
	Required  ares.Level
	Preferred ares.Level
	Domain    string
	Gbps      int
	Latency   bool // the lowest network latency
}

// Use returns what a number of members counts for limits.
func (sh *Shape) Use(members int) ares.Use {
	u := sh.perMember
	return ares.Use{
		GPUs: members * u.GPUs, GPUMilli: members * u.GPUMilli, GPUMemoryMB: members * u.GPUMemoryMB,
		CPUs: members * u.CPUs, MemoryMB: members * u.MemoryMB, Jobs: 1,
	}
}

// onOneNode reports whether all members must be on the same node.
func (sh *Shape) onOneNode() bool {
	return sh.Members > 1 && sh.Wish.Required.Rank() >= ares.LevelNode.Rank()
}

// NewShape returns the shape of a job, whether or not live jobs have the same one. See
// shapes.Find.
func (j *Table) NewShape(job *ares.Job) *Shape {
	p := &job.Placement
	w := cluster.RequestOf(job)
	w.ID = j.cluster.NewRequestID()
	j.Shapes.Requests.ShareConstraints(w)
	sh := &Shape{
		Request: w, Tenant: j.tenantOrEmpty(job.Tenant), Leaf: j.Queues.Leaf(job.Tenant, job.Queue), Members: max(job.Members, 1),
		perMember: ares.Use{GPUs: w.GPUs, GPUMilli: w.Milli, GPUMemoryMB: job.GPUMemoryMB, CPUs: job.CPUs, MemoryMB: job.MemoryMB},
		Wish: topologyRequest{
			Strategy: p.Strategy, Required: ares.Level(p.RequiredLevel), Preferred: ares.Level(p.PreferredLevel),
			Domain: p.PreferredDomain, Latency: p.LatencySensitive,
		},
		Affinity: cluster.ParseAll(p.Affinity, ares.ParseNear), AntiAffinity: cluster.ParseAll(p.AntiAffinity, ares.ParseNear),
	}
	sh.MinMembers = sh.Members
	if job.MinMembers > 0 {
		sh.MinMembers = min(job.MinMembers, sh.Members)
	}
	if sh.Wish.Required == ares.LevelNUMA {
		w.NUMA, w.OneNUMA = cluster.NUMARequired, sh.Members > 1
		w.Key += fmt.Sprint(" numa ", w.OneNUMA)
	}
	if p.NetworkBandwidth != "" {
		sh.Wish.Gbps, _ = ares.ParseBandwidth(p.NetworkBandwidth)
	}
	if len(sh.Affinity)+len(sh.AntiAffinity) > 0 {
		sh.Labels = job.Labels
	}
	for _, id := range job.After {
		sh.After = append(sh.After, ares.JobID(id))
	}
	slices.Sort(sh.After)
	sh.After = slices.Compact(sh.After)
	sh.Key = fmt.Sprintf("%q %q %s %d %d %d %q %v %v %v %v", job.Tenant, job.Queue, w.Key, sh.Members, sh.MinMembers, sh.perMember.GPUMemoryMB, sh.After, sh.Wish,
		sh.Affinity, sh.AntiAffinity, sh.Labels)
	return sh
}

// shapes holds the shapes of live jobs, each once.
type shapes struct {
	ByKey      map[string]*Shape
	byShapeKey map[ShapeKey]*Shape
	Requests   cluster.RequestTable
	Free       []int // indexes that no shape has
	Count      int   // indexes in use or in Free
}

// newShapes returns an empty table of shapes.
func newShapes() shapes {
	return shapes{ByKey: map[string]*Shape{}, byShapeKey: map[ShapeKey]*Shape{}, Requests: cluster.RequestTable{ByKey: map[string]*cluster.Request{}, Constraints: map[string]*cluster.Constraints{}}}
}

// intern returns the shape with the same key, after adding it when it is new, and counts
// one more job of it.
func (s *shapes) intern(sh *Shape) *Shape {
	if known := s.ByKey[sh.Key]; known != nil {
		known.Refs++
		return known
	}
	if n := len(s.Free); n > 0 {
		sh.index, s.Free = s.Free[n-1], s.Free[:n-1]
	} else {
		sh.index = s.Count
		s.Count++
	}
	sh.Refs = 1
	s.ByKey[sh.Key] = sh
	sh.Request = s.Requests.Intern(sh.Request)
	return sh
}

// Find returns the shape of live jobs with the same key, or the given one when there is
// none.
func (s *shapes) Find(sh *Shape) *Shape {
	if known := s.ByKey[sh.Key]; known != nil {
		return known
	}
	return sh
}

// Release counts one job less, and drops the shape when it was the last.
func (s *shapes) Release(sh *Shape) {
	if sh.Refs--; sh.Refs == 0 {
		delete(s.ByKey, sh.Key)
		for _, b := range sh.keys {
			delete(s.byShapeKey, b)
		}
		s.Free = append(s.Free, sh.index)
		s.Requests.Release(sh.Request)
	}
}

// MinGPUMilli returns the GPUs that the job needs to start, in thousandths.
func (sh *Shape) MinGPUMilli() int64 {
	return int64(sh.MinMembers) * int64(max(sh.Request.GPUs*cluster.WholeMilli, sh.Request.Milli))
}

// AsksAlike reports whether two shapes have the same numbers of members and the same
// topology request.
func (sh *Shape) AsksAlike(o *Shape) bool {
	return sh.Members == o.Members && sh.MinMembers == o.MinMembers && sh.Wish == o.Wish
}

// UnschedulableMark remembers that a shape could not be placed. It holds as long as the
// layout is the same and no node gained capacity for one of its members.
type UnschedulableMark struct {
	Known  bool
	Layout int    // cluster.Layout at that time
	Seen   int    // cluster.RoomChanges.Count at that time
	Ban    uint64 // models that were excluded
}

// SpreadsMembers reports whether no two members may share a node.
func (sh *Shape) SpreadsMembers() bool {
	for _, a := range sh.AntiAffinity {
		if a.Level == ares.LevelNode && a.Of(sh.Labels) {
			return true
		}
	}
	return false
}

// ShapeKey is everything that makes the shape of a job without lists, such as selectors
// or dependencies. It is compared faster than Shape.Key. Jobs with lists have none.
type ShapeKey struct {
	tenant, Queue                           string
	members, least                          int
	gpus, milli, deviceMemory, cpus, memory int
	kind, model, mig, numa                  string
	strategy, required, preferred, domain   string
	bandwidth                               string
	latency                                 bool
}

// ShapeKeyOf returns the key of a job; false means that it has lists.
func ShapeKeyOf(j *ares.Job) (ShapeKey, bool) {
	p := &j.Placement
	lists := len(p.NodeSelector) + len(p.Tolerations) + len(p.Regions) + len(p.NodeAffinity) + len(p.NodeRequirements) + len(p.PreferredNodeAffinity) + len(p.Affinity) +
		len(p.AntiAffinity) + len(j.After)
	return ShapeKey{
		tenant: j.Tenant, Queue: j.Queue, members: j.Members, least: j.MinMembers,
		gpus: j.GPUs, milli: j.GPUMilli, deviceMemory: j.GPUMemoryMB, cpus: j.CPUs, memory: j.MemoryMB,
		kind: j.AcceleratorType, model: j.GPUModel, mig: j.MIGProfile, numa: j.NUMAPolicy,
		strategy: p.Strategy, required: p.RequiredLevel, preferred: p.PreferredLevel, domain: p.PreferredDomain,
		bandwidth: p.NetworkBandwidth, latency: p.LatencySensitive,
	}, lists == 0
}

// internShape returns the shape of a job and counts the job.
func (j *Table) internShape(job *ares.Job) *Shape {
	b, ok := ShapeKeyOf(job)
	if known := j.Shapes.byShapeKey[b]; ok && known != nil {
		known.Refs++
		return known
	}
	sh := j.Shapes.intern(j.NewShape(job))
	if ok {
		j.Shapes.byShapeKey[b] = sh
		sh.keys = append(sh.keys, b)
	}
	return sh
}
