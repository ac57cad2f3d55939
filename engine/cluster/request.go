package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Request is what one member of a job asks of a node, whoever asks. Jobs with the
// same wishes share it, and with it the sets and ranks that were worked out
// for it.
type Request struct {
	Key  string
	ID   int // tells it from every other, from 1
	Refs int

	GPUs         int // whole devices
	Milli        int // or a part of one device
	DeviceMemory int // MB each device must have
	CPUs         int
	Memory       int // MB
	Kind         string
	models       []string // lower case; any of them, all when empty
	MIG          string
	DeviceKey    string // all that is asked of a device, as text
	NUMA         numaPolicy
	OneNUMA      bool // all members of the job in one NUMA node
	rules        nodeRules
	Regions      []string

	Ban         uint64 // models that must not be given, by their number
	Constraints *Constraints
	ScoreSlot   int                 // one more than where its scores are kept, 0 for nowhere
	narrowed    map[uint64]*Request // the same with models left out
	FailedEpoch int                 // the sight in which no node had room for it
	Gains       RoomGains
	Listed      bool // in State.lost

	AnyNodeDoes bool // of one supposition: whether there is a place counts, not which
}

// nodeRules is what a request asks of nodes, besides their devices and size.
type nodeRules struct {
	selector     []label // by key; the node has all of these labels
	affinity     []ares.Condition
	requirements ares.NodeRequirements
	preferred    []ares.Condition // a node that meets these is better
	tolerations  []ares.Toleration
}

// Constraints is what a want asks nodes to be like, however much it asks of them.
// Wants of one taste share the sets that were worked out for it.
type Constraints struct {
	Key      string
	refs     int
	Feasible feasibleSet
	masks    []uint64 // by profile: the devices that fit
}

type label struct{ key, value string }

type numaPolicy uint8

const (
	NUMANone numaPolicy = iota
	numaPreferred
	NUMARequired
)

func RequestOf(j *ares.Job) *Request {
	w := &Request{
		GPUs: j.GPUs, Milli: j.GPUMilli, CPUs: j.CPUs, Memory: j.MemoryMB,
		DeviceMemory: (j.GPUMemoryMB + max(j.GPUs, 1) - 1) / max(j.GPUs, 1),
		Kind:         cmp.Or(j.AcceleratorType, ares.DefaultAccelerator), MIG: j.MIGProfile,
		Regions: slices.Sorted(slices.Values(j.Placement.Regions)),
	}
	if w.MIG != "" && w.GPUs == 0 {
		w.GPUs = 1 // a slice
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
	w.DeviceKey = fmt.Sprintf("%q %q %d %q", w.Kind, w.MIG, w.DeviceMemory, w.models)
	w.Constraints = &Constraints{Key: fmt.Sprintf("%q %q %q %d %t %q %q %q %q %v", w.Kind, w.models, w.MIG, w.DeviceMemory, w.NeedsDevices(), w.rules.selector, w.rules.affinity,
		w.rules.preferred, w.Regions, w.rules.tolerations)}
	if len(w.rules.requirements) > 0 {
		text := w.rules.requirements.String()
		w.DeviceKey += " " + text
		w.Constraints.Key += " " + text
	}
	w.Key = fmt.Sprintf("%d %d %d %d %d %s", w.GPUs, w.Milli, w.CPUs, w.Memory, w.NUMA, w.Constraints.Key)
	return w
}

// ParseAll reads a list of words; what cannot be read was refused when the job
// was submitted.
func ParseAll[T any](list []string, parse func(string) (T, error)) []T {
	var out []T
	for _, s := range list {
		if v, err := parse(s); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// NeedsDevices says whether it asks for any.
func (w *Request) NeedsDevices() bool { return w.GPUs > 0 || w.Milli > 0 }

// acceptsModel says whether a device of this model will do.
func (w *Request) acceptsModel(model string) bool {
	return len(w.models) == 0 || slices.ContainsFunc(w.models, func(m string) bool { return strings.Contains(model, m) })
}

// Tolerates says whether the job may go where the taint is.
func (w *Request) Tolerates(t ares.Taint) bool {
	return slices.ContainsFunc(w.rules.tolerations, func(o ares.Toleration) bool { return o.Tolerates(t) })
}

// DeviceMask is the devices of a profile that fit.
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

// unknownMask is not yet worked out. A machine of 64 devices that all fit looks
// the same and is worked out each time.
const unknownMask = ^uint64(0)

// Text says in words what one member asks for.
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

// DeviceWord is the word for one device of the kind asked for.
func (w *Request) DeviceWord() string {
	switch {
	case w.MIG != "":
		return w.MIG + " slice"
	case w.Kind == "custom":
		return "custom device"
	}
	return strings.ToUpper(w.Kind)
}

// RequestTable holds the wants of live jobs, one of each, and their tastes.
type RequestTable struct {
	ByKey       map[string]*Request
	Constraints map[string]*Constraints
}

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

// ShareConstraints gives a want the taste of those that live, if they have the like.
func (ws *RequestTable) ShareConstraints(w *Request) {
	if known := ws.Constraints[w.Constraints.Key]; known != nil {
		w.Constraints = known
	}
}

func (ws *RequestTable) Release(w *Request) {
	if w.Refs--; w.Refs > 0 {
		return
	}
	delete(ws.ByKey, w.Key)
	if w.Constraints.refs--; w.Constraints.refs == 0 {
		delete(ws.Constraints, w.Constraints.Key)
	}
}

// WithoutModels is the want with some models left out, because quotas leave too
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

// NewRequestID is a number that no other want has.
func (c *Cluster) NewRequestID() int {
	c.requestCount++
	return c.requestCount
}

// ModelBit stands for a model in a set of them. The 64th and all after it share
// one: then what is banned for one of them is banned for all, and no quota is
// exceeded.
func ModelBit(m int) uint64 { return 1 << min(m, 63) }

// GPUMilli is how many thousandths of devices a member takes.
func (w *Request) GPUMilli() int { return max(w.GPUs*WholeMilli, w.Milli) }

// SelectorText says what is asked of a node's labels, value by value.
func (w *Request) SelectorText() string {
	var parts []string
	for _, l := range w.rules.selector {
		parts = append(parts, l.key+"="+l.value)
	}
	return strings.Join(parts, ", ")
}

// TooFewText says of a node that it has fewer devices than one member needs.
func (w *Request) TooFewText() string {
	if w.GPUs <= 1 {
		return "no " + w.DeviceWord()
	}
	return fmt.Sprintf("fewer than %d %ss", w.GPUs, w.DeviceWord())
}
