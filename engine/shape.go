package engine

import (
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// shape is what decides whether a job can be placed, apart from its run: who
// asks, for what, where, and after whom. Jobs of one shape share it: when one
// of them finds no place, neither do the others in the same decision.
type shape struct {
	// First what every turn asks for, side by side.
	want    *want
	tenant  *tenant
	leaf    *leaf
	members int
	lost    refused // what is known of its finding no place
	after   []ares.JobID
	near    []ares.Near    // only beside such jobs
	apart   []ares.Near    // not beside such jobs
	noRoom  []ares.Blocker // the words for its finding none, once they were needed
	told    int            // the last decision in which one was refused and others were still asked

	key   string
	index int // dense, so that a decision can note shapes in a bitset
	refs  int

	one    ares.Use // of one member
	least  int      // members it can start with
	wish   wish
	labels map[string]string
	briefs []brief // the jobs it is the shape of, briefly

	kept     int   // the last sight in which a reservation kept a job of it off
	keptFrom int64 // that one's foreseen end

	shut    int           // the last sight in which a window kept a job of it off for its length
	shutFor time.Duration // and that
}

// wish says where a job's members want to be.
type wish struct {
	strategy  string
	required  ares.Level
	preferred ares.Level
	domain    string
	gbps      int
	latency   bool // the lowest
}

// asks is what so many members hold.
func (sh *shape) asks(members int) ares.Use {
	u := sh.one
	return ares.Use{
		GPUs: members * u.GPUs, GPUMilli: members * u.GPUMilli, GPUMemoryMB: members * u.GPUMemoryMB,
		CPUs: members * u.CPUs, MemoryMB: members * u.MemoryMB, Jobs: 1,
	}
}

// oneNode says whether every member must be on the same node.
func (sh *shape) oneNode() bool {
	return sh.members > 1 && sh.wish.required.Rank() >= ares.LevelNode.Rank()
}

func (s *State) shapeOf(j *ares.Job) *shape {
	p := &j.Placement
	w := wantOf(j)
	w.id = s.newWant()
	s.shapes.wants.share(w)
	sh := &shape{
		want: w, tenant: s.tenantOr(j.Tenant), leaf: s.order.Leaf(j.Tenant, j.Queue), members: max(j.Members, 1),
		one: ares.Use{GPUs: w.gpus, GPUMilli: w.milli, GPUMemoryMB: j.GPUMemoryMB, CPUs: j.CPUs, MemoryMB: j.MemoryMB},
		wish: wish{
			strategy: p.Strategy, required: ares.Level(p.RequiredLevel), preferred: ares.Level(p.PreferredLevel),
			domain: p.PreferredDomain, latency: p.LatencySensitive,
		},
		near: parsed(p.Affinity, ares.ParseNear), apart: parsed(p.AntiAffinity, ares.ParseNear),
	}
	sh.least = sh.members
	if j.MinMembers > 0 {
		sh.least = min(j.MinMembers, sh.members)
	}
	if sh.wish.required == ares.LevelNUMA {
		w.numa, w.together = numaRequired, sh.members > 1
		w.key += fmt.Sprint(" numa ", w.together)
	}
	if p.NetworkBandwidth != "" {
		sh.wish.gbps, _ = ares.ParseBandwidth(p.NetworkBandwidth)
	}
	if len(sh.near)+len(sh.apart) > 0 {
		sh.labels = j.Labels
	}
	for _, id := range j.After {
		sh.after = append(sh.after, ares.JobID(id))
	}
	slices.Sort(sh.after)
	sh.after = slices.Compact(sh.after)
	sh.key = fmt.Sprintf("%q %q %s %d %d %d %q %v %v %v %v", j.Tenant, j.Queue, w.key, sh.members, sh.least, sh.one.GPUMemoryMB, sh.after, sh.wish,
		sh.near, sh.apart, sh.labels)
	return sh
}

// shapes holds the shapes of live jobs, one of each.
type shapes struct {
	byKey   map[string]*shape
	byBrief map[brief]*shape
	wants   wants
	free    []int // indexes no shape has
	count   int   // indexes given so far
}

func newShapes() shapes {
	return shapes{byKey: map[string]*shape{}, byBrief: map[brief]*shape{}, wants: wants{byKey: map[string]*want{}, tastes: map[string]*taste{}}}
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
	sh.want = s.wants.intern(sh.want)
	return sh
}

// like is the shape of live jobs that is the same, with all that is known of
// it, or the one given when there is none.
func (s *shapes) like(sh *shape) *shape {
	if known := s.byKey[sh.key]; known != nil {
		return known
	}
	return sh
}

func (s *shapes) release(sh *shape) {
	if sh.refs--; sh.refs == 0 {
		delete(s.byKey, sh.key)
		for _, b := range sh.briefs {
			delete(s.byBrief, b)
		}
		s.free = append(s.free, sh.index)
		s.wants.release(sh.want)
	}
}
