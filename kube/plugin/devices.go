package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/klog/v2"

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

// A kind is a set of devices that no request distinguishes.
type kind struct {
	model   string
	base    string // product and memory
	accepts string // one character for each selection: 1 if it accepts the kind
}

// A selection is what requests with the same class, selectors and constraints accept.
type selection struct {
	number    int
	selectors []string
	match     []string // attributes in which the devices of a node must agree
}

func (s *selection) key() string {
	return strings.Join(s.selectors, "\x00") + "\x01" + strings.Join(s.match, "\x00")
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
	if before := t.classes[name]; before != nil && c != nil && isGPUClass(before) == isGPUClass(c) &&
		slices.Equal(selectorsOf(before.Spec.Selectors), selectorsOf(c.Spec.Selectors)) {
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

// kind returns the kind of a product with these answers, and names it if it is new. Models are compared by a part of
// their name, so each name ends in a number that no other has.
func (t *deviceTable) kind(base, accepts string) *kind {
	key := base + " " + accepts
	if t.kinds[key] == nil {
		t.named++
		product, _, _ := cutLast(base, " ")
		t.kinds[key] = &kind{model: fmt.Sprintf("%s (%d)", product, t.named), base: base, accepts: accepts}
	}
	return t.kinds[key]
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func (t *deviceTable) isGPU(d watch.PoolDevice) bool {
	for _, c := range t.classes {
		if isGPUClass(c) && t.satisfies(d, selectorsOf(c.Spec.Selectors)) {
			return true
		}
	}
	return false
}

// satisfies reports whether a device satisfies all selectors. A selector that fails, for example because the device does
// not have an attribute, is not satisfied.
func (t *deviceTable) satisfies(d watch.PoolDevice, selectors []string) bool {
	for _, text := range selectors {
		program := t.cache.GetOrCompile(text)
		if program.Error != nil {
			return false
		}
		ok, _, err := program.DeviceMatches(context.Background(), cel.Device{
			Driver: d.Driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity,
		})
		if err != nil {
			klog.V(4).InfoS("A selector failed", "device", d.ID(), "selector", text, "err", err)
		}
		if !ok || err != nil {
			return false
		}
	}
	return true
}

// accept returns which devices of a node a selection accepts. If the devices must agree in an attribute, these are the
// largest group that does: a seat has devices of one group then.
func (t *deviceTable) accept(s *selection, n *nodeDevices) []bool {
	out, groups := make([]bool, len(n.list)), make([]string, len(n.list))
	sizes := map[string]int{}
	for i, d := range n.list {
		if out[i] = t.satisfies(d.PoolDevice, s.selectors); !out[i] {
			continue
		}
		for _, name := range s.match {
			value, has := d.Attribute(name)
			out[i] = out[i] && has
			groups[i] += value + "\x00"
		}
		if out[i] && d.present {
			sizes[groups[i]]++
		}
	}
	if len(s.match) == 0 {
		return out
	}
	best := ""
	for _, g := range slices.Sorted(maps.Keys(sizes)) {
		if best == "" || sizes[g] > sizes[best] {
			best = g
		}
	}
	for i := range out {
		out[i] = out[i] && groups[i] == best
	}
	return out
}

// selection returns the models that a request accepts, and the nodes whose devices got another model because the request
// is new. It reports whether the request's class is one of GPUs, or its selectors accept a GPU; other requests are none of
// the planner's business.
func (t *deviceTable) selection(r *watch.DeviceRequest) (models, changed []string, isGPU bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	class := t.classes[r.Class]
	if class == nil {
		return nil, nil, false // upstream holds the pod back and says so
	}
	wanted := selection{number: len(t.order), selectors: append(selectorsOf(class.Spec.Selectors), r.Selectors...), match: r.Match}
	s := t.selections[wanted.key()]
	if s == nil {
		s = &wanted
		t.selections[s.key()], t.order = s, append(t.order, s)
		changed = t.split(s)
	}
	for _, k := range t.kinds {
		if k.accepts[s.number] == '1' {
			models = append(models, k.model)
		}
	}
	slices.Sort(models)
	return models, changed, isGPUClass(class) || len(models) > 0
}

// wantsGPU reports whether a request is for GPUs, as selection does, but remembers nothing.
func (t *deviceTable) wantsGPU(r *watch.DeviceRequest) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	class := t.classes[r.Class]
	if class == nil || isGPUClass(class) {
		return class != nil
	}
	s := selection{selectors: append(selectorsOf(class.Spec.Selectors), r.Selectors...), match: r.Match}
	if known := t.selections[s.key()]; known != nil {
		for _, k := range t.kinds {
			if k.accepts[known.number] == '1' {
				return true
			}
		}
		return false
	}
	for _, n := range t.nodes {
		if slices.Contains(t.accept(&s, n), true) {
			return true
		}
	}
	return false
}

// split divides the kinds of which a new selection accepts only a part. It returns the nodes with devices of a new kind.
func (t *deviceTable) split(s *selection) (changed []string) {
	type part struct{ yes, no bool }
	accepted, parts := map[string][]bool{}, map[*kind]part{}
	for name, n := range t.nodes {
		accepted[name] = t.accept(s, n)
		for i, d := range n.list {
			p := parts[d.kind]
			p.yes, p.no = p.yes || accepted[name][i], p.no || !accepted[name][i]
			parts[d.kind] = p
		}
	}
	before := t.kinds
	t.kinds = map[string]*kind{}
	for _, k := range before {
		old := k.accepts
		k.accepts = old + string(bit(parts[k].yes && !parts[k].no))
		t.kinds[k.base+" "+k.accepts] = k
		if p := parts[k]; p.yes && p.no {
			t.kind(k.base, old+"1")
		}
	}
	for name, n := range t.nodes {
		for i := range n.list {
			d := &n.list[i]
			if accepted[name][i] && d.kind.accepts[s.number] == '0' {
				d.kind = t.kind(d.kind.base, d.kind.accepts[:s.number]+"1")
				if !slices.Contains(changed, name) {
					changed = append(changed, name)
				}
			}
		}
	}
	return changed
}

// use makes the GPUs of a node's slices the devices of its record. It reports whether the node has any.
func (t *deviceTable) use(record *ares.Node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[record.ID]
	if n == nil || len(n.list) == 0 {
		return false
	}
	list, records := make([]watch.PoolDevice, len(n.list)), make([]ares.Device, len(n.list))
	for i, d := range n.list {
		list[i], records[i] = d.PoolDevice, d.GPU(i, d.kind.model)
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
