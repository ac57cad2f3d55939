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

// Config is what the state decides by.
func (s *State) Config() config.Config { return s.core.Cfg }

// Topology is the record of the topology, an empty one when there is none. It
// must not be changed.
func (s *State) Topology() *ares.Topology { return s.core.Cluster.Topology }

// Nominations yields the seats that are kept for waiting jobs, the oldest first.
// They must not be changed.
func (s *State) Nominations() iter.Seq2[ares.JobID, *ares.Nomination] {
	return func(yield func(ares.JobID, *ares.Nomination) bool) {
		for _, e := range s.core.Jobs.Running.Nominated {
			if !yield(e.ID, e.Run.Nominated) {
				return
			}
		}
	}
}

// Tenants yields the record of every tenant, by ID. They must not be changed.
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

// Queues yields the record of every queue, by tenant and name. They must not be
// changed.
func (s *State) Queues() iter.Seq[*ares.Queue] { return s.core.Jobs.Queues.QueueRecords() }

// Usages yields what archived jobs have used, by tenant and queue.
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

// UnknownNodes yields the nodes that have no record though a session, a cordon or
// a seat speaks of them, by ID. The topology may say where they stand.
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

// Snapshot is everything the state is made of, as a batch that brings a new
// state of the same configuration to where this one is. Its events are in no
// order, so that taking it is short: whoever writes it down sorts them. The
// records must not be changed.
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

// WouldBorrow says whether a waiting job would hold more than quotas promise it: it
// may have to wait, though it fits, while others take back what they lent.
func (s *State) WouldBorrow(id ares.JobID) bool {
	e := s.core.Jobs.EntryByID[id]
	return e != nil && e.Job != nil && s.core.Jobs.WouldBorrowNow(e)
}

// BudgetUsed is the GPU-seconds a tenant's jobs have used in the month of now.
func BudgetUsed(s *State, tenantID string, now time.Time) int64 {
	if t := s.core.Jobs.Tenants[tenantID]; t != nil {
		return s.core.Jobs.BudgetUsed(t, now)
	}
	return 0
}

// Revision is the store revision the state shows.
func (s *State) Revision() int64 { return s.core.Revision }

// Job finds a live job. It must not be changed.
func (s *State) Job(id ares.JobID) (*ares.Job, bool) {
	e := s.core.Jobs.EntryByID[id]
	if e == nil || e.Job == nil {
		return nil, false
	}
	return e.Job, true
}

// Run is a copy of a job's run for the caller to change and commit. A job
// without a stored run has the run of one just accepted.
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

// Jobs yields every live job by ID with its run, nil where none is stored.
// Neither may be changed.
func (s *State) Jobs() iter.Seq2[*ares.Job, *ares.Run] {
	return func(yield func(*ares.Job, *ares.Run) bool) {
		for _, e := range s.core.Jobs.Entries() {
			if e.Job != nil && !yield(e.Job, e.Run) {
				return
			}
		}
	}
}

// Nodes yields every node with a record by ID, with its session, cordon
// and score, nil where it has none. They must not be changed.
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

// NodeView is what the state knows of a node.
type NodeView struct {
	Node    *ares.Node
	Session *ares.Session
	Cordon  *ares.Cordon
	Score   *ares.NodeScore
}

// Tenant finds a tenant and what its jobs hold now: every seat that is not
// free, whatever became of the job.
func (s *State) Tenant(id string) (*ares.Tenant, ares.Use, bool) {
	t := s.core.Jobs.Tenants[id]
	if t == nil || t.Record == nil {
		return nil, ares.Use{}, false
	}
	return t.Record, t.Use, true
}

// PlannedStarts are the reservations of the last decision, in the order of the jobs.
// They are a part of no plan, and good until the next decision.
func (s *State) PlannedStarts() []ares.Promise { return s.round.PlannedStarts }

// ExpectedEnd is when a job that started now would have ended in nine of ten cases; it
// is false when nobody knows.
func (s *State) ExpectedEnd(id ares.JobID, now time.Time) (time.Time, bool) {
	e := s.core.Jobs.EntryByID[id]
	if e == nil || e.Job == nil {
		return time.Time{}, false
	}
	_, late := e.Remaining(now)
	return now.Add(late), late != job.Forever
}

