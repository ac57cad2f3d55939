package engine

import (
	"cmp"
	"iter"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Config is what the state decides by.
func (s *State) Config() Config { return s.core.cfg }

// Topology is the record of the topology, an empty one when there is none. It
// must not be changed.
func (s *State) Topology() *ares.Topology { return s.core.cluster.topology }

// Nominations yields the seats that are kept for waiting jobs, the oldest first.
// They must not be changed.
func (s *State) Nominations() iter.Seq2[ares.JobID, *ares.Nomination] {
	return func(yield func(ares.JobID, *ares.Nomination) bool) {
		for _, e := range s.core.jobs.running.nominated {
			if !yield(e.id, e.run.Nominated) {
				return
			}
		}
	}
}

// Tenants yields the record of every tenant, by ID. They must not be changed.
func (s *State) Tenants() iter.Seq[*ares.Tenant] {
	var all []*ares.Tenant
	for _, t := range s.core.jobs.tenants { // order-free: sorted right below
		if t.record != nil {
			all = append(all, t.record)
		}
	}
	slices.SortFunc(all, func(a, b *ares.Tenant) int { return cmp.Compare(a.ID, b.ID) })
	return slices.Values(all)
}

// Queues yields the record of every queue, by tenant and name. They must not be
// changed.
func (s *State) Queues() iter.Seq[*ares.Queue] { return s.core.jobs.queues.QueueRecords() }

// Usages yields what archived jobs have used, by tenant and queue.
func (s *State) Usages() iter.Seq[ares.Usage] {
	var all []ares.Usage
	for _, t := range s.core.jobs.tenants { // order-free: sorted right below
		for _, u := range t.archived { // order-free: as above
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b ares.Usage) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Queue, b.Queue))
	})
	return slices.Values(all)
}

// UnknownNodes yields the nodes that have no record though a session, a cordon or
// a seat speaks of them, by ID. The topology may say where they stand.
func (s *State) UnknownNodes() iter.Seq[string] {
	var all []string
	for id, n := range s.core.cluster.nodesByID { // order-free: sorted right below
		if n.record == nil && !n.isUnknown() {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return slices.Values(all)
}

// Snapshot is everything the state is made of, as a batch that brings a new
// state of the same configuration to where this one is. Its events are in no
// order, so that taking it is short: whoever writes it down sorts them. The
// records must not be changed.
func (s *State) Snapshot() ares.Batch {
	b := ares.Batch{Revision: s.core.revision, Reset: true, At: s.core.jobs.at, Events: make([]ares.Event, 0, 2*(len(s.core.jobs.entryByID)+len(s.core.cluster.nodesByID))+len(s.core.jobs.tenants))}
	add := func(e ares.Event) { b.Events = append(b.Events, e) }
	for _, n := range s.core.cluster.nodesByID { // order-free: as the comment says
		if n.record != nil {
			add(ares.Event{Revision: n.record.Revision, Node: n.record})
		}
		if n.session != nil {
			add(ares.Event{Revision: n.session.Revision, Session: n.session})
		}
		if n.cordon != nil {
			add(ares.Event{Revision: n.cordon.Revision, Cordon: n.cordon})
		}
		if n.score != nil {
			add(ares.Event{Revision: n.score.Revision, Score: n.score})
		}
	}
	for _, t := range s.core.jobs.tenants { // order-free: as above
		if t.record != nil {
			add(ares.Event{Revision: t.record.Revision, Tenant: t.record})
		}
		for _, u := range t.archived { // order-free: as above
			add(ares.Event{Revision: u.Revision, Usage: new(u)})
		}
	}
	for q := range s.Queues() {
		add(ares.Event{Revision: q.Revision, Queue: q})
	}
	for r := range s.Reservations() {
		add(ares.Event{Revision: r.Revision, Reservation: r})
	}
	add(ares.Event{Revision: s.core.cluster.topology.Revision, Topology: s.core.cluster.topology})
	for id, e := range s.core.jobs.entryByID { // order-free: as above
		if e.job != nil {
			add(ares.Event{Revision: e.job.Revision, Job: e.job})
		}
		if e.run != nil {
			add(ares.Event{Revision: e.run.Revision, Run: &ares.RunEvent{Job: id, Run: *e.run, Seen: e.delayLearnedAt()}})
		}
		if e.forecast != nil {
			add(ares.Event{Revision: b.Revision, Forecast: e.forecast})
		}
	}
	return b
}
