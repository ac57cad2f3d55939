package choose

import (
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/federation/summary"
)

// Cluster is a member of the federation as the hub knows it.
type Cluster struct {
	Name   string
	Region string
	// Open is true if the cluster gets offers: it is connected, not cordoned, and its link does not flap.
	Open bool
	// Closed says why Open is false.
	Closed  Blocker
	Summary *summary.Summary
	// LocalTenants are the tenants of the hub for which the cluster runs no jobs of the hub.
	LocalTenants []string
}

// fleet has the synthetic nodes of one cluster. A node of the cluster has a slot: a synthetic node that is as large as
// the real one. The part of it that is not free belongs to a job that stands for all jobs there, the holder of the
// slot. So a new summary changes only the holders of some slots. Adding and removing nodes instead would rebuild the
// indexes of the engine each time.
type fleet struct {
	Cluster
	slots  []*slot
	byType map[summary.Type][]*slot
	most   summary.Free // the largest free amounts of a slot
	// granted is the use of the hub's jobs by tenant. The summary counts it too.
	granted map[string]summary.TenantUse
}

// slot is one synthetic node.
type slot struct {
	node *ares.Node
	typ  summary.Type
	free summary.Free // according to the last summary
	held summary.Free // of granted jobs that the summary does not show yet
	seen bool         // the slot has a node of the last summary
}

// clusterZone is the label that keeps the members of a gang in one cluster: synthetic nodes are in a zone that is their
// cluster, in the cluster's region.
const clusterZone = "zone"

// maxSlots limits the slots of one cluster and type. More nodes of one kind are not needed to choose a cluster.
const maxSlots = 1024

// holderTenant owns the holders. It cannot be the name of a real tenant.
const holderTenant = "-held"

// update sets the summary of a cluster and returns the events that bring the engine's state up to date. A slot keeps its
// free capacity if the summary still has a node like it, because granted jobs may be placed there already.
func (f *fleet) update(c Cluster) (events []ares.Event) {
	moved := f.Region != c.Region
	defer f.measure()
	f.Cluster = c
	left := map[summary.Type][]summary.Shape{}
	if c.Summary != nil && c.Open {
		for _, s := range c.Summary.Shapes {
			s.Count = min(s.Count, maxSlots)
			left[s.Type] = append(left[s.Type], s)
		}
	}
	for _, typ := range f.typesOf(c.Summary) {
		shapes, slots := left[typ], f.byType[typ]
		need := 0
		for _, s := range shapes {
			need += s.Count
		}
		for len(slots) < min(need, maxSlots) {
			slots = append(slots, f.addSlot(typ))
			events = append(events, slotEvents(slots[len(slots)-1])...)
		}
		f.byType[typ] = slots
		events = append(events, assign(slots, shapes)...)
	}
	if moved {
		for _, s := range f.slots {
			s.node = f.nodeOf(s.node.ID, s.typ)
			events = append(events, ares.Event{Node: s.node})
		}
	}
	return events
}

// measure finds the largest free amounts.
func (f *fleet) measure() {
	f.most = summary.Free{}
	for _, s := range f.slots {
		f.most = summary.Free{
			Devices: max(f.most.Devices, s.free.Devices), PartMilli: max(f.most.PartMilli, s.free.PartMilli), CPUs: max(f.most.CPUs, s.free.CPUs), MemoryMB: max(f.most.MemoryMB, s.free.MemoryMB),
		}
	}
}

// mayFit reports whether it is worth looking for a slot.
func (f *fleet) mayFit(r *request) bool {
	return f.most.Devices >= r.gpus && (r.milli == 0 || f.most.Devices > 0 || f.most.PartMilli >= r.milli) && f.most.CPUs >= r.cpus && f.most.MemoryMB >= r.memory
}

// typesOf returns the types that the fleet or a summary has, in an order that does not depend on maps.
func (f *fleet) typesOf(s *summary.Summary) []summary.Type {
	var out []summary.Type
	for _, o := range f.slots {
		if len(out) == 0 || !slices.Contains(out, o.typ) {
			out = append(out, o.typ)
		}
	}
	if s != nil {
		for i := range s.Shapes {
			if !slices.Contains(out, s.Shapes[i].Type) {
				out = append(out, s.Shapes[i].Type)
			}
		}
	}
	return out
}

