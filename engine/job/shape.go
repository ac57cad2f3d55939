package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"

	ares "github.com/ares-scheduler/ares"
)

// Shape is what decides whether a job can be placed, apart from its run: who
// asks, for what, where, and after whom. Jobs of one shape share it: when one
// of them finds no place, neither do the others in the same decision.
type Shape struct {
	// First what every turn asks for, side by side.
	Request        *cluster.Request
	Tenant         *Tenant
	Leaf           *QueueLeaf
	Members        int
	Unschedulable  UnschedulableMark // what is known of its finding no place
	After          []ares.JobID
	Affinity       []ares.Near    // only beside such jobs
	AntiAffinity   []ares.Near    // not beside such jobs
	NoRoomRefusal  []ares.Blocker // the words for its finding none, once they were needed
	RefusedInCycle int            // the last decision in which one was refused and others were still asked

	Key   string
	index int // dense, so that a decision can note shapes in a bitset
	Refs  int

	perMember  ares.Use // of one member
	MinMembers int      // members it can start with
	Wish       topologyRequest
	Labels     map[string]string
	keys       []ShapeKey // the jobs it is the shape of, briefly

	DelayingEpoch int   // the last sight in which a reservation kept a job of it off
	DelayingEnd   int64 // that one's foreseen end

	WindowEpoch int           // the last sight in which a window kept a job of it off for its length
	WindowStay  time.Duration // and that
}

// topologyRequest says where a job's members want to be.
type topologyRequest struct {
	Strategy  string
	Required  ares.Level
	Preferred ares.Level
	Domain    string
	Gbps      int
	Latency   bool // the lowest
}

// Use is what so many members hold.
func (sh *Shape) Use(members int) ares.Use {
	u := sh.perMember
	return ares.Use{
		GPUs: members * u.GPUs, GPUMilli: members * u.GPUMilli, GPUMemoryMB: members * u.GPUMemoryMB,
		CPUs: members * u.CPUs, MemoryMB: members * u.MemoryMB, Jobs: 1,
	}
}

// onOneNode says whether every member must be on the same node.
func (sh *Shape) onOneNode() bool {
	return sh.Members > 1 && sh.Wish.Required.Rank() >= ares.LevelNode.Rank()
}

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

// shapes holds the shapes of live jobs, one of each.
type shapes struct {
	ByKey      map[string]*Shape
	byShapeKey map[ShapeKey]*Shape
	Requests   cluster.RequestTable
	Free       []int // indexes no shape has
	Count      int   // indexes given so far
}

func newShapes() shapes {
	return shapes{ByKey: map[string]*Shape{}, byShapeKey: map[ShapeKey]*Shape{}, Requests: cluster.RequestTable{ByKey: map[string]*cluster.Request{}, Constraints: map[string]*cluster.Constraints{}}}
}

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

// Find is the shape of live jobs that is the same, with all that is known of
// it, or the one given when there is none.
func (s *shapes) Find(sh *Shape) *Shape {
	if known := s.ByKey[sh.Key]; known != nil {
		return known
	}
	return sh
}

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

// MinGPUMilli is the devices that the least asks for that the job can start with,
// in thousandths.
func (sh *Shape) MinGPUMilli() int64 {
	return int64(sh.MinMembers) * int64(max(sh.Request.GPUs*cluster.WholeMilli, sh.Request.Milli))
}

// AsksAlike says whether two shapes ask for the same number of members in the same
// places.
func (sh *Shape) AsksAlike(o *Shape) bool {
	return sh.Members == o.Members && sh.MinMembers == o.MinMembers && sh.Wish == o.Wish
}

// UnschedulableMark is what is known of a shape that found no place: as long as no node
// has gained room for one of its members, it will find none.
type UnschedulableMark struct {
	Known  bool
	Layout int
	Seen   int // of State.grown
	Ban    uint64
}

// SpreadsMembers says whether no two members may share a node.
func (sh *Shape) SpreadsMembers() bool {
	for _, a := range sh.AntiAffinity {
		if a.Level == ares.LevelNode && a.Of(sh.Labels) {
			return true
		}
	}
	return false
}

// ShapeKey is what most jobs are told apart by: everything that makes their shape,
// in a form that is compared without being written down first. Jobs with lists
// of wishes have none.
type ShapeKey struct {
	tenant, Queue                           string
	members, least                          int
	gpus, milli, deviceMemory, cpus, memory int
	kind, model, mig, numa                  string
	strategy, required, preferred, domain   string
	bandwidth                               string
	latency                                 bool
}

func ShapeKeyOf(j *ares.Job) (ShapeKey, bool) {
	p := &j.Placement
	lists := len(p.NodeSelector) + len(p.Tolerations) + len(p.Regions) + len(p.NodeAffinity) + len(p.PreferredNodeAffinity) + len(p.Affinity) +
		len(p.AntiAffinity) + len(j.After)
	return ShapeKey{
		tenant: j.Tenant, Queue: j.Queue, members: j.Members, least: j.MinMembers,
		gpus: j.GPUs, milli: j.GPUMilli, deviceMemory: j.GPUMemoryMB, cpus: j.CPUs, memory: j.MemoryMB,
		kind: j.AcceleratorType, model: j.GPUModel, mig: j.MIGProfile, numa: j.NUMAPolicy,
		strategy: p.Strategy, required: p.RequiredLevel, preferred: p.PreferredLevel, domain: p.PreferredDomain,
		bandwidth: p.NetworkBandwidth, latency: p.LatencySensitive,
	}, lists == 0
}

// internShape is the one shape of a job's kind, with the job counted.
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
