package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// want is what one member of a job asks of a node, whoever asks. Jobs with the
// same wishes share it, and with it the sets and ranks that were worked out
// for it.
type want struct {
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
	numa         numaPolicy
	together     bool // all members of the job in one NUMA node
	selector     []label
	conditions   []ares.Condition
	preferred    []ares.Condition
	tolerations  []ares.Toleration
	regions      []string

	asked  *asked // the account of its kind, while that counts any
	ban    uint64 // models that must not be given, by their number
	taste  *taste
	board  board
	opens  [lenses]*openings
	narrow map[uint64]*want // the same with models left out
	failed int              // the sight in which no node had room for it
	gains  gains
	listed bool // in State.lost

	tried   []tried // by position of the node
	passing bool    // of one supposition: whether there is a place counts, not which
}

// taste is what a want asks nodes to be like, however much it asks of them.
// Wants of one taste share the sets that were worked out for it.
type taste struct {
	key    string
	refs   int
	filter filter
	masks  []uint64 // by profile: the devices that fit
}

type label struct{ key, value string }

type numaPolicy uint8

const (
	numaNone numaPolicy = iota
	numaPreferred
	numaRequired
)

func wantOf(j *ares.Job) *want {
	w := &want{
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
	case j.NUMAPolicy == "required" || j.Placement.LatencySensitive && w.devices():
		w.numa = numaRequired
	case j.NUMAPolicy == "preferred":
		w.numa = numaPreferred
	}
	for k, v := range j.Placement.NodeSelector { // order-free: sorted right below
		w.selector = append(w.selector, label{k, v})
	}
	slices.SortFunc(w.selector, func(a, b label) int { return cmp.Compare(a.key, b.key) })
	w.conditions = parsed(j.Placement.NodeAffinity, ares.ParseCondition)
	w.preferred = parsed(j.Placement.PreferredNodeAffinity, ares.ParseCondition)
	w.tolerations = parsed(j.Placement.Tolerations, ares.ParseToleration)
	w.taste = &taste{key: fmt.Sprintf("%q %q %q %d %t %q %q %q %q %v", w.kind, w.models, w.mig, w.deviceMemory, w.devices(), w.selector, w.conditions,
		w.preferred, w.regions, w.tolerations)}
	w.key = fmt.Sprintf("%d %d %d %d %d %s", w.gpus, w.milli, w.cpus, w.memory, w.numa, w.taste.key)
	return w
}

// parsed reads a list of words; what cannot be read was refused when the job
// was submitted.
func parsed[T any](list []string, parse func(string) (T, error)) []T {
	var out []T
	for _, s := range list {
		if v, err := parse(s); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// devices says whether it asks for any.
func (w *want) devices() bool { return w.gpus > 0 || w.milli > 0 }

// likes says whether a device of this model will do.
func (w *want) likes(model string) bool {
	return len(w.models) == 0 || slices.ContainsFunc(w.models, func(m string) bool { return strings.Contains(model, m) })
}

// tolerates says whether the job may go where the taint is.
func (w *want) tolerates(t ares.Taint) bool {
	return slices.ContainsFunc(w.tolerations, func(o ares.Toleration) bool { return o.Tolerates(t) })
}

// mask is the devices of a profile that fit.
func (w *want) mask(p *profile) uint64 {
	t := w.taste
	for len(t.masks) <= p.id {
		t.masks = append(t.masks, unknownMask)
	}
	if t.masks[p.id] == unknownMask {
		t.masks[p.id] = p.fitting(w)
	}
	return t.masks[p.id]
}

// unknownMask is not yet worked out. A machine of 64 devices that all fit looks
// the same and is worked out each time.
const unknownMask = ^uint64(0)

// each says in words what one member asks for.
func (w *want) each() string {
	var parts []string
	add := func(n int, one, many string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, many))
		}
	}
	kind := w.device()
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

// device is the word for one device of the kind asked for.
func (w *want) device() string {
	switch {
	case w.mig != "":
		return w.mig + " slice"
	case w.kind == "custom":
		return "custom device"
	}
	return strings.ToUpper(w.kind)
}

// wants holds the wants of live jobs, one of each, and their tastes.
type wants struct {
	byKey  map[string]*want
	tastes map[string]*taste
}

func (ws *wants) intern(w *want) *want {
	if known := ws.byKey[w.key]; known != nil {
		w = known
	} else {
		ws.share(w)
		ws.byKey[w.key] = w
		ws.tastes[w.taste.key] = w.taste
		w.taste.refs++
	}
	w.refs++
	return w
}

// share gives a want the taste of those that live, if they have the like.
func (ws *wants) share(w *want) {
	if known := ws.tastes[w.taste.key]; known != nil {
		w.taste = known
	}
}

func (ws *wants) release(w *want) {
	if w.refs--; w.refs > 0 {
		return
	}
	delete(ws.byKey, w.key)
	if w.taste.refs--; w.taste.refs == 0 {
		delete(ws.tastes, w.taste.key)
	}
}

// without is the want with some models left out, because quotas leave too
// little of them.
func (s *State) without(w *want, ban uint64) *want {
	if ban == 0 {
		return w
	}
	if w.narrow == nil {
		w.narrow = map[uint64]*want{}
	}
	if w.narrow[ban] == nil {
		n := *w
		n.id = s.newWant()
		n.ban, n.board, n.tried, n.narrow, n.failed, n.gains, n.listed = ban, board{}, nil, nil, 0, gains{}, false
		n.taste = &taste{key: fmt.Sprintf("%s -%x", w.taste.key, ban)}
		w.narrow[ban] = &n
	}
	return w.narrow[ban]
}

// newWant is a number that no other want has.
func (s *State) newWant() int {
	s.wants++
	return s.wants
}
