package job

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// Entry is one job. Its spec and its run are separate records that may arrive in either
// order, so each may be missing.
type Entry struct {
	ID    ares.JobID
	Job   *ares.Job
	Run   *ares.Run // nil while none is stored: the job is pending
	Shape *Shape    // nil without a job
	Slot  int       // Invariant: Table.Slots[Slot] is this entry, while the table has it

	// The next fields lie close to the item because every turn of a decision reads
	// them, and most of the time of a turn goes to cache misses.
	Plain      bool  // neither an array nor an element of one
	array      bool  // it is an array
	class      uint8 // as submitted, 0 for the lowest
	changed    bool  // in Table.ChangedEntries
	Queue      queueKind
	Item       queueItem // its position, when it is in the pending queue
	DelayUntil time.Time // the end of its delay, when it is in the delayed queue
	Held       holdings  // what was added to the accounts

	Ask score.DemandAsk // its part of the demand

	Forecast *ares.RuntimePredicted // the predicted runtime, or nil

	urgencyTimer  timer // pending, with a deadline: when its position changes
	deadlineTimer timer // not ended, with a deadline: when the next note is due
	queueTimeout  timer // never placed, with max_queue_minutes: when it expires
	RunningList   uint8 // the list of the running index that it is in, and
	runningPos    int32 // its index in that list
	activeAt      int32 // 1 + its index in Tenant.Active; 0 when it is not there

	ElementsMade, MadeInCycle int // of an array: elements that a cycle created, and which cycle
}

// holdings is what an entry counts in the accounts of shares, limits and quotas.
type holdings struct {
	isConcurrent bool             // it counts as one of its tenant's concurrent jobs
	Allocation   queue.Allocation // what is allocated now
	Past         []usagePeriod    // by attempt, the running one last
}

// usagePeriod is the use of one attempt and when it was allocated. To is zero while it
// still is.
type usagePeriod struct {
	Use      queue.Resources
	Milli    int64 // GPUs in thousandths, without the weights of models
	From, To time.Time
}

// queueKind names the queue that an entry is in.
type queueKind uint8

// The queues.
const (
	InNone queueKind = iota
	InPending
	InDelayed
)

// Phase returns the phase of the job, which is pending while no run is stored.
func (e *Entry) Phase() ares.Phase {
	if e.Run == nil {
		return ares.Pending
	}
	return e.Run.Phase
}

// IsSettled reports whether the next attempt may be placed.
func (e *Entry) IsSettled() bool { return e.Run == nil || e.Run.Stop == nil && e.Run.Settled() }

// countsAsRunning reports whether the job counts as one of its tenant's concurrent jobs.
// An array does not; its elements do.
func (e *Entry) countsAsRunning() bool {
	return e.Run != nil && (e.Job == nil || !e.IsArray()) && (e.Run.Phase.Active() || !e.Run.Settled())
}

// LastNodes returns the positions of the nodes of the job's last attempt, sorted.
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

// MayBePreempted reports whether the job may be preempted: it resumes from a checkpoint,
// is not latency-sensitive, and may be stopped to run elsewhere.
func (e *Entry) MayBePreempted() bool {
	return e.Job.Checkpoint.Enabled && !e.Job.Placement.LatencySensitive && !e.Run.Endures(e.Job)
}

// RunsWithin reports whether a seat of the running job is on one of the nodes.
func (j *Table) RunsWithin(e *Entry, nodes *cluster.Set) bool {
	a := e.Run.Current()
	return slices.ContainsFunc(a.Seats, func(h ares.Held) bool {
		n := j.cluster.NodesByID[h.Node]
		return n != nil && nodes.Has(n.Pos)
	})
}

// SharesNodeWith reports whether a seat of the running job is on the same node as one of
// some seats.
func (e *Entry) SharesNodeWith(seats []ares.Seat) bool {
	return slices.ContainsFunc(e.Run.Current().Seats, func(h ares.Held) bool {
		return slices.ContainsFunc(seats, func(s ares.Seat) bool { return s.Node == h.Node })
	})
}

// OpensNode reports whether one of the running job's nodes has capacity for a member
// with a request. The caller has released the job's seats.
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
