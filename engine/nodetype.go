package engine

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares/engine/queue"
	"github.com/ares-scheduler/ares/engine/topology/links"

	"fmt"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// capacity is what a machine of the profile adds to what is shared.
func (p *nodeType) capacity() queue.Resources {
	u := queue.Resources{CPU: int64(p.cpus), Memory: int64(p.memory)}
	for i := range p.devices {
		u.GPU += p.devices[i].weight
	}
	return u
}

// MaxDevices is how many devices of one node are ever given. Those beyond, by
// index, are left alone.
const MaxDevices = 64

// maxGroups is how many kinds of devices of one machine are told apart when
// nodes are compared. A machine with more has the rest in the last group; what
// fits is always decided device by device.
const maxGroups = 4

// nodeType is what machines of one build have in common: their devices, how
// these are linked, and their size. Nodes of one profile with the same devices
// free are as good as each other.
type nodeType struct {
	id      int
	key     string // what it was told apart by
	devices []deviceSpec
	groups  [maxGroups]uint64 // devices that are alike
	numa    []ares.NUMANode
	near    []uint64 // devices of each of numa
	links   *links.Matrix
	cpus    int
	memory  int // MB, rounded

}

// deviceSpec is one device of a profile.
type deviceSpec struct {
	kind       string
	model      string // lower case
	mig        string // of a slice
	memory     int    // MB
	numa       int
	group      int
	modelIndex int   // its model, as the order numbers it for quotas
	weight     int64 // of its model in shares, in thousandths
}

// nodeTypes holds every profile that was seen.
type nodeTypes struct {
	byKey map[string]*nodeType
	all   []*nodeType
}

// nodeTypeOf finds the profile of a record, whose devices are in the order given.
func (c *Cluster) nodeTypeOf(r *ares.Node, order []int) *nodeType {
	p := &c.nodeTypes
	var key strings.Builder
	fmt.Fprintf(&key, "%d %d %v", r.CPUs, roundMemory(r.MemoryMB), r.NUMA)
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
	made := newNodeType(r, order)
	made.id, made.key = len(p.all), key.String()
	for i := range made.devices {
		d := &made.devices[i]
		d.modelIndex, d.weight = c.numberModel(d.model), c.cfg.WeightOf(d.model)
	}
	p.all = append(p.all, made)
	p.byKey[key.String()] = made
	return made
}

// numberModel is the number of a model in the queues.
func (c *Cluster) numberModel(model string) int {
	i := c.modelIndex(model)
	for len(c.modelNames) <= i {
		c.modelNames = append(c.modelNames, "")
	}
	c.modelNames[i] = model
	return i
}

// matchingModels are the numbers of the models the want likes, of those in the fleet.
func (c *Cluster) matchingModels(w *request) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, m := range c.models {
			if w.acceptsModel(c.modelNames[m]) && !yield(m) {
				return
			}
		}
	}
}

// roundMemory rounds a memory size, because machines of one build differ in it by
// a little.
func roundMemory(mb int) int {
	if shift := bits.Len(uint(mb)) - 6; shift > 0 {
		return mb >> shift << shift
	}
	return mb
}

func newNodeType(r *ares.Node, order []int) *nodeType {
	p := &nodeType{cpus: r.CPUs, memory: roundMemory(r.MemoryMB), numa: r.NUMA, near: make([]uint64, len(r.NUMA))}
	matrix, numa := make([][]string, len(order)), make([]int, len(order))
	var alike []deviceSpec
	for pos, i := range order {
		d := &r.Devices[i]
		b := deviceSpec{kind: d.Type, model: strings.ToLower(d.Model), mig: d.Profile, memory: d.MemoryMB}
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
	p.links = links.NewMatrix(matrix, numa)
	return p
}

// matchingDevices is the devices that are what the want asks for, whoever holds them.
func (p *nodeType) matchingDevices(w *request) uint64 {
	if !w.needsDevices() {
		return 0
	}
	var mask uint64
	for i := range p.devices {
		d := &p.devices[i]
		if d.kind == w.kind && d.mig == w.mig && d.memory >= w.deviceMemory && w.acceptsModel(d.model) && w.ban&modelBit(d.modelIndex) == 0 {
			mask |= 1 << i
		}
	}
	return mask
}

// hasModel says whether a device of the profile is of one of the models.
func (p *nodeType) hasModel(models string) bool {
	if models == "" {
		return true
	}
	for m := range strings.SplitSeq(strings.ToLower(models), "|") {
		if m != "" && slices.ContainsFunc(p.devices, func(d deviceSpec) bool { return strings.Contains(d.model, m) }) {
			return true
		}
	}
	return false
}
