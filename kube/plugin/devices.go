package plugin

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/watch"
)

// LabelGPUs is the label of a DeviceClass whose devices are GPUs, with the value "true".
const LabelGPUs = "ares.dev/gpus"

// gpuClasses are the DeviceClasses of GPUs that need no label. The vendors' drivers install them.
var gpuClasses = map[string]bool{"gpu.nvidia.com": true, "gpu.amd.com": true, "gpu.intel.com": true}

// A deviceTable knows the GPUs of all ResourceSlices, and which of them satisfy which requests. A device is a GPU if it
// satisfies the selectors of a class of GPUs.
//
// The engine compares devices by model, so the table divides the devices into kinds: devices of one kind have the same
// product and memory, and each request accepts all of them or none. The name of a kind is the engine's model. When a new
// request accepts only a part of a kind, the kind is split.
type deviceTable struct {
	cache *cel.Cache

	mu         sync.Mutex
	classes    map[string]*resourceapi.DeviceClass
	nodes      map[string]*nodeDevices
	places     map[string]place // by the ID of a device
	selections map[string]*selection
	order      []*selection // by number
	kinds      map[string]*kind
	named      int // kinds named so far
}

// nodeDevices has the GPUs of one node by index. A GPU keeps its index as long as this process runs, also while its slice
// is away.
type nodeDevices struct {
	name   string
	slices map[string]*resourceapi.ResourceSlice // by name
	list   []device
}

// place is where a device is.
type place struct {
	node  string
	index int
}

type device struct {
	watch.PoolDevice
	present bool
	kind    *kind
}

func newDeviceTable() *deviceTable {
	t := &deviceTable{cache: cel.NewCache(256, cel.Features{EnableConsumableCapacity: true})}
	t.classes, t.nodes, t.places = map[string]*resourceapi.DeviceClass{}, map[string]*nodeDevices{}, map[string]place{}
	t.reset()
	return t
}

func (t *deviceTable) reset() {
	t.selections, t.order, t.kinds = map[string]*selection{}, nil, map[string]*kind{}
}

func isGPUClass(c *resourceapi.DeviceClass) bool {
	return gpuClasses[c.Name] || c.Labels[LabelGPUs] == "true"
}

// setClass adds or changes a class, or removes it if the class is nil. It returns the nodes whose devices changed.
func (t *deviceTable) setClass(name string, c *resourceapi.DeviceClass) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := t.classes[name]; before != nil && c != nil && isGPUClass(before) == isGPUClass(c) && reflect.DeepEqual(before.Spec, c.Spec) {
		return nil
	}
	if c == nil {
		delete(t.classes, name)
	} else {
		t.classes[name] = c
	}
	t.reset() // a class is changed by hand, if ever
	for _, n := range t.nodes {
		t.refresh(n)
	}
	return slices.Collect(maps.Keys(t.nodes))
}

func selectorsOf(list []resourceapi.DeviceSelector) []string {
	var out []string
	for i := range list {
		if list[i].CEL != nil {
			out = append(out, list[i].CEL.Expression)
		}
	}
	return out
}

