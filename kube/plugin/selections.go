package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/klog/v2"

	"github.com/ares-scheduler/ares/kube/watch"
)

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
