package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// request is what one member of a job asks of a node, whoever asks. Jobs with the
// same wishes share it, and with it the sets and ranks that were worked out
// for it.
type request struct {
	key  string
	id   int // tells it from every other, from 1
	refs int

	gpus         int // whole devices
	milli        int // or a part of one device
	deviceMemory int // MB each device must have
	cpus         int
	memory       int // MB
	kind         string
	models       []string // lower case; any of them, all when empty
	mig          string
	deviceKey    string // all that is asked of a device, as text
	numa         numaPolicy
	oneNUMA      bool // all members of the job in one NUMA node
	selector     []label
	affinity     []ares.Condition
	preferred    []ares.Condition
	tolerations  []ares.Toleration
	regions      []string

	ban         uint64 // models that must not be given, by their number
	constraints *constraints
	scoreSlot   int                 // one more than where its scores are kept, 0 for nowhere
	narrowed    map[uint64]*request // the same with models left out
	failedEpoch int                 // the sight in which no node had room for it
	gains       roomGains
	listed      bool // in State.lost

	anyNodeDoes bool // of one supposition: whether there is a place counts, not which
}

// constraints is what a want asks nodes to be like, however much it asks of them.
// Wants of one taste share the sets that were worked out for it.
type constraints struct {
	key      string
	refs     int
	feasible feasibleSet
	masks    []uint64 // by profile: the devices that fit
}

type label struct{ key, value string }

type numaPolicy uint8

const (
	numaNone numaPolicy = iota
	numaPreferred
	numaRequired
)

func requestOf(j *ares.Job) *request {
	w := &request{
		gpus: j.GPUs, milli: j.GPUMilli, cpus: j.CPUs, memory: j.MemoryMB,
		deviceMemory: (j.GPUMemoryMB + max(j.GPUs, 1) - 1) / max(j.GPUs, 1),
		kind:         cmp.Or(j.AcceleratorType, ares.DefaultAccelerator), mig: j.MIGProfile,
		regions: slices.Sorted(slices.Values(j.Placement.Regions)),
	}
	if w.mig != "" && w.gpus == 0 {
		w.gpus = 1 // a slice
	}
	if j.Placement.LatencySensitive && w.milli > 0 {
		w.gpus, w.milli = 1, 0 // no shared devices
	}
	for m := range strings.SplitSeq(strings.ToLower(j.GPUModel), "|") {
		if m = strings.TrimSpace(m); m != "" {
			w.models = append(w.models, m)
		}
	}
	slices.Sort(w.models)
	switch {
	case j.NUMAPolicy == "required" || j.Placement.LatencySensitive && w.needsDevices():
		w.numa = numaRequired
	case j.NUMAPolicy == "preferred":
		w.numa = numaPreferred
	}
	for k, v := range j.Placement.NodeSelector { // order-free: sorted right below
		w.selector = append(w.selector, label{k, v})
	}
	slices.SortFunc(w.selector, func(a, b label) int { return cmp.Compare(a.key, b.key) })
	w.affinity = parseAll(j.Placement.NodeAffinity, ares.ParseCondition)
	w.preferred = parseAll(j.Placement.PreferredNodeAffinity, ares.ParseCondition)
	w.tolerations = parseAll(j.Placement.Tolerations, ares.ParseToleration)
	w.deviceKey = fmt.Sprintf("%q %q %d %q", w.kind, w.mig, w.deviceMemory, w.models)
	w.constraints = &constraints{key: fmt.Sprintf("%q %q %q %d %t %q %q %q %q %v", w.kind, w.models, w.mig, w.deviceMemory, w.needsDevices(), w.selector, w.affinity,
		w.preferred, w.regions, w.tolerations)}
	w.key = fmt.Sprintf("%d %d %d %d %d %s", w.gpus, w.milli, w.cpus, w.memory, w.numa, w.constraints.key)
	return w
}

