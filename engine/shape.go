package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// shape is what decides whether a job can be placed, apart from its run: who
// asks, for what, where, and after whom. Jobs of one shape share it: when one
// of them finds no place, neither do the others in the same decision.
type shape struct {
	key   string
	index int // dense, so that a decision can note shapes in a bitset
	refs  int

	filter       *filter
	tenant       *tenant
	asks         ares.Use // the whole job
	members      int
	least        int // the fewest members an attempt may have
	gpus         int // whole devices per member
	milli        int // or a part of one device
	deviceMemory int // MB each device must have
	cpus         int // per member
	memory       int // MB per member
	memberMemory int // GPU memory a member counts against the tenant's limit
	kind         string
	model        string // lower case
	selector     []label
	regions      []string
	after        []ares.JobID
	oneNode      bool     // every member on the same node
	unsupported  []string // what this version cannot honour, in words
}

type label struct{ key, value string }

// want is the least a node must have left to hold one member.
func (sh *shape) want() height {
	h := height{whole: sh.gpus, milli: sh.milli, cpus: sh.cpus, memory: sh.memory}
	if sh.oneNode {
		h.whole, h.cpus, h.memory = h.whole*sh.least, h.cpus*sh.least, h.memory*sh.least
	}
	return h
}

// each says in words what one member asks for.
func (sh *shape) each() string {
	var parts []string
	add := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	kind := sh.device()
	add(sh.gpus, kind, kind+"s")
	if sh.milli > 0 {
		parts = append(parts, fmt.Sprintf("%d/1000 of a %s", sh.milli, kind))
	}
	add(sh.cpus, "CPU core", "CPU cores")
	add(sh.memory, "MB", "MB")
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// device is the word for one device of the kind asked for.
func (sh *shape) device() string {
	if sh.kind == "custom" {
		return "custom device"
	}
	return strings.ToUpper(sh.kind)
}

// tooFew says of a node that it has fewer devices than one member needs.
func (sh *shape) tooFew() string {
	if sh.gpus <= 1 {
		return "no " + sh.device()
	}
	return fmt.Sprintf("fewer than %d %ss", sh.gpus, sh.device())
}

func shapeOf(j *ares.Job, t *tenant) *shape {
	sh := &shape{
		tenant: t, asks: j.Asks(), members: max(j.Members, 1), gpus: j.GPUs, milli: j.GPUMilli,
		deviceMemory: (j.GPUMemoryMB + max(j.GPUs, 1) - 1) / max(j.GPUs, 1),
		cpus:         j.CPUs, memory: j.MemoryMB, memberMemory: j.GPUMemoryMB,
		kind: cmp.Or(j.AcceleratorType, ares.DefaultAccelerator), model: strings.ToLower(j.GPUModel),
		least: least(&j.Spec), regions: slices.Clone(j.Placement.Regions), oneNode: j.Placement.RequiredLevel == "node",
		unsupported: unsupported(&j.Spec),
	}
	for k, v := range j.Placement.NodeSelector { // order-free: sorted right below
		sh.selector = append(sh.selector, label{k, v})
	}
	slices.SortFunc(sh.selector, func(a, b label) int { return cmp.Compare(a.key, b.key) })
	slices.Sort(sh.regions)
	for _, id := range j.After {
		sh.after = append(sh.after, ares.JobID(id))
	}
	slices.Sort(sh.after)
	sh.after = slices.Compact(sh.after)
	sh.key = fmt.Sprintf("%q %d %d %d %d %d %d %d %q %q %q %q %q %t %q", t.id, sh.members, sh.least, sh.gpus, sh.milli, sh.memberMemory,
		sh.cpus, sh.memory, sh.kind, sh.model, sh.selector, sh.regions, sh.after, sh.oneNode, sh.unsupported)
	sh.filter = &filter{key: filterKey(sh)}
	return sh
}

// least is the fewest members an attempt may have: all, if nothing is said.
func least(s *ares.Spec) int {
	members := max(s.Members, 1)
	return min(cmp.Or(s.MinMembers, members), members)
}

// unsupported lists the requirements this version cannot honour. A wish that
// may go unmet (preferred_level, preferred_domain, numa_policy preferred) is
// not one.
func unsupported(s *ares.Spec) []string {
	var out []string
	not := func(missing bool, format string, args ...any) {
		if missing {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	p := &s.Placement
	devices := s.GPUs > 0 || s.GPUMilli > 0
	not(s.MIGProfile != "", "this version cannot give mig_profile %s: only whole devices and shares (gpu_milli)", s.MIGProfile)
	not(p.RequiredLevel != "" && p.RequiredLevel != "node", "this version cannot keep placement.required_level %s: only node", p.RequiredLevel)
	not(p.Strategy == "distributed" && s.Members > 1, "this version cannot keep placement.strategy distributed: it fills nodes one after the other")
	not(p.NetworkBandwidth != "", "this version cannot keep placement.network_bandwidth")
	not(p.LatencySensitive, "this version cannot keep placement.latency_sensitive")
	not(s.NUMAPolicy == "required", "this version cannot keep numa_policy required: use preferred")
	not(s.GPUs > 0 && s.GPUMilli > 0, "gpu_count and gpu_milli cannot be given together")
	not(s.GPUMilli > wholeMilli, "gpu_milli %d is more than one device", s.GPUMilli)
	not(!devices && s.GPUMemoryMB > 0, "gpu_memory_mb asks for no device: give gpu_count or gpu_milli too")
	not(!devices && s.GPUModel != "", "gpu_model asks for no device: give gpu_count or gpu_milli too")
	return out
}

// shapes holds the shapes of live jobs, one of each.
type shapes struct {
	byKey map[string]*shape
	sieve map[string]*filter
	free  []int // indexes no shape has
	count int   // indexes given so far
}

func newShapes() shapes { return shapes{byKey: map[string]*shape{}, sieve: map[string]*filter{}} }

func (s *shapes) intern(j *ares.Job, t *tenant) *shape {
	sh := shapeOf(j, t)
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
	if known := s.sieve[sh.filter.key]; known != nil {
		sh.filter = known
	} else {
		s.sieve[sh.filter.key] = sh.filter
	}
	sh.filter.refs++
	return sh
}

func (s *shapes) release(sh *shape) {
	if sh.refs--; sh.refs == 0 {
		delete(s.byKey, sh.key)
		s.free = append(s.free, sh.index)
		if sh.filter.refs--; sh.filter.refs == 0 {
			delete(s.sieve, sh.filter.key)
		}
	}
}
