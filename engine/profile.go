package engine

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology/links"
)

// MaxDevices is how many devices of one node are ever given. Those beyond, by
// index, are left alone.
const MaxDevices = 64

// maxGroups is how many kinds of devices of one machine are told apart when
// nodes are compared. A machine with more has the rest in the last group; what
// fits is always decided device by device.
const maxGroups = 4

// profile is what machines of one build have in common: their devices, how
// these are linked, and their size. Nodes of one profile with the same devices
// free are as good as each other.
type profile struct {
	id      int
	key     string // what it was told apart by
	devices []build
	groups  [maxGroups]uint64 // devices that are alike
	numa    []ares.NUMANode
	near    []uint64 // devices of each of numa
	links   *links.Matrix
	cpus    int
	memory  int // MB, rounded

	prospect  int // the one that appetites are by
	appetites []appetite

	expected expected
}

// build is one device of a profile.
type build struct {
	kind   string
	model  string // lower case
	mig    string // of a slice
	memory int    // MB
	numa   int
	group  int
	order  int   // its model, as the order numbers it for quotas
	weight int64 // of its model in shares, in thousandths
}

// profiles holds every profile that was seen.
type profiles struct {
	byKey map[string]*profile
	all   []*profile
}

// profileOf finds the profile of a record, whose devices are in the order given.
func (s *State) profileOf(r *ares.Node, order []int) *profile {
	p := &s.profiles
	var key strings.Builder
	fmt.Fprintf(&key, "%d %d %v", r.CPUs, roughly(r.MemoryMB), r.NUMA)
	for _, i := range order {
		d := &r.Devices[i]
		fmt.Fprintf(&key, " %q %q %q %d %d", d.Type, d.Model, d.Profile, d.MemoryMB, d.NUMA)
		if i < len(r.Links) {
			for _, k := range order {
				if k < len(r.Links[i]) {
					key.WriteString(" " + r.Links[i][k])
				}
			}
		}
	}
	if known := p.byKey[key.String()]; known != nil {
		return known
	}
	made := newProfile(r, order)
	made.id, made.key = len(p.all), key.String()
	for i := range made.devices {
		d := &made.devices[i]
		d.order, d.weight = s.order.Model(d.model), s.cfg.weightOf(d.model)
	}
	p.all = append(p.all, made)
	p.byKey[key.String()] = made
	return made
}

// suiting are the numbers of the models the want likes, of those in the fleet.
func (s *State) suiting(w *want) iter.Seq[int] {
	return func(yield func(int) bool) {
		names := s.order.Models()
		for _, m := range s.models {
			if w.likes(names[m]) && !yield(m) {
				return
			}
		}
	}
}

// roughly rounds a memory size, because machines of one build differ in it by
// a little.
func roughly(mb int) int {
	if shift := bits.Len(uint(mb)) - 6; shift > 0 {
		return mb >> shift << shift
	}
	return mb
}

func newProfile(r *ares.Node, order []int) *profile {
	p := &profile{cpus: r.CPUs, memory: roughly(r.MemoryMB), numa: r.NUMA, near: make([]uint64, len(r.NUMA))}
	matrix, numa := make([][]string, len(order)), make([]int, len(order))
	var alike []build
	for pos, i := range order {
		d := &r.Devices[i]
		b := build{kind: d.Type, model: strings.ToLower(d.Model), mig: d.Profile, memory: d.MemoryMB}
		if b.kind == "" {
			b.kind = ares.DefaultAccelerator
		}
		group := slices.Index(alike, b)
		if group < 0 {
			group = len(alike)
			alike = append(alike, b)
		}
		b.group, b.numa = min(group, maxGroups-1), d.NUMA
		p.devices = append(p.devices, b)
		p.groups[b.group] |= 1 << pos
		numa[pos] = d.NUMA
		for k, n := range r.NUMA {
			if n.ID == d.NUMA {
				p.near[k] |= 1 << pos
			}
		}
		for _, k := range order {
			link := ""
			if i < len(r.Links) && k < len(r.Links[i]) {
				link = r.Links[i][k]
			}
			matrix[pos] = append(matrix[pos], link)
		}
	}
	p.links = links.Compile(matrix, numa)
	return p
}

// fitting is the devices that are what the want asks for, whoever holds them.
func (p *profile) fitting(w *want) uint64 {
	if !w.devices() {
		return 0
	}
	var mask uint64
	for i := range p.devices {
		d := &p.devices[i]
		if d.kind == w.kind && d.mig == w.mig && d.memory >= w.deviceMemory && w.likes(d.model) && w.ban&modelBit(d.order) == 0 {
			mask |= 1 << i
		}
	}
	return mask
}
