package engine

import (
	"cmp"
	"iter"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Config is what the state decides by.
func (s *State) Config() Config { return s.cfg }

// Topology is the record of the topology, an empty one when there is none. It
// must not be changed.
func (s *State) Topology() *ares.Topology { return s.topology }

// Tenants yields the record of every tenant, by ID. They must not be changed.
func (s *State) Tenants() iter.Seq[*ares.Tenant] {
	var all []*ares.Tenant
	for _, t := range s.tenants { // order-free: sorted right below
		if t.record != nil {
			all = append(all, t.record)
		}
	}
	slices.SortFunc(all, func(a, b *ares.Tenant) int { return cmp.Compare(a.ID, b.ID) })
	return slices.Values(all)
}

// Queues yields the record of every queue, by tenant and name. They must not be
// changed.
func (s *State) Queues() iter.Seq[*ares.Queue] { return s.order.Records() }

// Usages yields what archived jobs have used, by tenant and queue.
func (s *State) Usages() iter.Seq[ares.Usage] {
	var all []ares.Usage
	for _, t := range s.tenants { // order-free: sorted right below
		for _, u := range t.archived { // order-free: as above
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b ares.Usage) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Queue, b.Queue))
	})
	return slices.Values(all)
}

// Strangers yields the nodes that have no record though a session, a cordon or
// a seat speaks of them, by ID. The topology may say where they stand.
func (s *State) Strangers() iter.Seq[string] {
	var all []string
	for id, n := range s.byID { // order-free: sorted right below
		if n.record == nil && !n.forgotten() {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return slices.Values(all)
}