// parseAll reads a list of words; what cannot be read was refused when the job
// was submitted.
func parseAll[T any](list []string, parse func(string) (T, error)) []T {
	var out []T
	for _, s := range list {
		if v, err := parse(s); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// needsDevices says whether it asks for any.
func (w *request) needsDevices() bool { return w.gpus > 0 || w.milli > 0 }

// acceptsModel says whether a device of this model will do.
func (w *request) acceptsModel(model string) bool {
	return len(w.models) == 0 || slices.ContainsFunc(w.models, func(m string) bool { return strings.Contains(model, m) })
}

// tolerates says whether the job may go where the taint is.
func (w *request) tolerates(t ares.Taint) bool {
	return slices.ContainsFunc(w.tolerations, func(o ares.Toleration) bool { return o.Tolerates(t) })
}

// deviceMask is the devices of a profile that fit.
func (w *request) deviceMask(p *nodeType) uint64 {
	t := w.constraints
	for len(t.masks) <= p.id {
		t.masks = append(t.masks, unknownMask)
	}
	if t.masks[p.id] == unknownMask {
		t.masks[p.id] = p.matchingDevices(w)
	}
	return t.masks[p.id]
}

// unknownMask is not yet worked out. A machine of 64 devices that all fit looks
// the same and is worked out each time.
const unknownMask = ^uint64(0)

// text says in words what one member asks for.
func (w *request) text() string {
	var parts []string
	add := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	kind := w.deviceWord()
	add(w.gpus, kind, kind+"s")
	if w.milli > 0 {
		parts = append(parts, fmt.Sprintf("%d/1000 of a %s", w.milli, kind))
	}
	add(w.cpus, "CPU core", "CPU cores")
	add(w.memory, "MB", "MB")
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// deviceWord is the word for one device of the kind asked for.
func (w *request) deviceWord() string {
	switch {
	case w.mig != "":
		return w.mig + " slice"
	case w.kind == "custom":
		return "custom device"
	}
	return strings.ToUpper(w.kind)
}

// requestTable holds the wants of live jobs, one of each, and their tastes.
type requestTable struct {
	byKey       map[string]*request
	constraints map[string]*constraints
}

func (ws *requestTable) intern(w *request) *request {
	if known := ws.byKey[w.key]; known != nil {
		w = known
	} else {
		ws.shareConstraints(w)
		ws.byKey[w.key] = w
		ws.constraints[w.constraints.key] = w.constraints
		w.constraints.refs++
	}
	w.refs++
	return w
}

// shareConstraints gives a want the taste of those that live, if they have the like.
func (ws *requestTable) shareConstraints(w *request) {
	if known := ws.constraints[w.constraints.key]; known != nil {
		w.constraints = known
	}
}

func (ws *requestTable) release(w *request) {
	if w.refs--; w.refs > 0 {
		return
	}
	delete(ws.byKey, w.key)
	if w.constraints.refs--; w.constraints.refs == 0 {
		delete(ws.constraints, w.constraints.key)
	}
}

// withoutModels is the want with some models left out, because quotas leave too
// little of them.
func (c *Cluster) withoutModels(w *request, ban uint64) *request {
	if ban == 0 {
		return w
	}
	if w.narrowed == nil {
		w.narrowed = map[uint64]*request{}
	}
	if w.narrowed[ban] == nil {
		n := *w
		n.id = c.newRequestID()
		n.ban, n.scoreSlot, n.narrowed, n.failedEpoch, n.gains, n.listed = ban, 0, nil, 0, roomGains{}, false
		n.constraints = &constraints{key: fmt.Sprintf("%s -%x", w.constraints.key, ban)}
		w.narrowed[ban] = &n
	}
	return w.narrowed[ban]
}

// newRequestID is a number that no other want has.
func (c *Cluster) newRequestID() int {
	c.requestCount++
	return c.requestCount
}

// modelBit stands for a model in a set of them. The 64th and all after it share
// one: then what is banned for one of them is banned for all, and no quota is
// exceeded.
func modelBit(m int) uint64 { return 1 << min(m, 63) }

// gpuMilli is how many thousandths of devices a member takes.
func (w *request) gpuMilli() int { return max(w.gpus*WholeMilli, w.milli) }

// selectorText says what is asked of a node's labels, value by value.
func (w *request) selectorText() string {
	var parts []string
	for _, l := range w.selector {
		parts = append(parts, l.key+"="+l.value)
	}
	return strings.Join(parts, ", ")
}

// tooFewText says of a node that it has fewer devices than one member needs.
func (w *request) tooFewText() string {
	if w.gpus <= 1 {
		return "no " + w.deviceWord()
	}
	return fmt.Sprintf("fewer than %d %ss", w.gpus, w.deviceWord())
}
