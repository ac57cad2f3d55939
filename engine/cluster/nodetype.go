package cluster

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
func (p *NodeType) capacity() queue.Resources {
	u := queue.Resources{CPU: int64(p.CPUs), Memory: int64(p.Memory)}
	for i := range p.Devices {
		u.GPU += p.Devices[i].Weight
	}
	return u
}

// MaxDevices is how many devices of one node are ever given. Those beyond, by
// index, are left alone.
const MaxDevices = 64

// MaxGroups is how many kinds of devices of one machine are told apart when
// nodes are compared. A machine with more has the rest in the last group; what
// fits is always decided device by device.
const MaxGroups = 4

// NodeType is what machines of one build have in common: their devices, how
// these are linked, and their size. Nodes of one profile with the same devices
// free are as good as each other.
type NodeType struct {
	ID      int
	key     string // what it was told apart by
	Devices []DeviceSpec
	Groups  [MaxGroups]uint64 // devices that are alike
	numa    []ares.NUMANode
	Near    []uint64 // devices of each of numa
	Links   *links.Matrix
	CPUs    int
	Memory  int // MB, rounded

}

// DeviceSpec is one device of a profile.
type DeviceSpec struct {
	kind       string
	model      string // lower case
	mig        string // of a slice
	memory     int    // MB
	numa       int
	group      int
	ModelIndex int   // its model, as the order numbers it for quotas
	Weight     int64 // of its model in shares, in thousandths
}

// isKind says whether the device is of the kind that the request asks for: the
// accelerator, or a slice of one with the profile.
func (d *DeviceSpec) isKind(w *Request) bool { return d.kind == w.Kind && d.mig == w.MIG }

// nodeTypes holds every profile that was seen.
type nodeTypes struct {
	byKey map[string]*NodeType
	All   []*NodeType
}

// nodeTypeOf finds the profile of a record, whose devices are in the order given.
func (c *Cluster) nodeTypeOf(r *ares.Node, order []int) *NodeType {
	p := &c.NodeTypes
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
	made.ID, made.key = len(p.All), key.String()
	for i := range made.Devices {
		d := &made.Devices[i]
		d.ModelIndex, d.Weight = c.numberModel(d.model), c.cfg.WeightOf(d.model)
	}
	p.All = append(p.All, made)
	p.byKey[key.String()] = made
	return made
}

// numberModel is the number of a model in the queues.
func (c *Cluster) numberModel(model string) int {
	i := c.models.index(model)
	for len(c.models.names) <= i {
		c.models.names = append(c.models.names, "")
	}
	c.models.names[i] = model
	return i
}

// MatchingModels are the numbers of the models the want likes, of those in the fleet.
func (c *Cluster) MatchingModels(w *Request) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, m := range c.ModelsPresent {
			if w.acceptsModel(c.models.names[m]) && !yield(m) {
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

func newNodeType(r *ares.Node, order []int) *NodeType {
	p := &NodeType{CPUs: r.CPUs, Memory: roundMemory(r.MemoryMB), numa: r.NUMA, Near: make([]uint64, len(r.NUMA))}
	matrix, numa := make([][]string, len(order)), make([]int, len(order))
	var alike []DeviceSpec
	for pos, i := range order {
		d := &r.Devices[i]
		b := DeviceSpec{kind: d.Type, model: strings.ToLower(d.Model), mig: d.Profile, memory: d.MemoryMB}
		if b.kind == "" {
			b.kind = ares.DefaultAccelerator
		}
		group := slices.Index(alike, b)
		if group < 0 {
			group = len(alike)
			alike = append(alike, b)
		}
		b.group, b.numa = min(group, MaxGroups-1), d.NUMA
		p.Devices = append(p.Devices, b)
		p.Groups[b.group] |= 1 << pos
		numa[pos] = d.NUMA
		for k, n := range r.NUMA {
			if n.ID == d.NUMA {
				p.Near[k] |= 1 << pos
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
	p.Links = links.NewMatrix(matrix, numa)
	return p
}

// matchingDevices is the devices that are what the want asks for, whoever holds them.
func (p *NodeType) matchingDevices(w *Request) uint64 {
	if !w.NeedsDevices() {
		return 0
	}
	var mask uint64
	for i := range p.Devices {
		d := &p.Devices[i]
		passes := true
		for k := range Filters {
			f := &Filters[k]
			passes = passes && (f.PassesDevice == nil || f.PassesDevice(d, w))
		}
		if passes {
			mask |= 1 << i
		}
	}
	return mask
}

// HasModel says whether a device of the profile is of one of the models.
func (p *NodeType) HasModel(models string) bool {
	if models == "" {
		return true
	}
	for m := range strings.SplitSeq(strings.ToLower(models), "|") {
		if m != "" && slices.ContainsFunc(p.Devices, func(d DeviceSpec) bool { return strings.Contains(d.model, m) }) {
			return true
		}
	}
	return false
}
