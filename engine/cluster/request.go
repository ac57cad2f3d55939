package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Request is what one member of a job needs from a node. Jobs with equal requests share
// one, and with it the sets and scores that were computed for it.
type Request struct {
	Key  string // equal for equal requests
	ID   int    // unique, from 1
	Refs int    // users; RequestTable drops the request with the last

	GPUs         int // number of whole devices
	Milli        int // or thousandths of one device
	deviceMemory int // least memory of each device, MB
	CPUs         int
	Memory       int // MB
	accelerator  string
	models       []string // accepted models, lower case; all when empty
	MIG          string
	DeviceKey    string // all that is required of a device, as text
	NUMA         numaPolicy
	OneNUMA      bool // all members of the job must share one NUMA node
	rules        nodeRules
	regions      []string

	Ban         uint64 // excluded models, as ModelBits
	Constraints *Constraints
	ScoreSlot   int                 // one more than the index of its score cache, 0 for none
	narrowed    map[uint64]*Request // by Ban: the same request with models excluded
	FailedEpoch int                 // the placer's epoch in which it last fit on no feasible node
	Gains       RoomGains
	Listed      bool // in Cluster.UnschedulableRequests

	AnyNodeDoes bool // a simulation needs some node on which it fits, not the best
}

// nodeRules is what a request requires of nodes, besides devices and size.
type nodeRules struct {
	selector     []label // by key; the node must have all of these labels
	affinity     []ares.Condition
	requirements ares.NodeRequirements
	preferred    []ares.Condition // a node that meets these is preferred
	tolerations  []ares.Toleration
}

// Constraints is the part of a request that depends on the traits of nodes and devices,
// not on amounts. Requests with equal constraints share one, with its feasible set.
type Constraints struct {
	Key      string
	refs     int // requests in the RequestTable that have it
	Feasible feasibleSet
	masks    []uint64 // by ID of the node type: the devices that pass, or unknownMask
}

type label struct{ key, value string }

type numaPolicy uint8

const (
	NUMANone numaPolicy = iota
	numaPreferred
	NUMARequired
)

// RequestOf returns the request of one member of a job. It has no ID yet.
func RequestOf(j *ares.Job) *Request {
	w := &Request{
		GPUs: j.GPUs, Milli: j.GPUMilli, CPUs: j.CPUs, Memory: j.MemoryMB,
		deviceMemory: (j.GPUMemoryMB + max(j.GPUs, 1) - 1) / max(j.GPUs, 1),
		accelerator:  cmp.Or(j.AcceleratorType, ares.DefaultAccelerator), MIG: j.MIGProfile,
		regions: slices.Sorted(slices.Values(j.Placement.Regions)),
	}
	if w.MIG != "" && w.GPUs == 0 {
		w.GPUs = 1 // one slice
	}
	if j.Placement.LatencySensitive && w.Milli > 0 {
		w.GPUs, w.Milli = 1, 0 // no shared devices
	}
	for m := range strings.SplitSeq(strings.ToLower(j.GPUModel), "|") {
		if m = strings.TrimSpace(m); m != "" {
			w.models = append(w.models, m)
		}
	}
	slices.Sort(w.models)
	switch {
	case j.NUMAPolicy == "required" || j.Placement.LatencySensitive && w.NeedsDevices():
		w.NUMA = NUMARequired
	case j.NUMAPolicy == "preferred":
		w.NUMA = numaPreferred
	}
	for k, v := range j.Placement.NodeSelector { // order-free: sorted right below
		w.rules.selector = append(w.rules.selector, label{k, v})
	}
	slices.SortFunc(w.rules.selector, func(a, b label) int { return cmp.Compare(a.key, b.key) })
	w.rules.affinity = ParseAll(j.Placement.NodeAffinity, ares.ParseCondition)
	w.rules.preferred = ParseAll(j.Placement.PreferredNodeAffinity, ares.ParseCondition)
	w.rules.tolerations = ParseAll(j.Placement.Tolerations, ares.ParseToleration)
	w.rules.requirements = j.Placement.NodeRequirements
	w.DeviceKey = fmt.Sprintf("%q %q %d %q", w.accelerator, w.MIG, w.deviceMemory, w.models)
	w.Constraints = &Constraints{Key: fmt.Sprintf("%q %q %q %d %t %q %q %q %q %v", w.accelerator, w.models, w.MIG, w.deviceMemory, w.NeedsDevices(), w.rules.selector, w.rules.affinity,
		w.rules.preferred, w.regions, w.rules.tolerations)}
	if len(w.rules.requirements) > 0 {
		text := w.rules.requirements.String()
		w.DeviceKey += " " + text
		w.Constraints.Key += " " + text
	}
	w.Key = fmt.Sprintf("%d %d %d %d %d %s", w.GPUs, w.Milli, w.CPUs, w.Memory, w.NUMA, w.Constraints.Key)
	return w
}

