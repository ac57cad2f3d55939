package cluster

import (
	"fmt"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Filter is one row of the table of filters: one reason why a member cannot be placed on a node. The rows of this
// table determine four things: the feasible sets, the diagnosis of a waiting job, the text of its explanation, and
// the fields that a remedy may drop.
//
// To add a filter, add its reason to reasons.go in the order of precedence, add a row to this table, and write a
// scenario that shows the filter.
type Filter struct {
	Reason Reason
	// Kind is the kind of blocker that users see for this reason.
	Kind string
	// The function `rejects` reports whether the filter excludes the node. It is nil if the filter tests devices,
	// or if other code finds the reason. The method `deviceReasons` finds ReasonUnhealthy and ReasonBusyDevices.
	// ReasonsAgainst finds ReasonNUMA. Package explain finds ReasonReserved, ReasonJobAffinity and ReasonHeld.
	rejects func(n *Node, w *Request) bool
	// passesDevice reports whether a device passes the filter. It is nil for a filter that tests only nodes.
	passesDevice func(d *DeviceSpec, w *Request) bool
	// The field `static` is true if the filter's result depends on the node's traits and not on its allocations. The
	// feasible set of a request is the result of the static filters, so it stays valid until a node's traits change.
	// All device filters are static.
	static bool
	// The field `busy` is true if the reason can disappear when other jobs end.
	busy bool
	// The field `lasting` is true if the filter would also exclude a new node of the same kind.
	lasting bool
	// Text returns the sentence about the nodes that the filter excludes. The sentence is part of an explanation.
	Text func(d *Details) string
	// Drop lists those fields of the job's spec whose removal could let the node pass the filter. A field becomes
	// a remedy only after a trial has shown that dropping it helps.
	Drop []Droppable
}

// Details holds the values that Filter.Text may mention.
type Details struct {
	Request  *Request
	Model    string // gpu_model as the job spells it
	MostFree int    // largest number of free devices among the nodes with too few
	// SeatLimit is the maximum number of ranks on one node.
	SeatLimit int
	// OneNUMAFor is the field of the job that requires one NUMA node, if it is not obvious to users. It is "" otherwise.
	OneNUMAFor string
}

// Droppable is a field of a job that a remedy may drop.
type Droppable struct {
	Field string
	If    func(j *ares.Job) bool // reports whether the job sets the field; nil means that every job does
}

// Filters is the table of filters. Invariant: Filters[r].Reason == r.
var Filters = [...]Filter{
	{
		Reason: ReasonNoSession, Kind: ares.BlockerNodes,
		rejects: func(n *Node, _ *Request) bool { return n.Session == nil },
		Text:    text("no session: the node's agent is not connected"),
	},
	{
		Reason: ReasonCordoned, Kind: ares.BlockerNodes,
		rejects: func(n *Node, _ *Request) bool { return n.Cordon != nil },
		Text:    text("cordoned"),
	},
	{
		Reason: ReasonUnfit, Kind: ares.BlockerNodes,
		rejects: func(n *Node, _ *Request) bool { return n.Record.Unfit != "" },
		Text:    text("the node recently failed to start jobs"),
	},
	{
		Reason: ReasonSelector, Kind: ares.BlockerNodes, static: true, lasting: true,
		rejects: func(n *Node, w *Request) bool { return !n.matchesSelector(w) },
		Text:    func(d *Details) string { return "labels do not match node_selector " + d.Request.selectorText() },
		Drop:    []Droppable{{Field: "placement.node_selector", If: func(j *ares.Job) bool { return !j.Required() }}},
	},
	{
		Reason: ReasonNodeAffinity, Kind: ares.BlockerNodes, static: true, lasting: true,
		rejects: func(n *Node, w *Request) bool { return !n.matchesAffinity(w) },
		Text:    text("labels do not match node_affinity"),
		Drop:    []Droppable{{Field: "placement.node_affinity"}},
	},
	{
		Reason: ReasonRequirements, Kind: ares.BlockerNodes, static: true, lasting: true,
		rejects:      func(n *Node, w *Request) bool { return !n.meetsRequirements(w) },
		passesDevice: func(d *DeviceSpec, w *Request) bool { return w.rules.requirements.MatchesDevice(d.model, d.memory) },
		Text: func(d *Details) string {
			return "the node does not meet node_requirements " + d.Request.rules.requirements.String()
		},
		Drop: []Droppable{{Field: "placement.node_requirements"}},
	},
	{
		Reason: ReasonRegion, Kind: ares.BlockerNodes, static: true, lasting: true,
		rejects: func(n *Node, w *Request) bool {
			return len(w.regions) > 0 && !slices.Contains(w.regions, n.Place.Region)
		},
		Text: func(d *Details) string { return "region is not one of " + strings.Join(d.Request.regions, ", ") },
		Drop: []Droppable{{Field: "placement.regions"}},
	},
	{
		Reason: ReasonTaint, Kind: ares.BlockerNodes, static: true, lasting: true,
		rejects: func(n *Node, w *Request) bool { return !n.toleratedBy(w) },
		Text:    text("a taint that the job does not tolerate"), // the remedy is to tolerate the taint
	},
	{
		// A job on such a node runs as the agent's own user. Dropping a field of the job cannot help, so the text says what does.
		Reason: ReasonUntrusted, Kind: ares.BlockerNodes, static: true, lasting: true,
		rejects: func(n *Node, w *Request) bool { return n.Record.TrustedOnly && !w.rules.trusted },
		Text: text("the node runs jobs without isolation, so it accepts only jobs of platform administrators: " +
			"run its agent as root (docs/guide/isolation.md), or set isolation.allow_untrusted there"),
	},
	{
		// What runs in an image differs from what runs without it, so the remedy is never to leave the image out.
		// A node can run images as soon as somebody installs a runtime, so the job waits for that.
		Reason: ReasonImages, Kind: ares.BlockerNodes, static: true,
		rejects: func(n *Node, w *Request) bool { return w.rules.image && !n.Record.Images },
		Text: text("the node cannot run images, and ares node get says why: " +
			"install runc there and run its agent as root (docs/guide/containers.md)"),
	},
	{
		// A program that must be root fails without it, so the remedy is never to drop the field. The node's settings can change.
		Reason: ReasonContainerRoot, Kind: ares.BlockerNodes, static: true,
		rejects: func(n *Node, w *Request) bool { return w.rules.containerRoot && !n.Record.ContainerRoot },
		Text: text("the node cannot make a job root in its image (container_root), and ares node get says why: " +
			"let users make user namespaces there (docs/guide/containers.md)"),
	},
	{
		// What must not reach the network must not get it because there is no other node, so the remedy is never to drop the field.
		Reason: ReasonNetwork, Kind: ares.BlockerNodes, static: true, lasting: true,
		rejects: func(n *Node, w *Request) bool { return w.rules.ownNetwork && !n.Record.OwnNetwork },
		Text: text("the node cannot keep a job from the network (network: none), and ares node get says why: " +
			"update its agent and run it as root (docs/guide/isolation.md)"),
	},
	{
		// A program that waits for input would end at once without it, so the remedy is never to drop the field.
		Reason: ReasonAttach, Kind: ares.BlockerNodes, static: true, lasting: true,
		rejects: func(n *Node, w *Request) bool { return w.rules.attachable && !n.Record.Attachable },
		Text:    text("the node's agent cannot give a job a standard input or a terminal (stdin, tty): update it"),
	},
	{
		Reason: ReasonAccelerator, Kind: ares.BlockerNodes, static: true, lasting: true,
		passesDevice: func(d *DeviceSpec, w *Request) bool { return d.isKind(w) },
		Text: func(d *Details) string {
			if d.Request.MIG != "" {
				return "no " + d.Request.DeviceWord()
			}
			return "no device of type " + d.Request.accelerator
		},
		Drop: []Droppable{{Field: "mig_profile", If: func(j *ares.Job) bool { return j.MIGProfile != "" }}},
	},
	{
		Reason: ReasonModel, Kind: ares.BlockerNodes, static: true, lasting: true,
		passesDevice: func(d *DeviceSpec, w *Request) bool { return w.acceptsDevice(d) },
		Text:         func(d *Details) string { return d.Request.tooFewText() + " of model " + d.Model },
		Drop:         []Droppable{{Field: "gpu_model"}},
	},
	{
		Reason: ReasonDeviceMemory, Kind: ares.BlockerNodes, static: true, lasting: true,
		passesDevice: func(d *DeviceSpec, w *Request) bool { return d.memory >= w.deviceMemory },
		Text: func(d *Details) string {
			return fmt.Sprintf("%s with %d MB of memory", d.Request.tooFewText(), d.Request.deviceMemory)
		},
		Drop: []Droppable{{Field: "gpu_memory_mb"}},
	},
	{
		Reason: ReasonQuota, Kind: ares.BlockerQuota, static: true, lasting: true,
		passesDevice: func(d *DeviceSpec, w *Request) bool { return w.Ban&ModelBit(d.ModelIndex) == 0 },
		Text:         text("only models of which the quota leaves too little"), // the remedy is a larger quota
	},
	{
		Reason: ReasonUnhealthy, Kind: ares.BlockerNodes,
		Text: text("too many devices are unhealthy, too hot or cut into slices"),
	},
	{
		Reason: ReasonTooSmall, Kind: ares.BlockerNodes, lasting: true,
		rejects: func(n *Node, w *Request) bool { return n.Type.MilliCPUs < w.MilliCPUs || n.Record.MemoryMB < w.Memory },
		Text:    func(d *Details) string { return "too small even when empty (" + d.Request.Text() + " for one member)" },
	},
	{Reason: ReasonReserved, Kind: ares.BlockerReservation}, // each reservation has its own blocker
	{
		Reason: ReasonBusyDevices, Kind: ares.BlockerCapacity, busy: true,
		Text: func(d *Details) string {
			if d.Request.Milli > 0 {
				return fmt.Sprintf("no device has %d/1000 free", d.Request.Milli)
			}
			return fmt.Sprintf("too few free devices: %d needed, at most %d free", d.Request.GPUs, d.MostFree)
		},
	},
	{
		Reason: ReasonBusyCPUs, Kind: ares.BlockerCapacity, busy: true,
		rejects: func(n *Node, w *Request) bool {
			return n.Type.MilliCPUs >= w.MilliCPUs && n.Type.MilliCPUs-n.MilliCPUs < w.MilliCPUs
		},
		Text: func(d *Details) string {
			return fmt.Sprintf("too few free CPU cores: %s needed", ares.FormatCPUs(d.Request.MilliCPUs))
		},
	},
	{
		Reason: ReasonBusyMemory, Kind: ares.BlockerCapacity, busy: true,
		rejects: func(n *Node, w *Request) bool {
			return n.Record.MemoryMB >= w.Memory && n.Record.MemoryMB-n.Memory < w.Memory
		},
		Text: func(d *Details) string { return fmt.Sprintf("too little free memory: %d MB needed", d.Request.Memory) },
	},
	{
		Reason: ReasonNUMA, Kind: ares.BlockerCapacity, busy: true,
		Text: func(d *Details) string {
			text := "no NUMA node has all of it free (" + d.Request.Text() + ")"
			if d.OneNUMAFor != "" {
				text += ": " + d.OneNUMAFor + " requires one NUMA node for each member"
			}
			return text
		},
		Drop: []Droppable{
			{Field: "numa_policy", If: func(j *ares.Job) bool { return j.NUMAPolicy == "required" }},
			{Field: "placement.latency_sensitive", If: func(j *ares.Job) bool { return j.Placement().LatencySensitive }},
		},
	},
	{
		Reason: ReasonSeatLimit, Kind: ares.BlockerCapacity, busy: true,
		rejects: func(n *Node, _ *Request) bool { return n.Seats >= n.SeatLimit },
		Text: func(d *Details) string {
			return fmt.Sprintf("%d ranks run on the node, which is the limit", d.SeatLimit)
		},
	},
	{
		Reason: ReasonJobAffinity, Kind: ares.BlockerAffinity, lasting: true,
		Text: text("affinity or anti_affinity to other jobs"),
		Drop: []Droppable{
			{Field: "placement.anti_affinity", If: func(j *ares.Job) bool { return len(j.Placement().AntiAffinity) > 0 }},
			{Field: "placement.affinity", If: func(j *ares.Job) bool { return len(j.Placement().Affinity) > 0 }},
		},
	},
	{Reason: ReasonHeld, Kind: ares.BlockerCapacity, Text: text("the free capacity is held for another job")},
}

// The function `text` returns a function for Filter.Text that always returns the given text.
func text(s string) func(*Details) string { return func(*Details) string { return s } }

// StaticReasons, BusyReasons and LastingReasons are sets of reasons. They contain the reasons of the filters whose
// field `static`, `busy` or `lasting` is true. StaticReasons excludes filters that test only devices.
var (
	StaticReasons  = reasonsWith(func(f *Filter) bool { return f.static && f.rejects != nil })
	BusyReasons    = reasonsWith(func(f *Filter) bool { return f.busy })
	LastingReasons = reasonsWith(func(f *Filter) bool { return f.lasting })
)

func reasonsWith(has func(*Filter) bool) (m Reasons) {
	for i := range Filters {
		if has(&Filters[i]) {
			m |= Filters[i].Reason.Bit()
		}
	}
	return m
}