// setSlice adds or changes a slice of a node, or removes it. It reports whether the node has GPUs, and whether there are
// devices of a new kind.
func (t *deviceTable) setSlice(s *resourceapi.ResourceSlice, present bool) (hasGPUs, newKinds bool) {
	if s.Spec.NodeName == nil {
		return false, false // devices that several nodes can reach are left to the scheduler's own filters
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[*s.Spec.NodeName]
	if n == nil {
		n = &nodeDevices{name: *s.Spec.NodeName, slices: map[string]*resourceapi.ResourceSlice{}}
		t.nodes[*s.Spec.NodeName] = n
	}
	if present {
		n.slices[s.Name] = s
	} else {
		delete(n.slices, s.Name)
	}
	named := t.named
	t.refresh(n)
	return len(n.list) > 0, t.named > named
}

// refresh reads the slices of a node again.
func (t *deviceTable) refresh(n *nodeDevices) {
	for i := range n.list {
		n.list[i].present = false
	}
	for _, d := range watch.PoolDevices(slices.Collect(maps.Values(n.slices))) {
		if !t.isGPU(d) {
			continue
		}
		i := slices.IndexFunc(n.list, func(known device) bool { return known.ID() == d.ID() })
		if i < 0 {
			i, n.list = len(n.list), append(n.list, device{})
			t.places[d.ID()] = place{n.name, i}
		}
		n.list[i] = device{PoolDevice: d, present: true}
	}
	accepted := make([][]bool, len(t.order))
	for k, s := range t.order {
		accepted[k] = t.accept(s, n)
	}
	for i := range n.list {
		var row strings.Builder
		for k := range t.order {
			row.WriteByte(bit(accepted[k][i]))
		}
		n.list[i].kind = t.kind(base(n.list[i].PoolDevice), row.String())
	}
}

func base(d watch.PoolDevice) string { return fmt.Sprintf("%s %d", d.Product(), d.MemoryMB()) }

func bit(b bool) byte {
	if b {
		return '1'
	}
	return '0'
}

func (t *deviceTable) isGPU(d watch.PoolDevice) bool {
	for _, c := range t.classes {
		if isGPUClass(c) && t.satisfies(d, selectorsOf(c.Spec.Selectors)) {
			return true
		}
	}
	return false
}

// deviceType is the engine's type of the GPUs in slices. If a class offers them as the extended resource of device plugins,
// pods that ask for it in their limits may get them too.
func (t *deviceTable) deviceType() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.typeOfGPUs()
}

func (t *deviceTable) typeOfGPUs() string {
	for _, c := range t.classes {
		if isGPUClass(c) && c.Spec.ExtendedResourceName != nil && *c.Spec.ExtendedResourceName == string(watch.GPUResource) {
			return ares.DefaultAccelerator
		}
	}
	return watch.ClaimDevice
}

// use makes the GPUs of a node's slices the devices of its record. It reports whether the node has any.
func (t *deviceTable) use(record *ares.Node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[record.ID]
	if n == nil || len(n.list) == 0 {
		return false
	}
	list, records, kind := make([]watch.PoolDevice, len(n.list)), make([]ares.Device, len(n.list)), t.typeOfGPUs()
	for i, d := range n.list {
		list[i], records[i] = d.PoolDevice, d.GPU(i, d.kind.model)
		records[i].Type = kind
		if !d.present {
			records[i].Healthy, records[i].Reason = false, "no ResourceSlice has it any more"
		}
	}
	watch.UsePoolDevices(record, list, records)
	return true
}

// has reports whether a node has GPUs of ResourceSlices.
func (t *deviceTable) has(node string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[node]
	return n != nil && len(n.list) > 0
}

// find returns the node of GPUs and their indexes. Devices that are no GPUs are left out. The argument has the devices of
// one allocation, which are on one node.
func (t *deviceTable) find(ids []string) (node string, indexes []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		if at, known := t.places[id]; known {
			node, indexes = at.node, append(indexes, at.index)
		}
	}
	slices.Sort(indexes)
	return node, indexes
}

// others returns the GPUs of a node that are not among the given indexes.
func (t *deviceTable) others(node string, indexes []int) []watch.PoolDevice {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []watch.PoolDevice
	if n := t.nodes[node]; n != nil {
		for i, d := range n.list {
			if !slices.Contains(indexes, i) {
				out = append(out, d.PoolDevice)
			}
		}
	}
	return out
}

// ids returns the IDs of the GPUs of a node with these indexes, or nil if the node's GPUs are not in ResourceSlices.
func (t *deviceTable) ids(node string, indexes []int) (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[node]
	for _, i := range indexes {
		if n == nil || i >= len(n.list) {
			return nil
		}
		out = append(out, n.list[i].ID())
	}
	return out
}

// resolve replaces the IDs in the plan of a bound pod by the indexes that the devices have in this process. What is
// allocated to the pod wins.
func (t *deviceTable) resolve(p *watch.Pod) {
	if b := &p.Plan; len(b.IDs) > 0 && !p.Exact {
		_, b.Devices = t.find(b.IDs)
	}
	for i := range p.Plan.Gang {
		if g := &p.Plan.Gang[i]; len(g.IDs) > 0 {
			_, g.Devices = t.find(g.IDs)
		}
	}
}
