package engine

import (
	"cmp"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/queue"

	ares "github.com/ares-scheduler/ares"
)

// Config returns the configuration of the state.
func (s *State) Config() config.Config { return s.core.Cfg }

// Topology returns the topology record, an empty one if there is none. It must not be
// changed.
func (s *State) Topology() *ares.Topology { return s.core.Cluster.Topology }

// Nominations yields the nominations of waiting jobs, the oldest first. They must not
// be changed.
func (s *State) Nominations() iter.Seq2[ares.JobID, *ares.Nomination] {
	return func(yield func(ares.JobID, *ares.Nomination) bool) {
		for _, e := range s.core.Jobs.Running.Nominated {
			if !yield(e.ID, e.Run.Nominated) {
				return
			}
		}
	}
}

// Tenants yields the record of every tenant, by ID. The records must not be changed.
func (s *State) Tenants() iter.Seq[*ares.Tenant] {
	var all []*ares.Tenant
	for _, t := range s.core.Jobs.Tenants { // order-free: sorted right below
		if t.Record != nil {
			all = append(all, t.Record)
		}
	}
	slices.SortFunc(all, func(a, b *ares.Tenant) int { return cmp.Compare(a.ID, b.ID) })
	return slices.Values(all)
}

// Queues yields the record of every queue, by tenant and name. The records must not be
// changed.
func (s *State) Queues() iter.Seq[*ares.Queue] { return s.core.Jobs.Queues.QueueRecords() }

// Usages yields the usage of archived jobs, by tenant and queue.
func (s *State) Usages() iter.Seq[ares.Usage] {
	var all []ares.Usage
	for _, t := range s.core.Jobs.Tenants { // order-free: sorted right below
		for _, u := range t.Archived { // order-free: as above
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b ares.Usage) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Queue, b.Queue))
	})
	return slices.Values(all)
}