// assign gives each slot a node of the summary, or none, and returns the holders that change.
func assign(slots []*slot, shapes []summary.Shape) (events []ares.Event) {
	keep := make([]bool, len(slots))
	for i, s := range slots {
		at := slices.IndexFunc(shapes, func(o summary.Shape) bool { return o.Count > 0 && s.seen && o.Free == s.free })
		if at >= 0 {
			keep[i] = true
			shapes[at].Count--
		}
	}
	at := 0
	for i, s := range slots {
		if keep[i] {
			continue
		}
		for at < len(shapes) && shapes[at].Count == 0 {
			at++
		}
		free, seen := summary.Free{}, at < len(shapes)
		if seen {
			free = shapes[at].Free
			shapes[at].Count--
		}
		if s.free != free || !s.seen && s.free != (summary.Free{}) {
			s.free = free
			events = append(events, s.hold())
		}
		s.seen = seen
	}
	return events
}

// addSlot adds a full slot.
func (f *fleet) addSlot(typ summary.Type) *slot {
	s := &slot{typ: typ, node: f.nodeOf(fmt.Sprintf("%s/%d", f.Name, len(f.slots)), typ)}
	f.slots = append(f.slots, s)
	return s
}

// nodeOf returns the record of a synthetic node.
func (f *fleet) nodeOf(id string, typ summary.Type) *ares.Node {
	n := &ares.Node{ID: id, CPUs: typ.CPUs, MemoryMB: typ.MemoryMB, Labels: map[string]string{"region": f.Region, clusterZone: f.Name}}
	for i := range typ.Devices {
		n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprint(i), Index: i, Type: "gpu", Model: typ.Model, MemoryMB: typ.DeviceMemoryMB, Healthy: true})
	}
	return n
}

// slotEvents are the events that create a slot.
func slotEvents(s *slot) []ares.Event {
	return []ares.Event{
		{Node: s.node}, {Session: &ares.Session{Node: s.node.ID, Instance: "summary"}},
		{Job: &ares.Job{ID: s.holder(), Spec: ares.Spec{Tenant: holderTenant}.WithDefaults(), Trusted: true}}, s.hold(),
	}
}

func (s *slot) holder() ares.JobID { return ares.JobID("held/" + s.node.ID) }

// hold returns the event that lets the holder have what is not free. Devices that are entirely free are the last ones,
// and the device before them may be free in part.
func (s *slot) hold() ares.Event {
	seat := ares.Seat{Node: s.node.ID, CPUs: s.typ.CPUs - s.free.CPUs, Memory: s.typ.MemoryMB - s.free.MemoryMB, NUMA: -1}
	taken := s.typ.Devices - s.free.Devices
	for i := range taken {
		milli := 1000
		if i == taken-1 {
			milli -= s.free.PartMilli
		}
		seat.Shares = append(seat.Shares, ares.Share{Device: s.node.Devices[i].ID, Index: i, Milli: milli})
	}
	return ares.Event{Run: &ares.RunEvent{Job: s.holder(), Run: placedRun([]ares.Seat{seat})}}
}

// placedRun is the run of a job that has the given seats. The phase tells the engine that the job does not wait.
func placedRun(seats []ares.Seat) ares.Run {
	a := ares.Attempt{Number: 1}
	for _, s := range seats {
		a.Seats = append(a.Seats, ares.SeatStatus{Seat: s, State: ares.SeatClaimed})
	}
	return ares.Run{Phase: ares.Running, Placed: 1, Attempts: []ares.Attempt{a}}
}

// room returns what of the slot is free and not held by a granted job.
func (s *slot) room() summary.Free {
	return summary.Free{
		Devices: max(s.free.Devices-s.held.Devices, 0), PartMilli: max(s.free.PartMilli-s.held.PartMilli, 0),
		CPUs: max(s.free.CPUs-s.held.CPUs, 0), MemoryMB: max(s.free.MemoryMB-s.held.MemoryMB, 0),
	}
}
