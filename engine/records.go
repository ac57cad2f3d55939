package engine

import (
	"cmp"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/queue"
	"github.com/ares-scheduler/ares/engine/topology"
)

// Config returns the configuration of the state.
func (s *State) Config() config.Config { return s.core.Cfg }

// Topology returns the topology record. The record is empty if no topology is stored. The caller must not
// change the record.
func (s *State) Topology() *ares.Topology { return s.core.Cluster.Topology }

// Nominations yields the nominations of waiting jobs, the oldest first. The caller must not
// change the nominations.
func (s *State) Nominations() iter.Seq2[ares.JobID, *ares.Nomination] {
	return func(yield func(ares.JobID, *ares.Nomination) bool) {
		for _, e := range s.core.Jobs.Running.Nominated {
			if !yield(e.ID, e.Run.Nominated) {
				return
			}
		}
	}
}

// Tenants yields the record of every tenant, sorted by ID. The caller must not change the records.
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

// Queues yields the record of every queue, sorted by tenant and name. The records must not be changed.
func (s *State) Queues() iter.Seq[*ares.Queue] { return s.core.Jobs.Queues.QueueRecords() }

// Usages yields the usage of archived jobs for each queue, sorted by tenant and queue.
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

// UnknownNodes yields the nodes that have no record of their own, although a session, a cordon, a seat or another
// record refers to them. The nodes are sorted by ID.
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

// Snapshot returns all records as one batch. If a new state with the same configuration applies this batch, it
// reaches this revision. To save time, Snapshot does not sort the events. A caller that stores them must sort them
// first. The records must not be changed.
func (s *State) Snapshot() ares.Batch {
	b := ares.Batch{Revision: s.core.Revision, Reset: true, At: s.core.Jobs.At, Events: make([]ares.Event, 0, 2*(len(s.core.Jobs.EntryByID)+len(s.core.Cluster.NodesByID))+len(s.core.Jobs.Tenants))}
	add := func(e ares.Event) { b.Events = append(b.Events, e) }
	for _, n := range s.core.Cluster.NodesByID { // order-free: the result is unsorted
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
		if p := s.core.Jobs.Protection(id); p != nil {
			add(ares.Event{Revision: b.Revision, Protect: p})
		}
	}
	return b
}

// WouldBorrow reports whether a waiting job would exceed its nominal quota. While other jobs reclaim quota, a job
// that would borrow quota may have to wait although it fits.
func (s *State) WouldBorrow(id ares.JobID) bool {
	e := s.core.Jobs.EntryByID[id]
	return e != nil && e.Job != nil && s.core.Jobs.WouldBorrowNow(e)
}

// BudgetUsed returns the GPU-seconds that jobs of a tenant used in the current month, which contains the time
// `now`.
func BudgetUsed(s *State, tenantID string, now time.Time) int64 {
	if t := s.core.Jobs.Tenants[tenantID]; t != nil {
		return s.core.Jobs.BudgetUsed(t, now)
	}
	return 0
}

// Revision returns the store revision of the state.
func (s *State) Revision() int64 { return s.core.Revision }

// Job returns the live job with the given ID. The caller must not change the job.
func (s *State) Job(id ares.JobID) (*ares.Job, bool) {
	e := s.core.Jobs.EntryByID[id]
	if e == nil || e.Job == nil {
		return nil, false
	}
	return e.Job, true
}

// Run returns a copy of a job's run. The caller may change and commit the copy. If no run is stored, the
// result is the run of a newly accepted job.
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

// Jobs yields every live job and its run, sorted by job ID. The run is nil if no run is stored for the job. The
// caller must change neither the job nor its run.
func (s *State) Jobs() iter.Seq2[*ares.Job, *ares.Run] {
	return func(yield func(*ares.Job, *ares.Run) bool) {
		for _, e := range s.core.Jobs.Entries() {
			if e.Job != nil && !yield(e.Job, e.Run) {
				return
			}
		}
	}
}

// Nodes yields every node that has a record, sorted by ID. The caller must not change the records.
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

// NodeView holds the records of a node.
type NodeView struct {
	Node    *ares.Node
	Session *ares.Session   // nil if the agent is not connected
	Cordon  *ares.Cordon    // nil if there is none
	Score   *ares.NodeScore // nil if there is none
}

// NodeAllocation is a node with its location, and the allocated part of each of its devices.
type NodeAllocation struct {
	NodeView
	Location topology.Location
	// Taken has the allocated thousandths of each device in Node.Devices, in the same order. The seats of a lost node
	// count until they are released or cleared. Invariant: 0 <= Taken[i].
	Taken []int
}

// Allocations yields every node that has a record, in no particular order. A yielded value is valid until the next value
// is yielded, and the caller must not change it. Allocations costs little even in a large cluster with many jobs, because
// it reads only the nodes.
func (s *State) Allocations() iter.Seq[*NodeAllocation] {
	return func(yield func(*NodeAllocation) bool) {
		var out NodeAllocation
		for _, n := range s.core.Cluster.NodesByID { // order-free: the result is in no particular order
			if n.Record == nil {
				continue
			}
			out = NodeAllocation{NodeView{n.Record, n.Session, n.Cordon, n.Score}, n.Place, out.Taken[:0]}
			for i := range n.Record.Devices {
				out.Taken = append(out.Taken, n.TakenMilliOf(n.Record.Devices[i].ID, i))
			}
			if !yield(&out) {
				return
			}
		}
	}
}

