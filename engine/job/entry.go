package job

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/queue"
)

// Entry is one job. The job's spec and its run are separate records that may arrive in
// either order, so each of them may be missing.
type Entry struct {
	ID    ares.JobID
	Job   *ares.Job
	Run   *ares.Run // nil while none is stored, which means that the job is pending
	Shape *Shape    // nil without a job
	Slot  int       // Invariant: Table.Slots[Slot] is this entry, while the table has it

	// The following fields are adjacent to Item in memory, because a cycle reads them for every job and spends
	// most of its time on cache misses.
	Plain bool  // neither an array nor an element of one
	array bool  // it is an array
	class uint8 // the submitted class, 0 for the lowest
	changeMarks
	listed     bool // its item in Table.waiting is not stale
	Queue      QueueKind
	Item       queueItem // its position, when it is in the pending queue
	DelayUntil time.Time // the end of its delay, when it is in the delayed queue
	Held       *holdings // the amounts that were added to the accounts, never nil; noHoldings for a job that was never placed

	Ask score.DemandAsk // its part of the demand

	Forecast *ares.RuntimePredicted // the predicted runtime, or nil

	positionTimer timer           // for a pending job whose position changes with time: when it does
	timers        *timers         // nil for a job that never had one of these timers, as most jobs
	RunningList   uint8           // the list of the running index that contains the entry
	runningAt     runningPosition // its positions in the running index
	waitingItem   uint32          // the number of its latest item in Table.waiting; 0 if it has none
	overdue       overdueMark     // whether the job is overdue
	activeAt      int32           // 1 + its index in Tenant.Active; 0 when it is not there

	ElementsMade, MadeInCycle int // for an array: elements created by a cycle, and the number of that cycle
}

// changeMarks say what the current batch has changed.
type changeMarks struct {
	changed      bool // the entry is in Table.ChangedEntries
	stateChanged bool // the entry's dependedState has changed
}

// The type `holdings` holds the amounts that an entry adds to the accounts for shares, limits and quotas.
type holdings struct {
	isConcurrent bool             // the job counts as one of its tenant's concurrent jobs
	Allocation   queue.Allocation // what is allocated now
	Past         []usagePeriod    // by attempt, the running one last

	// Most jobs have one attempt on one model. Its amounts are stored here, so that a placement needs one allocation.
	onePast  [1]usagePeriod
	oneModel [1]queue.GPUAmount
}

// usagePeriod is the usage of one attempt, and the time during which the attempt had its allocation. The field To
// is zero while the attempt still has its allocation.
type usagePeriod struct {
	Use      queue.Resources
	Milli    int64 // GPUs in thousandths, without the weights of models
	From, To time.Time
}

// QueueKind says which queue an entry is in.
type QueueKind uint8

// The queues.
const (
	InNone QueueKind = iota
	InPending
	InDelayed
)

// Phase returns the phase of the job. While no run is stored, the phase is pending.
func (e *Entry) Phase() ares.Phase {
	if e.Run == nil {
		return ares.Pending
	}
	return e.Run.Phase
}

// IsSettled reports whether the next attempt may be placed.
func (e *Entry) IsSettled() bool { return e.Run == nil || e.Run.Stop == nil && e.Run.Settled() }

// countsAsRunning reports whether the job counts as one of its tenant's concurrent jobs. An
// array itself does not count as a concurrent job, but each of its elements does.
func (e *Entry) countsAsRunning() bool {
	return e.Run != nil && (e.Job == nil || !e.IsArray()) && (e.Run.Phase.Active() || !e.Run.Settled())
}

// LastNodes returns the sorted positions of the nodes that the job's last attempt used.
func (j *Table) LastNodes(e *Entry) []int {
	last := e.Run.Last()
	if last == nil {
		return nil
	}
	var at []int
	for i := range last.Seats {
		if n := j.cluster.NodesByID[last.Seats[i].Node]; n != nil {
			at = append(at, n.Pos)
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// MayBePreempted reports whether the job may be preempted by a job of its own queue and class. Such a job allows it,
// see ares.Spec.IsPreemptible, and may be stopped to run elsewhere.
func (e *Entry) MayBePreempted() bool {
	return e.Job.IsPreemptible() && !e.Run.MustFinish(e.Job)
}

// KeepsProgress reports whether the job may be stopped and continues from its last checkpoint elsewhere.
func (e *Entry) KeepsProgress() bool { return e.Job.Checkpoint.Enabled && e.MayBePreempted() }

// RunsWithin reports whether a seat of the running job is on one of the nodes.
func (j *Table) RunsWithin(e *Entry, nodes *cluster.Set) bool {
	a := e.Run.Current()
	return slices.ContainsFunc(a.Seats, func(h ares.SeatStatus) bool {
		n := j.cluster.NodesByID[h.Node]
		return n != nil && nodes.Has(n.Pos)
	})
}

// SharesNodeWith reports whether the running job has a seat on the same node as one of the
// given seats.
func (e *Entry) SharesNodeWith(seats []ares.Seat) bool {
	return slices.ContainsFunc(e.Run.Current().Seats, func(h ares.SeatStatus) bool {
		return slices.ContainsFunc(seats, func(s ares.Seat) bool { return s.Node == h.Node })
	})
}

// OpensNode reports whether one member with the given request fits on one of the running job's nodes. The caller
// must have released the job's seats first.
func (j *Table) OpensNode(e *Entry, w *cluster.Request) bool {
	a := e.Run.Current()
	for i := range a.Seats {
		if n := j.cluster.NodesByID[a.Seats[i].Node]; n != nil && n.Schedulable() && n.RoomFor(w) > 0 {
			return true
		}
	}
	return false
}

// IsArray reports whether the job is an array.
func (e *Entry) IsArray() bool { return e.array }
