package job

import (
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
)

// Shape holds the properties of a job that decide whether the job can be placed: its tenant, queue,
// request, topology and dependencies. A Shape does not depend on the job's run. Jobs with equal properties
// share one Shape. If one job with a Shape cannot be placed, no other job with this Shape can be placed in
// the same decision.
type Shape struct {
	// The fields that a cycle reads for every job are adjacent in memory.
	Request        *cluster.Request // of one member
	Tenant         *Tenant
	Leaf           *QueueLeaf
	Members        int
	Unschedulable  UnschedulableMark
	After          []ares.JobID      // dependencies, sorted
	Affinity       []ares.Near       // jobs that must be nearby
	AntiAffinity   []ares.Near       // jobs that must not be nearby
	SpreadFrom     []ares.Near       // jobs of which as few as possible should be nearby
	NoRoomRefusal  [2][]ares.Blocker // NoRoomBlocker of the shape, with one model and with several in the cluster; nil until first needed
	RefusedInCycle int               // the last cycle that refused a job of the shape and continued with other jobs of it

	Key   string // Invariant: equal for two shapes exactly when jobs of them can share one
	index int    // small, and unique among the shapes of live jobs; the same as queue.Item.Shape
	Refs  int    // live jobs of the shape

	perMember  ares.Use
	MinMembers int // the smallest number of members with which the job can start. Invariant: 1 <= MinMembers <= Members
	Wish       topologyRequest
	Labels     map[string]string // of the job; nil without affinities
	keys       []ShapeKey        // the keys of shapes.byShapeKey that lead here

	overdue overdueJobs // its overdue jobs

	DelayingEpoch int   // the last epoch in which a job of the shape would have delayed a backfill reservation
	DelayingEnd   int64 // the expected end of that job

	WindowEpoch int           // the last epoch in which a job of the shape would have run past the start of a reservation
	WindowStay  time.Duration // the expected stay of that job
}

// topologyRequest says where in the topology the members of a job are placed.
type topologyRequest struct {
	Strategy  string
	Required  ares.Level
	Preferred ares.Level
	Domain    string
	Gbps      int
	Latency   bool // prefer the lowest network latency
	OneModel  bool // all members need devices of the same model; only set for gangs with devices
}

// Use returns the resources that the given number of members need, in the form in which limits count them.
func (sh *Shape) Use(members int) ares.Use {
	u := sh.perMember
	return ares.Use{
		GPUs: members * u.GPUs, GPUMilli: members * u.GPUMilli, GPUMemoryMB: members * u.GPUMemoryMB,
		CPUs: members * u.CPUs, CPUMilli: members * u.CPUMilli, MemoryMB: members * u.MemoryMB, Jobs: 1,
	}
}

// onOneNode reports whether all members must be on the same node.
func (sh *Shape) onOneNode() bool {
	return sh.Members > 1 && sh.Wish.Required.Rank() >= ares.LevelNode.Rank()
}

// NewShape returns a new Shape for a job, even if a live job already has an equal Shape. See shapes.Find.
func (j *Table) NewShape(job *ares.Job) *Shape {
	p := job.Placement()
	w := cluster.RequestOf(job)
	w.ID = j.cluster.NewRequestID()
	j.Shapes.Requests.ShareConstraints(w)
	sh := &Shape{
		Request: w, Tenant: j.tenantOrEmpty(job.Tenant), Leaf: j.Queues.Leaf(job.Tenant, job.Queue), Members: max(job.Members, 1),
		perMember: ares.Use{GPUs: w.GPUs, GPUMilli: w.Milli, GPUMemoryMB: job.GPUMemoryMB, CPUs: job.CPUs, CPUMilli: int(job.CPUMilli), MemoryMB: job.MemoryMB},
		Wish: topologyRequest{
			Strategy: p.Strategy, Required: ares.Level(p.RequiredLevel), Preferred: ares.Level(p.PreferredLevel),
			Domain: p.PreferredDomain, Latency: p.LatencySensitive,
		},
		Affinity: cluster.ParseAll(p.Affinity, ares.ParseNear), AntiAffinity: cluster.ParseAll(p.AntiAffinity, ares.ParseNear),
		SpreadFrom: cluster.ParseAll(p.PreferredAntiAffinity, ares.ParseNear),
	}
	sh.Wish.OneModel = sh.Members > 1 && w.NeedsDevices() && job.NeedsOneModel()
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
	if len(sh.SpreadFrom) > 0 {
		sh.Key += fmt.Sprintf(" spread %v", sh.SpreadFrom)
	}
	return sh
}