// Fairness says who holds how much of the fleet against what is theirs, by the
// same figures that decide whose turn it is.
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
		f.DominantShare, resource = s.core.Jobs.DominantPart(sh.Allocated)
		f.PastShare, _ = s.core.Jobs.DominantPart(sh.PastUse)
		if sh.Allocated != (queue.Resources{}) {
			f.Resource = resource
		}
		out.Shares = append(out.Shares, f)
	}
	return out
}

// FreeCapacity is what a node has left.
type FreeCapacity struct {
	Node     *ares.Node
	Whole    int      // devices of which nobody holds a part
	Parts    []uint16 // thousandths left of the devices of which a part is held
	CPUs     int
	MemoryMB int
}

// Milli is what is left of the node's devices, in thousandths.
func (r *FreeCapacity) Milli() int {
	sum := r.Whole * cluster.WholeMilli
	for _, left := range r.Parts {
		sum += int(left)
	}
	return sum
}

// FreeCapacities yields what every node has left, by place, then ID: for those who watch
// how full a fleet is. A room is good until the next one is asked for, and
// nothing of it may be changed.
func (s *State) FreeCapacities() iter.Seq[*FreeCapacity] {
	return func(yield func(*FreeCapacity) bool) {
		s.core.Refresh()
		var room FreeCapacity
		for _, n := range s.core.Cluster.Nodes {
			if n.Record == nil {
				continue
			}
			parts := room.Parts[:0]
			if n.Schedulable() {
				for m := n.Usable &^ n.Free; m != 0; m &= m - 1 {
					if left := n.FreeMilliOf(bits.TrailingZeros64(m)); left > 0 {
						parts = append(parts, uint16(left))
					}
				}
			}
			room = FreeCapacity{Node: n.Record, Whole: bits.OnesCount64(n.Free), Parts: parts, CPUs: n.Record.CPUs - n.CPUs, MemoryMB: n.Record.MemoryMB - n.Memory}
			if !yield(&room) {
				return
			}
		}
	}
}

// FoldUsage adds what a live job has used to what archived jobs of its queue have,
// as of a time: the record to write when the job itself goes. A job that used
// nothing changes nothing.
func FoldUsage(s *State, id ares.JobID, before ares.Usage, at time.Time) ares.Usage {
	e := s.core.Jobs.EntryByID[id]
	if e == nil || len(e.Held.Past) == 0 {
		return before
	}
	var runs []queue.AttemptUse
	for _, p := range e.Held.Past {
		if p.To.IsZero() { // it ends now
			p.To = at
		}
		runs = append(runs, queue.AttemptUse{Resources: p.Use, GPUMilli: p.Milli, Start: p.From, End: p.To})
	}
	return queue.ArchiveUse(before, runs, s.core.Cfg.HalfLife, at)
}

// Forecast is how long a live job is thought to run; false when nobody said.
func (s *State) Forecast(id ares.JobID) (ares.RuntimePredicted, bool) {
	e := s.core.Jobs.EntryByID[id]
	if e == nil || e.Forecast == nil {
		return ares.RuntimePredicted{}, false
	}
	return *e.Forecast, true
}

// Reservations yields the record of every reservation, by its beginning, then
// name. They must not be changed.
func (s *State) Reservations() iter.Seq[*ares.Reservation] {
	return func(yield func(*ares.Reservation) bool) {
		for _, v := range s.core.Windows.Windows {
			if !yield(v.Reservation) {
				return
			}
		}
	}
}

// Check says which law the state breaks, nil for none: no device is sold twice,
// every attempt has its whole gang, and the accounts, queues and index that are
// kept up to date say the same as counting anew. Tests, the simulator and a
// server in debug mode share it; it looks at everything and is not cheap.
func (s *State) Check() error {
	if t := s.round; len(t.Txn.Deltas)+len(t.Place.Placed)+len(t.Backfill.Holds)+len(t.Preempt.Stopping)+len(t.Preempt.Victims) > 0 {
		return fmt.Errorf("something is left of a decision")
	}
	return s.core.Check()
}
