package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"

	ares "github.com/ares-scheduler/ares"
)

// shape is what decides whether a job can be placed, apart from its run: who
// asks, for what, where, and after whom. Jobs of one shape share it: when one
// of them finds no place, neither do the others in the same decision.
type shape struct {
	// First what every turn asks for, side by side.
	request        *cluster.Request
	tenant         *tenant
	leaf           *queueLeaf
	members        int
	unschedulable  unschedulableMark // what is known of its finding no place
	after          []ares.JobID
	affinity       []ares.Near    // only beside such jobs
	antiAffinity   []ares.Near    // not beside such jobs
	noRoomRefusal  []ares.Blocker // the words for its finding none, once they were needed
	refusedInCycle int            // the last decision in which one was refused and others were still asked

	key   string
	index int // dense, so that a decision can note shapes in a bitset
	refs  int

	perMember  ares.Use // of one member
	minMembers int      // members it can start with
	wish       topologyWish
	labels     map[string]string
	keys       []shapeKey // the jobs it is the shape of, briefly

	delayingEpoch int   // the last sight in which a reservation kept a job of it off
	delayingEnd   int64 // that one's foreseen end

	windowEpoch int           // the last sight in which a window kept a job of it off for its length
	windowStay  time.Duration // and that
}

// topologyWish says where a job's members want to be.
type topologyWish struct {
	strategy  string
	required  ares.Level
	preferred ares.Level
	domain    string
	gbps      int
	latency   bool // the lowest
}

// use is what so many members hold.
func (sh *shape) use(members int) ares.Use {
	u := sh.perMember
	return ares.Use{
		GPUs: members * u.GPUs, GPUMilli: members * u.GPUMilli, GPUMemoryMB: members * u.GPUMemoryMB,
		CPUs: members * u.CPUs, MemoryMB: members * u.MemoryMB, Jobs: 1,
	}
}

// onOneNode says whether every member must be on the same node.
func (sh *shape) onOneNode() bool {
	return sh.members > 1 && sh.wish.required.Rank() >= ares.LevelNode.Rank()
}

func (j *jobTable) newShape(job *ares.Job) *shape {
	p := &job.Placement
	w := cluster.RequestOf(job)
	w.Id = j.cluster.NewRequestID()
	j.shapes.requests.ShareConstraints(w)
	sh := &shape{
		request: w, tenant: j.tenantOrEmpty(job.Tenant), leaf: j.queues.Leaf(job.Tenant, job.Queue), members: max(job.Members, 1),
		perMember: ares.Use{GPUs: w.Gpus, GPUMilli: w.Milli, GPUMemoryMB: job.GPUMemoryMB, CPUs: job.CPUs, MemoryMB: job.MemoryMB},
		wish: topologyWish{
			strategy: p.Strategy, required: ares.Level(p.RequiredLevel), preferred: ares.Level(p.PreferredLevel),
			domain: p.PreferredDomain, latency: p.LatencySensitive,
		},
		affinity: cluster.ParseAll(p.Affinity, ares.ParseNear), antiAffinity: cluster.ParseAll(p.AntiAffinity, ares.ParseNear),
	}
	sh.minMembers = sh.members
	if job.MinMembers > 0 {
		sh.minMembers = min(job.MinMembers, sh.members)
	}
	if sh.wish.required == ares.LevelNUMA {
		w.Numa, w.OneNUMA = cluster.NumaRequired, sh.members > 1
		w.Key += fmt.Sprint(" numa ", w.OneNUMA)
	}
	if p.NetworkBandwidth != "" {
		sh.wish.gbps, _ = ares.ParseBandwidth(p.NetworkBandwidth)
	}
	if len(sh.affinity)+len(sh.antiAffinity) > 0 {
		sh.labels = job.Labels
	}
	for _, id := range job.After {
		sh.after = append(sh.after, ares.JobID(id))
	}
	slices.Sort(sh.after)
	sh.after = slices.Compact(sh.after)
	sh.key = fmt.Sprintf("%q %q %s %d %d %d %q %v %v %v %v", job.Tenant, job.Queue, w.Key, sh.members, sh.minMembers, sh.perMember.GPUMemoryMB, sh.after, sh.wish,
		sh.affinity, sh.antiAffinity, sh.labels)
	return sh
}

// shapes holds the shapes of live jobs, one of each.
type shapes struct {
	byKey      map[string]*shape
	byShapeKey map[shapeKey]*shape
	requests   cluster.RequestTable
	free       []int // indexes no shape has
	count      int   // indexes given so far
}

func newShapes() shapes {
	return shapes{byKey: map[string]*shape{}, byShapeKey: map[shapeKey]*shape{}, requests: cluster.RequestTable{ByKey: map[string]*cluster.Request{}, Constraints: map[string]*cluster.Constraints{}}}
}

func (s *shapes) intern(sh *shape) *shape {
	if known := s.byKey[sh.key]; known != nil {
		known.refs++
		return known
	}
	if n := len(s.free); n > 0 {
		sh.index, s.free = s.free[n-1], s.free[:n-1]
	} else {
		sh.index = s.count
		s.count++
	}
	sh.refs = 1
	s.byKey[sh.key] = sh
	sh.request = s.requests.Intern(sh.request)
	return sh
}

// find is the shape of live jobs that is the same, with all that is known of
// it, or the one given when there is none.
func (s *shapes) find(sh *shape) *shape {
	if known := s.byKey[sh.key]; known != nil {
		return known
	}
	return sh
}

func (s *shapes) release(sh *shape) {
	if sh.refs--; sh.refs == 0 {
		delete(s.byKey, sh.key)
		for _, b := range sh.keys {
			delete(s.byShapeKey, b)
		}
		s.free = append(s.free, sh.index)
		s.requests.Release(sh.request)
	}
}

// minGPUMilli is the devices that the least asks for that the job can start with,
// in thousandths.
func (sh *shape) minGPUMilli() int64 {
	return int64(sh.minMembers) * int64(max(sh.request.Gpus*cluster.WholeMilli, sh.request.Milli))
}

// asksAlike says whether two shapes ask for the same number of members in the same
// places.
func (sh *shape) asksAlike(o *shape) bool {
	return sh.members == o.members && sh.minMembers == o.minMembers && sh.wish == o.wish
}

// unschedulableMark is what is known of a shape that found no place: as long as no node
// has gained room for one of its members, it will find none.
type unschedulableMark struct {
	known  bool
	layout int
	seen   int // of State.grown
	ban    uint64
}

// spreadsMembers says whether no two members may share a node.
func (sh *shape) spreadsMembers() bool {
	for _, a := range sh.antiAffinity {
		if a.Level == ares.LevelNode && a.Of(sh.labels) {
			return true
		}
	}
	return false
}