// The type `shapes` is a table of the Shapes of all live jobs, without duplicates.
type shapes struct {
	ByKey      map[string]*Shape
	byShapeKey map[ShapeKey]*Shape
	Requests   cluster.RequestTable
	Free       []int // indexes that no shape has
	Count      int   // indexes in use or in Free
}

// newShapes returns an empty table of Shapes.
func newShapes() shapes {
	return shapes{ByKey: map[string]*Shape{}, byShapeKey: map[ShapeKey]*Shape{}, Requests: cluster.RequestTable{ByKey: map[string]*cluster.Request{}, Constraints: map[string]*cluster.Constraints{}}}
}

// The method `intern` returns the Shape in the table that has the same key. If there is none, the method adds
// the given Shape. Then it counts one more job with this Shape.
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

// Find returns the Shape in the table that has the same key as the given Shape. If there is no such Shape, Find
// returns the given Shape.
func (s *shapes) Find(sh *Shape) *Shape {
	if known := s.ByKey[sh.Key]; known != nil {
		return known
	}
	return sh
}

// Release subtracts one from the number of jobs with a Shape, and drops the Shape if no job is left.
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

// AsksAlike reports whether two Shapes request the same numbers of members and the same topology.
func (sh *Shape) AsksAlike(o *Shape) bool {
	return sh.Members == o.Members && sh.MinMembers == o.MinMembers && sh.Wish == o.Wish
}

// UnschedulableMark records that jobs with a Shape could not be placed. The mark is valid as long as the cluster
// layout is the same and no node has gained capacity for a member of such a job.
type UnschedulableMark struct {
	Known  bool
	Layout int    // cluster.Layout at that time
	Seen   int    // cluster.RoomChanges.Count at that time
	Ban    uint64 // models that were excluded
}

// SpreadsMembers reports whether all members must be on different nodes.
func (sh *Shape) SpreadsMembers() bool {
	for _, a := range sh.AntiAffinity {
		if a.Level == ares.LevelNode && a.Of(sh.Labels) {
			return true
		}
	}
	return false
}

// ShapeKey holds all properties that determine the Shape of a job. It is used only for jobs without lists
// such as selectors or dependencies. Comparing two ShapeKeys is faster than comparing two values of
// Shape.Key. A job with selectors, dependencies or other lists has no ShapeKey.
type ShapeKey struct {
	tenant, Queue                           string
	members, least                          int
	gpus, milli, deviceMemory, cpus, memory int
	kind, model, mig, numa                  string
	strategy, required, preferred, domain   string
	bandwidth                               string
	latency, trusted, image, mixed          bool
	ownNetwork, attachable, containerRoot   bool
}

// ShapeKeyOf returns the ShapeKey of a job, or false if the job has lists such as selectors.
func ShapeKeyOf(j *ares.Job) (ShapeKey, bool) {
	p := j.Placement()
	lists := len(p.NodeSelector) + len(p.Tolerations) + len(p.Regions) + len(p.NodeAffinity) + len(p.NodeRequirements) + len(p.PreferredNodeAffinity) + len(p.Affinity) +
		len(p.AntiAffinity) + len(p.PreferredAntiAffinity) + len(j.After)
	return ShapeKey{
		tenant: j.Tenant, Queue: j.Queue, members: j.Members, least: j.MinMembers,
		gpus: j.GPUs, milli: j.GPUMilli, deviceMemory: j.GPUMemoryMB, cpus: j.MilliCPUs(), memory: j.MemoryMB,
		kind: j.AcceleratorType, model: j.GPUModel, mig: j.MIGProfile, numa: j.NUMAPolicy,
		strategy: p.Strategy, required: p.RequiredLevel, preferred: p.PreferredLevel, domain: p.PreferredDomain,
		bandwidth: p.NetworkBandwidth, latency: p.LatencySensitive, trusted: j.Trusted, image: j.Image != "", mixed: j.AllowMixedModels,
		ownNetwork: j.HasOwnNetwork(), attachable: j.IsAttachable(), containerRoot: j.IsContainerRoot(),
	}, lists == 0
}

// internShape returns the shared Shape of a job, and counts one more job with that Shape.
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
