package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Request describes what one member of a job needs from a node. Jobs with equal requests share one Request, together
// with the node sets and scores that were computed for it.
type Request struct {
	Key  string // equal for equal requests
	ID   int    // unique, from 1
	Refs int    // number of users; RequestTable drops the request when this becomes 0

	GPUs         int // number of whole devices
	Milli        int // thousandths of one device, instead of whole devices
	deviceMemory int // least memory of each device, MB
	MilliCPUs    int // thousandths of cores
	Memory       int // MB
	accelerator  string
	models       []string // accepted models, lower case; all when empty
	MIG          string
	DeviceKey    string // all requirements on a device, as text
	NUMA         numaPolicy
	OneNUMA      bool // all members of the job must share one NUMA node
	rules        nodeRules
	regions      []string

	Ban         uint64 // excluded models, as ModelBits
	Constraints *Constraints
	ScoreSlot   int // index of its score cache plus 1; 0 for none
	onlyModel   int // index of the only accepted model plus 1; 0 for any
	variants    requestVariants
	FailedEpoch int // the placer's epoch in which it last fit on no feasible node
	Gains       RoomGains
	Listed      bool // it is in Cluster.UnschedulableRequests

	AnyNodeDoes bool // any node on which it fits will do, because a simulation does not need the best
}

// requestVariants holds copies of a request that accept fewer models.
type requestVariants struct {
	withoutModels map[uint64]*Request // by Ban
	onModel       map[int]*Request    // by index of the only accepted model
}

// nodeRules holds the requirements of a request for nodes, except those for devices, CPUs and memory.
type nodeRules struct {
	selector      []label // sorted by key; the node must have all of these labels
	affinity      []ares.Condition
	requirements  ares.NodeRequirements
	preferred     []ares.Condition // a node that meets these conditions is preferred
	tolerations   []ares.Toleration
	trusted       bool // Job.Trusted: may use nodes with TrustedOnly
	image         bool // it runs in an image, so it needs nodes with Images
	ownNetwork    bool // it must not reach the network, so it needs nodes with OwnNetwork
	attachable    bool // users can write to it, so it needs nodes with Attachable
	containerRoot bool // it is root in its image, so it needs nodes with ContainerRoot
}

// Constraints is the part of a request that depends on the traits of nodes and devices, not on amounts. Requests with
// equal constraints share one Constraints value, which includes the feasible set.
type Constraints struct {
	Key       string
	refs      int // requests in the RequestTable that have it
	Feasible  FeasibleSet
	masks     []uint64 // by ID of the node type: mask of the devices that pass, or unknownMask
	models    []int    // models of the devices that pass, among the first typesSeen node types
	typesSeen int
}

type label struct{ key, value string }

type numaPolicy uint8

const (
	NUMANone numaPolicy = iota
	numaPreferred
	NUMARequired
)

// RequestOf returns the request of one member of a job. The returned request has no ID yet.
func RequestOf(j *ares.Job) *Request {
	p := j.Placement()
	w := &Request{
		GPUs: j.GPUs, Milli: j.GPUMilli, MilliCPUs: j.MilliCPUs(), Memory: j.MemoryMB,
		deviceMemory: (j.GPUMemoryMB + max(j.GPUs, 1) - 1) / max(j.GPUs, 1),
		accelerator:  cmp.Or(j.AcceleratorType, ares.DefaultAccelerator), MIG: j.MIGProfile,
		regions: slices.Sorted(slices.Values(p.Regions)),
	}
	if w.MIG != "" && w.GPUs == 0 {
		w.GPUs = 1 // one slice
	}
	if p.LatencySensitive && w.Milli > 0 {
		w.GPUs, w.Milli = 1, 0 // exclusive use of the device
	}
	for m := range strings.SplitSeq(strings.ToLower(j.GPUModel), "|") {
		if m = strings.TrimSpace(m); m != "" {
			w.models = append(w.models, m)
		}
	}
	slices.Sort(w.models)
	switch {
	case j.NUMAPolicy == "required" || p.LatencySensitive && w.NeedsDevices():
		w.NUMA = NUMARequired
	case j.NUMAPolicy == "preferred":
		w.NUMA = numaPreferred
	}
	for k, v := range p.NodeSelector { // order-free: sorted right below
		w.rules.selector = append(w.rules.selector, label{k, v})
	}
	slices.SortFunc(w.rules.selector, func(a, b label) int { return cmp.Compare(a.key, b.key) })
	w.rules.affinity = ParseAll(p.NodeAffinity, ares.ParseCondition)
	w.rules.preferred = ParseAll(p.PreferredNodeAffinity, ares.ParseCondition)
	w.rules.tolerations = ParseAll(p.Tolerations, ares.ParseToleration)
	w.rules.requirements, w.rules.trusted, w.rules.image, w.rules.ownNetwork = p.NodeRequirements, j.Trusted, j.Image != "", j.HasOwnNetwork()
	w.rules.attachable, w.rules.containerRoot = j.IsAttachable(), j.IsContainerRoot()
	w.DeviceKey = fmt.Sprintf("%q %q %d %q", w.accelerator, w.MIG, w.deviceMemory, w.models)
	w.Constraints = &Constraints{Key: fmt.Sprintf("%q %q %q %d %t %q %q %q %q %v", w.accelerator, w.models, w.MIG, w.deviceMemory, w.NeedsDevices(), w.rules.selector, w.rules.affinity,
		w.rules.preferred, w.regions, w.rules.tolerations)}
	if len(w.rules.requirements) > 0 {
		text := w.rules.requirements.String()
		w.DeviceKey += " " + text
		w.Constraints.Key += " " + text
	}
	if w.rules.trusted {
		w.Constraints.Key += " trusted"
	}
	if w.rules.image {
		w.Constraints.Key += " image"
	}
	if w.rules.ownNetwork {
		w.Constraints.Key += " own network"
	}
	if w.rules.attachable {
		w.Constraints.Key += " attachable"
	}
	if w.rules.containerRoot {
		w.Constraints.Key += " container root"
	}
	w.Key = fmt.Sprintf("%d %d %s %d %d %s", w.GPUs, w.Milli, ares.FormatCPUs(w.MilliCPUs), w.Memory, w.NUMA, w.Constraints.Key)
	return w
}

