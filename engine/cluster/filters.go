package cluster

import (
	"fmt"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Filter is one row of the table of filters: one thing that can rule a node out for a
// member of a job. The feasible sets of nodes, the diagnosis of a waiting job, the
// words of its explanation and the fields that a remedy may drop are all made from
// these rows.
//
// To add a filter: add a reason (reasons.go) in the place where it is to be told, add
// the row here, and write a scenario that shows it.
type Filter struct {
	Reason Reason
	// Kind is the kind of blocker that the reason is told as.
	Kind string
	// Rejects says whether the node is ruled out. It is nil for a filter of
	// devices, and for a reason that something else than node and request decides.
	Rejects func(n *Node, w *Request) bool
	// PassesDevice says whether a device will do. It is nil for a filter of nodes.
	PassesDevice func(d *DeviceSpec, w *Request) bool
	// Static says that what the node is like decides, not what is taken of it:
	// such filters make the feasible set of a request, which is kept until a
	// node changes. All filters of devices are static.
	Static bool
	// Busy says that the reason goes away when other jobs end.
	Busy bool
	// Lasting says that another node like this one would be ruled out too.
	Lasting bool
	// Text says what is wrong with the nodes.
	Text func(d *Details) string
	// Drop is the fields of the job without which the filter would pass. Each is
	// offered as a remedy only after it was tried.
	Drop []Droppable
}

// Details is what the text of a filter may mention.
type Details struct {
	Request  *Request
	Model    string // gpu_model as the job spells it
	MostFree int    // the most free devices of a node that has too few
}

// Droppable is a field of a job that a remedy may drop.
type Droppable struct {
	Field string
	If    func(j *ares.Job) bool // nil for always
}

// Filters is the table, by reason.
var Filters = [...]Filter{
	{
		Reason: ReasonNoSession, Kind: ares.BlockerNodes,
		Rejects: func(n *Node, _ *Request) bool { return n.Session == nil },
		Text:    text("no session: the node's agent is not connected"),
	},
	{
		Reason: ReasonCordoned, Kind: ares.BlockerNodes,
		Rejects: func(n *Node, _ *Request) bool { return n.Cordon != nil },
		Text:    text("cordoned"),
	},
	{
		Reason: ReasonUnfit, Kind: ares.BlockerNodes,
		Rejects: func(n *Node, _ *Request) bool { return n.Record.Unfit != "" },
		Text:    text("it could not start jobs lately"),
	},
	{
		Reason: ReasonSelector, Kind: ares.BlockerNodes, Static: true, Lasting: true,
		Rejects: func(n *Node, w *Request) bool { return !n.matchesSelector(w) },
		Text:    func(d *Details) string { return "labels do not match node_selector " + d.Request.SelectorText() },
		Drop:    []Droppable{{Field: "placement.node_selector", If: func(j *ares.Job) bool { return !j.Required() }}},
	},
	{
		Reason: ReasonNodeAffinity, Kind: ares.BlockerNodes, Static: true, Lasting: true,
		Rejects: func(n *Node, w *Request) bool { return !n.matchesAffinity(w) },
		Text:    text("labels do not match node_affinity"),
		Drop:    []Droppable{{Field: "placement.node_affinity"}},
	},
	{
		Reason: ReasonRequirements, Kind: ares.BlockerNodes, Static: true, Lasting: true,
		Rejects:      func(n *Node, w *Request) bool { return !n.meetsRequirements(w) },
		PassesDevice: func(d *DeviceSpec, w *Request) bool { return w.rules.requirements.MatchesDevice(d.model, d.memory) },
		Text: func(d *Details) string {
			return "the node does not meet node_requirements " + d.Request.rules.requirements.String()
		},
		Drop: []Droppable{{Field: "placement.node_requirements"}},
	},
	{
		Reason: ReasonRegion, Kind: ares.BlockerNodes, Static: true, Lasting: true,
		Rejects: func(n *Node, w *Request) bool {
			return len(w.Regions) > 0 && !slices.Contains(w.Regions, n.Place.Region)
		},
		Text: func(d *Details) string { return "region is not one of " + strings.Join(d.Request.Regions, ", ") },
		Drop: []Droppable{{Field: "placement.regions"}},
	},
	{
		Reason: ReasonTaint, Kind: ares.BlockerNodes, Static: true, Lasting: true,
		Rejects: func(n *Node, w *Request) bool { return !n.toleratedBy(w) },
		Text:    text("a taint that the job does not tolerate"), // its remedy is to tolerate it
	},
	{
		Reason: ReasonAccelerator, Kind: ares.BlockerNodes, Static: true, Lasting: true,
		PassesDevice: func(d *DeviceSpec, w *Request) bool { return d.isKind(w) },
		Text: func(d *Details) string {
			if d.Request.MIG != "" {
				return "no " + d.Request.DeviceWord()
			}
			return "no device of type " + d.Request.Kind
		},
		Drop: []Droppable{{Field: "mig_profile", If: func(j *ares.Job) bool { return j.MIGProfile != "" }}},
	},
	{
		Reason: ReasonModel, Kind: ares.BlockerNodes, Static: true, Lasting: true,
		PassesDevice: func(d *DeviceSpec, w *Request) bool { return w.acceptsModel(d.model) },
		Text:         func(d *Details) string { return d.Request.TooFewText() + " of model " + d.Model },
		Drop:         []Droppable{{Field: "gpu_model"}},
	},
	{
		Reason: ReasonDeviceMemory, Kind: ares.BlockerNodes, Static: true, Lasting: true,
		PassesDevice: func(d *DeviceSpec, w *Request) bool { return d.memory >= w.DeviceMemory },
		Text: func(d *Details) string {
			return fmt.Sprintf("%s with %d MB of memory", d.Request.TooFewText(), d.Request.DeviceMemory)
		},
		Drop: []Droppable{{Field: "gpu_memory_mb"}},
	},
	{
		Reason: ReasonQuota, Kind: ares.BlockerQuota, Static: true, Lasting: true,
		PassesDevice: func(d *DeviceSpec, w *Request) bool { return w.Ban&ModelBit(d.ModelIndex) == 0 },
		Text:         text("only models of which the quota leaves too little"), // its remedy is a larger quota
	},
	{
		Reason: ReasonUnhealthy, Kind: ares.BlockerNodes,
		Text: text("too many devices are unhealthy, too hot or cut into slices"),
	},
	{
		Reason: ReasonTooSmall, Kind: ares.BlockerNodes, Lasting: true,
		Rejects: func(n *Node, w *Request) bool { return n.Type.CPUs < w.CPUs || n.Record.MemoryMB < w.Memory },
		Text:    func(d *Details) string { return "too small even when empty (" + d.Request.Text() + " for one member)" },
	},
	{Reason: ReasonReserved, Kind: ares.BlockerReservation}, // each reservation is told by itself
	{
		Reason: ReasonBusyDevices, Kind: ares.BlockerCapacity, Busy: true,
		Text: func(d *Details) string {
			if d.Request.Milli > 0 {
				return fmt.Sprintf("no device has %d/1000 free", d.Request.Milli)
			}
			return fmt.Sprintf("too few free devices: %d needed, at most %d free", d.Request.GPUs, d.MostFree)
		},
	},
	{
		Reason: ReasonBusyCPUs, Kind: ares.BlockerCapacity, Busy: true,
		Rejects: func(n *Node, w *Request) bool { return n.Type.CPUs >= w.CPUs && n.Type.CPUs-n.CPUs < w.CPUs },
		Text:    func(d *Details) string { return fmt.Sprintf("too few free CPU cores: %d needed", d.Request.CPUs) },
	},
	{
		Reason: ReasonBusyMemory, Kind: ares.BlockerCapacity, Busy: true,
		Rejects: func(n *Node, w *Request) bool {
			return n.Record.MemoryMB >= w.Memory && n.Record.MemoryMB-n.Memory < w.Memory
		},
		Text: func(d *Details) string { return fmt.Sprintf("too little free memory: %d MB needed", d.Request.Memory) },
	},
	{
		Reason: ReasonNUMA, Kind: ares.BlockerCapacity, Busy: true,
		Text: func(d *Details) string { return "no NUMA node has it all free (" + d.Request.Text() + ")" },
		Drop: []Droppable{{Field: "numa_policy", If: func(j *ares.Job) bool { return j.NUMAPolicy == "required" }}},
	},
	{
		Reason: ReasonSeatLimit, Kind: ares.BlockerCapacity, Busy: true,
		Rejects: func(n *Node, _ *Request) bool { return n.Seats >= MaxSeats },
		Text:    func(*Details) string { return fmt.Sprintf("%d seats are taken, which is the most", MaxSeats) },
	},
	{
		Reason: ReasonJobAffinity, Kind: ares.BlockerAffinity, Lasting: true,
		Text: text("affinity or anti_affinity to other jobs"),
		Drop: []Droppable{
			{Field: "placement.anti_affinity", If: func(j *ares.Job) bool { return len(j.Placement.AntiAffinity) > 0 }},
			{Field: "placement.affinity", If: func(j *ares.Job) bool { return len(j.Placement.Affinity) > 0 }},
		},
	},
	{Reason: ReasonHeld, Kind: ares.BlockerCapacity, Text: text("what is free is kept for another job")},
}

// text is the text of a filter that is always the same.
func text(s string) func(*Details) string { return func(*Details) string { return s } }

// The sets of reasons by the properties of their filters.
var (
	StaticReasons  = reasonsWith(func(f *Filter) bool { return f.Static && f.Rejects != nil })
	BusyReasons    = reasonsWith(func(f *Filter) bool { return f.Busy })
	LastingReasons = reasonsWith(func(f *Filter) bool { return f.Lasting })
)

func reasonsWith(has func(*Filter) bool) (m Reasons) {
	for i := range Filters {
		if has(&Filters[i]) {
			m |= Filters[i].Reason.Bit()
		}
	}
	return m
}
