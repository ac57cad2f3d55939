package job

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// Entry is a job in the state. Its spec and its run are records of their own
// and may arrive in either order, so each may be missing.
type Entry struct {
	ID    ares.JobID
	Job   *ares.Job
	Run   *ares.Run // nil: not stored, so pending
	Shape *Shape    // nil without a job
	Slot  int       // its number in the job table, while it is there
	// What a turn asks of the job is said here, beside the item and what the item
	// leads to: a decision has so many turns that most of their time is spent on
	// memory that nobody has read since the last one.
	Plain      bool  // neither an array nor an element of one
	array      bool  // it is an array
	class      uint8 // as submitted, 0 for the lowest
	changed    bool  // noted in State.moved
	Queue      queueKind
	Item       queueItem // in the pending queue: its place in the order
	DelayUntil time.Time // in the delayed queue: the end of the delay
	Held       holdings  // as it was put into the accounts

	Ask score.DemandAsk // what it adds to the demand

	Forecast *ares.RuntimePredicted // nil: nobody said how long it will run

	urgencyTimer  timer // of one with a deadline that waits: when its place in the order changes
	deadlineTimer timer // of one with a deadline that has not ended: when something is to be noted of it
	queueTimeout  timer // of one that waits for its first place: when it has waited for as long as it would
	RunningList   uint8 // the list of the yard it is in
	runningPos    int32 // and where
	// activeAt is one more than where it is among those of its tenant that hold
	// something, 0 if it is not.
	activeAt int32

	ElementsMade, MadeInCycle int // of an array: elements made by a decision, and by which
}

// holdings is what an entry counts in the accounts of shares, limits and quotas.
type holdings struct {
	isConcurrent bool // as one of its tenant's concurrent jobs
	Grant        queue.Allocation
	Past         []usagePeriod
}

// usagePeriod is an attempt's use over its time, until now when to is zero.
type usagePeriod struct {
	Use      queue.Resources
	Milli    int64 // thousandths of devices, whatever their model
	From, To time.Time
}

// queueKind says in which of the state's queues an entry is.
type queueKind uint8

const (
	InNone queueKind = iota
	InPending
	InDelayed
)

func (e *Entry) Phase() ares.Phase {
	if e.Run == nil {
		return ares.Pending
	}
	return e.Run.Phase
}

// IsSettled says whether a next attempt may be placed.
func (e *Entry) IsSettled() bool { return e.Run == nil || e.Run.Stop == nil && e.Run.Settled() }

// countsAsRunning says whether the job counts as one of its tenant's concurrent jobs.
// An array does not: its elements do.
func (e *Entry) countsAsRunning() bool {
	return e.Run != nil && (e.Job == nil || !e.IsArray()) && (e.Run.Phase.Active() || !e.Run.Settled())
}

// LastNodes is where the job's last attempt was.
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

// MayBePreempted says whether the job goes on later where it was stopped, and may be
// stopped at all.
func (e *Entry) MayBePreempted() bool {
	return e.Job.Checkpoint.Enabled && !e.Job.Placement.LatencySensitive && !e.Run.Endures(e.Job)
}

// RunsWithin says whether a seat of the job is on one of the nodes.
func (j *Table) RunsWithin(e *Entry, nodes *cluster.Set) bool {
	a := e.Run.Current()
	return slices.ContainsFunc(a.Seats, func(h ares.Held) bool {
		n := j.cluster.NodesByID[h.Node]
		return n != nil && nodes.Has(n.Pos)
	})
}

// SharesNodeWith says whether a seat of the job is on a node of others.
func (e *Entry) SharesNodeWith(seats []ares.Seat) bool {
	return slices.ContainsFunc(e.Run.Current().Seats, func(h ares.Held) bool {
		return slices.ContainsFunc(seats, func(s ares.Seat) bool { return s.Node == h.Node })
	})
}

// OpensNode says whether a node that the job leaves has room for a member.
func (j *Table) OpensNode(e *Entry, w *cluster.Request) bool {
	a := e.Run.Current()
	for i := range a.Seats {
		if n := j.cluster.NodesByID[a.Seats[i].Node]; n != nil && n.Schedulable() && n.RoomFor(w) > 0 {
			return true
		}
	}
	return false
}

// SitsBesideSeats says whether a running job has a seat on a node of some.
func (e *Entry) SitsBesideSeats(seats []ares.Seat) bool {
	return slices.ContainsFunc(e.Run.Current().Seats, func(h ares.Held) bool {
		return slices.ContainsFunc(seats, func(s ares.Seat) bool { return s.Node == h.Node })
	})
}

func (e *Entry) IsArray() bool { return e.array }