// ParseAll parses a list and skips elements with an error: admission rejects a job that
// has any.
func ParseAll[T any](list []string, parse func(string) (T, error)) []T {
	var out []T
	for _, s := range list {
		if v, err := parse(s); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// NeedsDevices reports whether a member needs a device or a share of one.
func (w *Request) NeedsDevices() bool { return w.GPUs > 0 || w.Milli > 0 }

// acceptsModel reports whether the name of the model, in lower case, contains the name
// of an accepted one.
func (w *Request) acceptsModel(model string) bool {
	return len(w.models) == 0 || slices.ContainsFunc(w.models, func(m string) bool { return strings.Contains(model, m) })
}

// Tolerates reports whether a toleration of the request matches the taint.
func (w *Request) Tolerates(t ares.Taint) bool {
	return slices.ContainsFunc(w.rules.tolerations, func(o ares.Toleration) bool { return o.Tolerates(t) })
}

// DeviceMask returns the mask of the devices of a node type that pass all filters of
// devices.
func (w *Request) DeviceMask(p *NodeType) uint64 {
	t := w.Constraints
	for len(t.masks) <= p.ID {
		t.masks = append(t.masks, unknownMask)
	}
	if t.masks[p.ID] == unknownMask {
		t.masks[p.ID] = p.matchingDevices(w)
	}
	return t.masks[p.ID]
}

// unknownMask stands for a mask that is not computed yet. The mask of a node with 64
// devices that all pass has the same value, and is computed each time.
const unknownMask = ^uint64(0)

// Text returns what one member needs, for users.
func (w *Request) Text() string {
	var parts []string
	add := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	kind := w.DeviceWord()
	add(w.GPUs, kind, kind+"s")
	if w.Milli > 0 {
		parts = append(parts, fmt.Sprintf("%d/1000 of a %s", w.Milli, kind))
	}
	add(w.CPUs, "CPU core", "CPU cores")
	add(w.Memory, "MB", "MB")
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// DeviceWord returns the word for one device of the requested kind.
func (w *Request) DeviceWord() string {
	switch {
	case w.MIG != "":
		return w.MIG + " slice"
	case w.accelerator == "custom":
		return "custom device"
	}
	return strings.ToUpper(w.accelerator)
}

// RequestTable holds the requests and constraints in use, each once.
type RequestTable struct {
	ByKey       map[string]*Request
	Constraints map[string]*Constraints
}

// Intern returns the request of the table that equals w, or adds w, and counts a user.
func (ws *RequestTable) Intern(w *Request) *Request {
	if known := ws.ByKey[w.Key]; known != nil {
		w = known
	} else {
		ws.ShareConstraints(w)
		ws.ByKey[w.Key] = w
		ws.Constraints[w.Constraints.Key] = w.Constraints
		w.Constraints.refs++
	}
	w.Refs++
	return w
}

// ShareConstraints replaces the constraints of a request by the equal ones of the table,
// if there are any.
func (ws *RequestTable) ShareConstraints(w *Request) {
	if known := ws.Constraints[w.Constraints.Key]; known != nil {
		w.Constraints = known
	}
}

// Release discounts a user of a request, and drops the request with the last one.
func (ws *RequestTable) Release(w *Request) {
	if w.Refs--; w.Refs > 0 {
		return
	}
	delete(ws.ByKey, w.Key)
	if w.Constraints.refs--; w.Constraints.refs == 0 {
		delete(ws.Constraints, w.Constraints.Key)
	}
}

// WithoutModels returns the request with some models excluded, because quotas leave too
// little of them.
func (c *Cluster) WithoutModels(w *Request, ban uint64) *Request {
	if ban == 0 {
		return w
	}
	if w.narrowed == nil {
		w.narrowed = map[uint64]*Request{}
	}
	if w.narrowed[ban] == nil {
		n := *w
		n.ID = c.NewRequestID()
		n.Ban, n.ScoreSlot, n.narrowed, n.FailedEpoch, n.Gains, n.Listed = ban, 0, nil, 0, RoomGains{}, false
		n.Constraints = &Constraints{Key: fmt.Sprintf("%s -%x", w.Constraints.Key, ban)}
		w.narrowed[ban] = &n
	}
	return w.narrowed[ban]
}

// NewRequestID returns an ID that no other request has.
func (c *Cluster) NewRequestID() int {
	c.requestCount++
	return c.requestCount
}

// ModelBit returns the bit of a model in a set of models. The 64th model and all after it
// share one bit: excluding one of them excludes all, so that no quota is exceeded.
func ModelBit(m int) uint64 { return 1 << min(m, 63) }

// GPUMilli returns the thousandths of devices that a member needs.
func (w *Request) GPUMilli() int { return max(w.GPUs*WholeMilli, w.Milli) }

// selectorText returns the labels of the node selector, for users.
func (w *Request) selectorText() string {
	var parts []string
	for _, l := range w.rules.selector {
		parts = append(parts, l.key+"="+l.value)
	}
	return strings.Join(parts, ", ")
}

// tooFewText returns the start of a text about nodes with fewer devices than one member
// needs.
func (w *Request) tooFewText() string {
	if w.GPUs <= 1 {
		return "no " + w.DeviceWord()
	}
	return fmt.Sprintf("fewer than %d %ss", w.GPUs, w.DeviceWord())
}