// WaitingJobs returns the number of live jobs that wait for an allocation, now or after a delay.
func (s *State) WaitingJobs() int { return s.core.Jobs.Waiting }

// Tenant returns a tenant and the resources that its jobs hold now. Every seat counts as held until it is
// released or cleared, regardless of the phase of its job.
func (s *State) Tenant(id string) (*ares.Tenant, ares.Use, bool) {
	t := s.core.Jobs.Tenants[id]
	if t == nil || t.Record == nil {
		return nil, ares.Use{}, false
	}
	return t.Record, t.Use, true
}

// PlannedStarts returns the backfill reservations of the last cycle, in the order in which they were made. The
// planned starts are not part of the plan, and they are valid until the next cycle.
func (s *State) PlannedStarts() []ares.PlannedStart { return s.round.PlannedStarts }

// ExpectedEnd assumes that the job starts now, and returns the p90 of its end. If the job has no runtime
// estimate, ExpectedEnd returns false.
func (s *State) ExpectedEnd(id ares.JobID, now time.Time) (time.Time, bool) {
	e := s.core.Jobs.EntryByID[id]
	if e == nil || e.Job == nil {
		return time.Time{}, false
	}
	_, late := e.Remaining(now)
	return now.Add(late), late != job.Forever
}

// Fairness returns the current and fair shares of tenants and queues. The order of the waiting jobs is computed
// from the same shares.
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
	Parts    []uint16 // free thousandths of devices that are partly allocated
	CPUs     int
	MemoryMB int
}

// Milli returns the total free capacity of the node's devices, in thousandths of a device.
func (r *FreeCapacity) Milli() int {
	sum := r.Whole * cluster.WholeMilli
	for _, left := range r.Parts {
		sum += int(left)
	}
	return sum
}

// FreeCapacities yields the free capacity of every node, sorted by location, then by ID. A yielded value
// is valid until the next value is yielded, and the caller must not change it.
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
			free = FreeCapacity{Node: n.Record, Whole: bits.OnesCount64(n.Free), Parts: parts, CPUs: (n.Type.MilliCPUs - n.MilliCPUs) / 1000, MemoryMB: n.Record.MemoryMB - n.Memory}
			if !yield(&free) {
				return
			}
		}
	}
}

// FoldUsage adds the usage of a live job, up to a given time, to the usage of the archived jobs in its queue.
// The result is the usage record to write when the job is archived. If the job used nothing, FoldUsage returns
// the given usage unchanged.
func FoldUsage(s *State, id ares.JobID, before ares.Usage, at time.Time) ares.Usage {
	e := s.core.Jobs.EntryByID[id]
	if e == nil || len(e.Held.Past) == 0 {
		return before
	}
	var runs []queue.AttemptUse
	for _, p := range e.Held.Past {
		if p.To.IsZero() { // still held, so it counts until at
			p.To = at
		}
		runs = append(runs, queue.AttemptUse{Resources: p.Use, GPUMilli: p.Milli, Start: p.From, End: p.To})
	}
	return queue.ArchiveUse(before, runs, s.core.Cfg.HalfLife, at)
}

// Forecast returns the predicted runtime of a live job, or false if the job has no forecast.
func (s *State) Forecast(id ares.JobID) (ares.RuntimePredicted, bool) {
	e := s.core.Jobs.EntryByID[id]
	if e == nil || e.Forecast == nil {
		return ares.RuntimePredicted{}, false
	}
	return *e.Forecast, true
}

// Protection returns the reason for which a job is protected from preemption, or false if it is not protected by an
// event. Other rules may protect it too; see package preempt.
func (s *State) Protection(id ares.JobID) (why string, ok bool) {
	if p := s.core.Jobs.Protection(id); p != nil {
		return p.Why, true
	}
	return "", false
}

// Reservations yields the record of every reservation, sorted by start, then by name. The records must
// not be changed.
func (s *State) Reservations() iter.Seq[*ares.Reservation] {
	return func(yield func(*ares.Reservation) bool) {
		for _, v := range s.core.Windows.Windows {
			if !yield(v.Reservation) {
				return
			}
		}
	}
}

// Check verifies the invariants of the state. No device may be allocated twice, and every attempt must have its
// whole gang. Every event updates totals, queues and indexes. They must be equal to those that are computed from
// the records alone. Check is expensive, so only tests, the simulator and servers with scheduler.check_laws call
// it.
func (s *State) Check() error {
	if t := s.round; len(t.Txn.Deltas)+len(t.Place.Placed)+len(t.Backfill.Holds)+len(t.Preempt.Stopping)+len(t.Preempt.Victims) > 0 {
		return fmt.Errorf("the scheduling cycle did not undo all its tentative changes")
	}
	return s.core.Check()
}