// ParseAll parses a list of strings and skips those that are not valid, because admission already rejects jobs that
// contain them.
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

// Accelerator returns the accelerator type of the requested devices.
func (w *Request) Accelerator() string { return w.accelerator }

// acceptsDevice reports whether the request accepts the model of a device.
func (w *Request) acceptsDevice(d *DeviceSpec) bool {
	return (w.onlyModel == 0 || w.onlyModel == d.ModelIndex+1) && w.acceptsModel(d.model)
}

// acceptsModel reports whether the model's name, in lower case, contains one of the names that the request accepts.
func (w *Request) acceptsModel(model string) bool {
	return len(w.models) == 0 || slices.ContainsFunc(w.models, func(m string) bool { return strings.Contains(model, m) })
}

// Tolerates reports whether a toleration of the request matches the taint.
func (w *Request) Tolerates(t ares.Taint) bool {
	return slices.ContainsFunc(w.rules.tolerations, func(o ares.Toleration) bool { return o.Tolerates(t) })
}

// DeviceMask returns the mask of the devices of a node type that pass all device filters.
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

// unknownMask stands for a mask that has not been computed yet. If a node has 64 devices and all of them pass, the
// correct mask equals unknownMask. In this case the mask is computed again each time.
const unknownMask = ^uint64(0)

// Text describes the request of one member, for users.
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
	if w.MilliCPUs%1000 == 0 {
		add(w.MilliCPUs/1000, "CPU core", "CPU cores")
	} else {
		parts = append(parts, ares.FormatCPUs(w.MilliCPUs)+" CPU cores")
	}
	add(w.Memory, "MB", "MB")
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// DeviceWord returns the word that users read for one device of the requested kind.
func (w *Request) DeviceWord() string {
	switch {
	case w.MIG != "":
		return w.MIG + " slice"
	case w.accelerator == "custom":
		return "custom device"
	}
	return strings.ToUpper(w.accelerator)
}

// RequestTable holds the requests and constraints that are in use, without duplicates.
type RequestTable struct {
	ByKey       map[string]*Request
	Constraints map[string]*Constraints
}

// Intern returns the request in the table that equals w, and increments its reference count. If the table has no
// equal request, Intern adds w.
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

// ShareConstraints replaces the request's constraints by equal constraints from the table, if the table has any.
func (ws *RequestTable) ShareConstraints(w *Request) {
	if known := ws.Constraints[w.Constraints.Key]; known != nil {
		w.Constraints = known
	}
}

// Release decrements the reference count of a request. When the count reaches 0, Release removes the request from
// the table.
func (ws *RequestTable) Release(w *Request) {
	if w.Refs--; w.Refs > 0 {
		return
	}
	delete(ws.ByKey, w.Key)
	if w.Constraints.refs--; w.Constraints.refs == 0 {
		delete(ws.Constraints, w.Constraints.Key)
	}
}

// WithoutModels returns the request with some models excluded. The caller excludes device models whose quotas have
// too little capacity left.
func (c *Cluster) WithoutModels(w *Request, ban uint64) *Request {
	if ban == 0 {
		return w
	}
	if w.variants.withoutModels == nil {
		w.variants.withoutModels = map[uint64]*Request{}
	}
	if w.variants.withoutModels[ban] == nil {
		n := *w
		n.ID = c.NewRequestID()
		n.Ban, n.ScoreSlot, n.variants, n.FailedEpoch, n.Gains, n.Listed = ban, 0, requestVariants{}, 0, RoomGains{}, false
		n.Constraints = &Constraints{Key: fmt.Sprintf("%s -%x", w.Constraints.Key, ban)}
		w.variants.withoutModels[ban] = &n
	}
	return w.variants.withoutModels[ban]
}

// NewRequestID returns an ID that no other request has.
func (c *Cluster) NewRequestID() int {
	c.requestCount++
	return c.requestCount
}

// ModelBit returns the bit of a model in a set of models. The 64th device model and all later models share one bit.
// Excluding one of the models that share a bit excludes all of them, so that no quota is exceeded.
func ModelBit(m int) uint64 { return 1 << min(m, 63) }

// GPUMilli returns the device capacity that one member needs, in thousandths of a device.
func (w *Request) GPUMilli() int { return max(w.GPUs*WholeMilli, w.Milli) }

// selectorText returns the labels of the node selector as text for users.
func (w *Request) selectorText() string {
	var parts []string
	for _, l := range w.rules.selector {
		parts = append(parts, l.key+"="+l.value)
	}
	return strings.Join(parts, ", ")
}

// tooFewText returns the beginning of a sentence about nodes that have fewer devices than one member needs.
func (w *Request) tooFewText() string {
	if w.GPUs <= 1 {
		return "no " + w.DeviceWord()
	}
	return fmt.Sprintf("fewer than %d %ss", w.GPUs, w.DeviceWord())
}