// UnknownNodes yields by ID the nodes without a record that another record, such as a
// session, a cordon or a seat, refers to.
func (s *State) UnknownNodes() iter.Seq[string] {
	var all []string
	for id, n := range s.core.Cluster.NodesByID { // order-free: sorted right below
		if n.Record == nil && !n.IsUnknown() {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return slices.Values(all)
}

// Snapshot returns all records as a batch that brings a new state with the same
// configuration to this revision. The events are in no order, so that the call is
// short; a caller that stores them sorts them. The records must not be changed.
func (s *State) Snapshot() ares.Batch {
	b := ares.Batch{Revision: s.core.Revision, Reset: true, At: s.core.Jobs.At, Events: make([]ares.Event, 0, 2*(len(s.core.Jobs.EntryByID)+len(s.core.Cluster.NodesByID))+len(s.core.Jobs.Tenants))}
	add := func(e ares.Event) { b.Events = append(b.Events, e) }
	for _, n := range s.core.Cluster.NodesByID { // order-free: as the comment says
		if n.Record != nil {
			add(ares.Event{Revision: n.Record.Revision, Node: n.Record})
		}
		if n.Session != nil {
			add(ares.Event{Revision: n.Session.Revision, Session: n.Session})
		}
		if n.Cordon != nil {
			add(ares.Event{Revision: n.Cordon.Revision, Cordon: n.Cordon})
		}
		if n.Score != nil {
			add(ares.Event{Revision: n.Score.Revision, Score: n.Score})
		}
	}
	for _, t := range s.core.Jobs.Tenants { // order-free: as above
		if t.Record != nil {
			add(ares.Event{Revision: t.Record.Revision, Tenant: t.Record})
		}
		for _, u := range t.Archived { // order-free: as above
			add(ares.Event{Revision: u.Revision, Usage: new(u)})
		}
	}
	for q := range s.Queues() {
		add(ares.Event{Revision: q.Revision, Queue: q})
	}
	for r := range s.Reservations() {
		add(ares.Event{Revision: r.Revision, Reservation: r})
	}
	add(ares.Event{Revision: s.core.Cluster.Topology.Revision, Topology: s.core.Cluster.Topology})
	for id, e := range s.core.Jobs.EntryByID { // order-free: as above
		if e.Job != nil {
			add(ares.Event{Revision: e.Job.Revision, Job: e.Job})
		}
		if e.Run != nil {
			add(ares.Event{Revision: e.Run.Revision, Run: &ares.RunEvent{Job: id, Run: *e.Run, Seen: e.DelayLearnedAt()}})
		}
		if e.Forecast != nil {
			add(ares.Event{Revision: b.Revision, Forecast: e.Forecast})
		}
	}
	return b
}

// WouldBorrow reports whether a waiting job would exceed its nominal quota. Such a job
// may have to wait though it fits, while other jobs reclaim borrowed quota.
func (s *State) WouldBorrow(id ares.JobID) bool {
	e := s.core.Jobs.EntryByID[id]
	return e != nil && e.Job != nil && s.core.Jobs.WouldBorrowNow(e)
}

// BudgetUsed returns the GPU-seconds that jobs of a tenant used in the month of now.
func BudgetUsed(s *State, tenantID string, now time.Time) int64 {
	if t := s.core.Jobs.Tenants[tenantID]; t != nil {
		return s.core.Jobs.BudgetUsed(t, now)
	}
	return 0
}

// Revision returns the store revision of the state.
func (s *State) Revision() int64 { return s.core.Revision }

// Job returns a live job. It must not be changed.
func (s *State) Job(id ares.JobID) (*ares.Job, bool) {
	e := s.core.Jobs.EntryByID[id]
	if e == nil || e.Job == nil {
		return nil, false
	}
	return e.Job, true
}

// Run returns a copy of the run of a job, which the caller may change and commit. For a
// job without a stored run it is the run of a job that was just accepted.
func (s *State) Run(id ares.JobID) (ares.Run, bool) {
	e := s.core.Jobs.EntryByID[id]
	switch {
	case e == nil:
		return ares.Run{}, false
	case e.Run != nil:
		return e.Run.Clone(), true
	default:
		return ares.NewRun(e.Job.AcceptedAt), true
	}
}

// Jobs yields every live job by ID with its run, nil if none is stored. Neither may be
// changed.
func (s *State) Jobs() iter.Seq2[*ares.Job, *ares.Run] {
	return func(yield func(*ares.Job, *ares.Run) bool) {
		for _, e := range s.core.Jobs.Entries() {
			if e.Job != nil && !yield(e.Job, e.Run) {
				return
			}
		}
	}
}

// Nodes yields every node with a record, by ID. The records must not be changed.
func (s *State) Nodes() iter.Seq[NodeView] {
	return func(yield func(NodeView) bool) {
		all := make([]*cluster.Node, 0, len(s.core.Cluster.NodesByID))
		for _, n := range s.core.Cluster.NodesByID { // order-free: sorted right below
			all = append(all, n)
		}
		slices.SortFunc(all, func(a, b *cluster.Node) int { return cmp.Compare(a.ID, b.ID) })
		for _, n := range all {
			if n.Record != nil && !yield(NodeView{n.Record, n.Session, n.Cordon, n.Score}) {
				return
			}
		}
	}
}

// NodeView has the records of a node.
type NodeView struct {
	Node    *ares.Node
	Session *ares.Session   // nil if the agent is not connected
	Cordon  *ares.Cordon    // nil if there is none
	Score   *ares.NodeScore // nil if there is none
}

// Tenant returns a tenant and what its jobs hold now: every seat counts until it is
// released or cleared, whatever the phase of its job.
func (s *State) Tenant(id string) (*ares.Tenant, ares.Use, bool) {
	t := s.core.Jobs.Tenants[id]
	if t == nil || t.Record == nil {
		return nil, ares.Use{}, false
	}
	return t.Record, t.Use, true
}

// PlannedStarts returns the backfill reservations of the last cycle, in the order in
// which they were made. They are not part of the plan, and valid until the next cycle.
func (s *State) PlannedStarts() []ares.PlannedStart { return s.round.PlannedStarts }

// ExpectedEnd returns the p90 of the end of a job that started now; false if there is
// no estimate.
func (s *State) ExpectedEnd(id ares.JobID, now time.Time) (time.Time, bool) {
	e := s.core.Jobs.EntryByID[id]
	if e == nil || e.Job == nil {
		return time.Time{}, false
	}
	_, late := e.Remaining(now)
	return now.Add(late), late != job.Forever
}

// Fairness returns the shares of tenants and queues of the cluster beside their fair
// shares: the same numbers that decide the queue order.
func Fairness(s *State, now time.Time) ares.Fairness {
	s.core.Refresh()
	shares := s.core.Jobs.Queues.Shares(now)
	out := ares.Fairness{Jain: queue.JainIndex(shares)}
	for _, sh := range shares {
		f := ares.FairShare{
			Tenant: sh.Tenant, Queue: sh.Queue, Weight: float64(sh.Weight) / 1000, Counts: float64(sh.EffectiveWeight) / 1000, GPUMilli: int(sh.Allocated.GPU), CPUs: int(sh.Allocated.CPU),
			MemoryMB: int(sh.Allocated.Memory), Waiting: sh.Waiting, WeightedShare: int(sh.WeightedShare), FairShare: int(sh.FairShare),
		}
		var resource string
		f.DominantShare, resource = s.core.Jobs.DominantShare(sh.Allocated)
		f.PastShare, _ = s.core.Jobs.DominantShare(sh.PastUse)
		if sh.Allocated != (queue.Resources{}) {
			f.Resource = resource
		}
		out.Shares = append(out.Shares, f)
	}
	return out
}

// FreeCapacity is the free capacity of a node.
type FreeCapacity struct {
	Node     *ares.Node
	Whole    int      // usable devices that are entirely free
	Parts    []uint16 // free thousandths of devices that are partly held
	CPUs     int
	MemoryMB int
}

// Milli returns the free thousandths of all devices of the node.
func (r *FreeCapacity) Milli() int {
	sum := r.Whole * cluster.WholeMilli
	for _, left := range r.Parts {
		sum += int(left)
	}
	return sum
}

// FreeCapacities yields the free capacity of every node, by location, then ID. A value
// is valid until the next one, and must not be changed.
func (s *State) FreeCapacities() iter.Seq[*FreeCapacity] {
	return func(yield func(*FreeCapacity) bool) {
		s.core.Refresh()
		var free FreeCapacity
		for _, n := range s.core.Cluster.Nodes {
			if n.Record == nil {
				continue
			}
			parts := free.Parts[:0]
			if n.Schedulable() {
				for m := n.Usable &^ n.Free; m != 0; m &= m - 1 {
					if left := n.FreeMilliOf(bits.TrailingZeros64(m)); left > 0 {
						parts = append(parts, uint16(left))
					}
				}
			}
			free = FreeCapacity{Node: n.Record, Whole: bits.OnesCount64(n.Free), Parts: parts, CPUs: n.Record.CPUs - n.CPUs, MemoryMB: n.Record.MemoryMB - n.Memory}
			if !yield(&free) {
				return
			}
		}
	}
}

// FoldUsage adds the usage of a live job to the usage of archived jobs of its queue, as
// of a time. It returns the record to write when the job is archived; before itself if
// the job used nothing.
func FoldUsage(s *State, id ares.JobID, before ares.Usage, at time.Time) ares.Usage {
	e := s.core.Jobs.EntryByID[id]
	if e == nil || len(e.Held.Past) == 0 {
		return before
	}
	var runs []queue.AttemptUse
	for _, p := range e.Held.Past {
		if p.To.IsZero() { // still held: counts until at
			p.To = at
		}
		runs = append(runs, queue.AttemptUse{Resources: p.Use, GPUMilli: p.Milli, Start: p.From, End: p.To})
	}
	return queue.ArchiveUse(before, runs, s.core.Cfg.HalfLife, at)
}

// Forecast returns the predicted runtime of a live job; false if there is none.
func (s *State) Forecast(id ares.JobID) (ares.RuntimePredicted, bool) {
	e := s.core.Jobs.EntryByID[id]
	if e == nil || e.Forecast == nil {
		return ares.RuntimePredicted{}, false
	}
	return *e.Forecast, true
}

// Reservations yields the record of every reservation, by start, then name. The records
// must not be changed.
func (s *State) Reservations() iter.Seq[*ares.Reservation] {
	return func(yield func(*ares.Reservation) bool) {
		for _, v := range s.core.Windows.Windows {
			if !yield(v.Reservation) {
				return
			}
		}
	}
}

// Check verifies the invariants of the state: no device is allocated twice, every
// attempt has its whole gang, and the accounts, queues and indexes that are updated
// with every event equal those computed from the records. It is expensive: for tests,
// the simulator and servers with scheduler.check_laws.
func (s *State) Check() error {
	if t := s.round; len(t.Txn.Deltas)+len(t.Place.Placed)+len(t.Backfill.Holds)+len(t.Preempt.Stopping)+len(t.Preempt.Victims) > 0 {
		return fmt.Errorf("a cycle left changes in the state")
	}
	return s.core.Check()
}
