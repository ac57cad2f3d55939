package cluster

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
	"github.com/ares-scheduler/ares/engine/topology/links"
)

// The method `capacity` returns the amount that a node of this type adds to the cluster's capacity. The
// GPU capacity is the sum of the weights of the node's devices.
func (p *NodeType) capacity() queue.Resources {
	u := queue.Resources{CPU: int64(p.MilliCPUs / 1000), Memory: int64(p.Memory)}
	for i := range p.Devices {
		u.GPU += p.Devices[i].Weight
	}
	return u
}

// MaxDevices is the maximum number of devices that can be allocated on one node. Ares ignores devices beyond the
// first MaxDevices of a node.
const MaxDevices = 64

// MaxGroups is the maximum number of groups of equal devices in a node type. If a node has more than MaxGroups
// kinds of devices, the remaining kinds are all in the last group. Groups are used only to compare nodes, whereas
// filters test each device.
const MaxGroups = 4

// NodeType holds the common properties of nodes with the same hardware: their devices, the links between the
// devices, and the size of the node. Nodes of the same type share one NodeType, and results that depend only on the
// type are computed once per type.
type NodeType struct {
	ID        int    // index in nodeTypes.All
	key       string // everything that distinguishes types, as text
	Devices   []DeviceSpec
	Groups    [MaxGroups]uint64 // masks of devices that are alike
	numa      []ares.NUMANode
	Near      []uint64 // mask of the devices of each NUMA node in numa
	Links     *links.Matrix
	MilliCPUs int // thousandths of cores
	Memory    int // MB, rounded
}

// DeviceSpec holds the traits of one device of a node type.
type DeviceSpec struct {
	kind       string
	model      string // lower case
	mig        string // profile of a MIG slice, empty for a whole device
	memory     int    // MB
	numa       int
	group      int
	ModelIndex int   // index of its model in the queue tree, for quotas
	Weight     int64 // weight of its model in fair shares, in thousandths
}

// isKind reports whether the device has the requested accelerator type and MIG profile.
func (d *DeviceSpec) isKind(w *Request) bool { return d.kind == w.accelerator && d.mig == w.MIG }

// nodeTypes holds every node type that has occurred so far.
type nodeTypes struct {
	byKey map[string]*NodeType
	All   []*NodeType
}

// nodeTypeOf returns the node type for a node record and an order of its devices, and adds the type if it is new.
func (c *Cluster) nodeTypeOf(r *ares.Node, order []int) *NodeType {
	p := &c.NodeTypes
	var key strings.Builder
	fmt.Fprintf(&key, "%s %d %v", ares.FormatCPUs(r.MilliCPUs()), roundMemory(r.MemoryMB), r.NUMA)
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

// numberModel returns the index of a device model and stores the model's name at that index.
func (c *Cluster) numberModel(model string) int {
	i := c.models.index(model)
	for len(c.models.names) <= i {
		c.models.names = append(c.models.names, "")
	}
	c.models.names[i] = model
	return i
}

// MatchingModels returns the indexes of those device models in the cluster that the request accepts.
func (c *Cluster) MatchingModels(w *Request) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, m := range c.ModelsPresent {
			if w.acceptsModel(c.models.names[m]) && !yield(m) {
				return
			}
		}
	}
}

// roundMemory rounds a memory size down to 6 significant bits, because the memory size differs slightly between nodes
// with the same hardware.
func roundMemory(mb int) int {
	if shift := bits.Len(uint(mb)) - 6; shift > 0 {
		return mb >> shift << shift
	}
	return mb
}

func newNodeType(r *ares.Node, order []int) *NodeType {
	p := &NodeType{MilliCPUs: r.MilliCPUs(), Memory: roundMemory(r.MemoryMB), numa: r.NUMA, Near: make([]uint64, len(r.NUMA))}
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

// matchingDevices returns the mask of the devices that pass all device filters, whether they are free or not.
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
			passes = passes && (f.passesDevice == nil || f.passesDevice(d, w))
		}
		if passes {
			mask |= 1 << i
		}
	}
	return mask
}

// HasModel reports whether the model name of any device contains one of the given words. The argument `models` is
// a list of words separated by |. HasModel returns true if the list is empty.
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
