package job

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"

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
	counts bool // as one of its tenant's concurrent jobs
	Grant  queue.Allocation
	Past   []usagePeriod
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

// ByDue is the order of the delayed jobs: end of the delay, then ID.
func ByDue(a, b *Entry) int {
	return cmp.Or(a.DelayUntil.Compare(b.DelayUntil), cmp.Compare(a.ID, b.ID))
}

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

// QueueFor says which queue the entry belongs to. A pending job with a seat that
// may still live belongs to none: only an event can change that.
func (e *Entry) QueueFor() queueKind {
	switch {
	case e.Job == nil, e.IsArray() && !e.hasUnmadeElements():
		return InNone
	case e.IsArray():
		return InPending
	case e.Phase() == ares.Pending && e.IsSettled():
		return InPending
	case e.Phase() == ares.Retrying || e.Phase() == ares.Preempted:
		return InDelayed
	default:
		return InNone
	}
}

// Requeue puts every entry the batch changed into the queue it belongs to.
func (j *Table) Requeue() {
	for _, e := range j.ChangedEntries {
		e.changed = false
		if e.deadlineTimer.heapIndex > 0 || e.Job != nil && !e.Job.Deadline.IsZero() {
			j.scheduleDeadlineNote(e)
		}
		if to := e.QueueFor(); to != e.Queue || to == InDelayed || j.rankChanged(e) {
			j.Dequeue(e)
			j.enqueue(e, to)
		}
		j.updateRestarting(e)
		j.updateMigrating(e)
		if e.Job == nil && e.Run == nil {
			delete(j.EntryByID, e.ID)
			j.Slots[e.Slot] = nil
			j.freeSlots = append(j.freeSlots, e.Slot)
		}
	}
	clear(j.ChangedEntries)
	j.ChangedEntries, j.DelaysLearned = j.ChangedEntries[:0], nil
}

// rankChanged says whether a pending job waits under a rank that is not its own any
// more.
func (j *Table) rankChanged(e *Entry) bool {
	if e.Queue == InPending && j.ordersByDeadline(e) {
		return j.urgencyChanged(e)
	}
	return j.cfg.Queue.Order != config.OrderAged && e.Queue == InPending && e.Item.SortKey != j.queueRank(e)
}

func (j *Table) enqueue(e *Entry, to queueKind) {
	e.Queue = to
	switch to {
	case InPending:
		e.Item = queueItem{
			Owner: e, ID: string(e.ID), Priority: e.Job.PriorityValue(), Accepted: e.Job.AcceptedAt, Revision: e.Job.Revision,
			Shape: e.Shape.index,
		}
		if j.cfg.Queue.Order != config.OrderAged {
			e.Item.SortKey = j.queueRank(e)
		} else if j.ordersByDeadline(e) {
			j.applyUrgency(e)
		}
		j.scheduleQueueTimeout(e)
		e.Shape.Leaf.Push(&e.Item)
	case InDelayed:
		j.EnqueueDelayed(e, j.delayEnd(e))
	case InNone:
	}
}

// EnqueueDelayed puts an entry among the delayed ones.
func (j *Table) EnqueueDelayed(e *Entry, due time.Time) {
	e.Queue, e.DelayUntil = InDelayed, due
	at, _ := slices.BinarySearchFunc(j.Delayed, e, ByDue)
	j.Delayed = slices.Insert(j.Delayed, at, e)
}

// Dequeue takes an entry out of the queue it is in.
func (j *Table) Dequeue(e *Entry) {
	switch e.Queue {
	case InPending:
		j.Queues.Remove(&e.Item)
		j.urgencyTimers.cancel(&e.urgencyTimer)
		j.queueTimeouts.cancel(&e.queueTimeout)
	case InDelayed:
		at, found := slices.BinarySearchFunc(j.Delayed, e, ByDue)
		if !found {
			panic("engine: job " + string(e.ID) + " is not in the queue it was put into")
		}
		j.Delayed = slices.Delete(j.Delayed, at, at+1)
	case InNone:
	}
	e.Queue = InNone
}

// maxClockSkew is how far another server's clock may be ahead before its delays are
// no longer taken as it wrote them.
const maxClockSkew = time.Second

// delayEnd is the end of a delay by the clock of whoever decides. The server that
// wrote it had a clock of its own; when that was ahead, the attempt seems to
// have ended in the future, and the delay is counted from when we learned of it
// instead. (A clock that was behind only shortens a delay.) That is a time of
// the batch, which recordings keep with each, and snapshots with each such delay:
// so who replays either, counts alike.
func (j *Table) delayEnd(e *Entry) time.Time {
	last, at := e.Run.Last(), j.At
	if seen, ok := j.DelaysLearned[e]; ok {
		at = seen
	}
	if last == nil || at.IsZero() || !last.EndedAt.After(at.Add(maxClockSkew)) {
		return e.Run.NotBefore
	}
	return at.Add(e.Run.NotBefore.Sub(last.EndedAt))
}

// DelayLearnedAt is when the state learned of an entry's delay, zero where the record
// says all that matters.
func (e *Entry) DelayLearnedAt() time.Time {
	if e.Queue != InDelayed || e.DelayUntil.Equal(e.Run.NotBefore) {
		return time.Time{}
	}
	return e.DelayUntil.Add(e.Run.Last().EndedAt.Sub(e.Run.NotBefore))
}

// reshape gives an entry the shape of its job.
func (j *Table) reshape(e *Entry) {
	old := e.Shape
	e.Shape, e.Plain, e.array, e.class = nil, false, false, 0
	if e.Job != nil {
		e.array, e.class = e.Job.IsArray(), uint8(ares.ClassOf(e.Job.PriorityValue()).Rank())
		e.Plain = !e.array && e.Job.ArrayOf == ""
		j.Tenant(e.Job.Tenant)
		e.Shape = j.internShape(e.Job)
	}
	e.Ask.Request, e.Ask.Members, e.Ask.Revision = nil, 0, 0
	if e.Job != nil {
		e.Ask.Request, e.Ask.Members, e.Ask.Revision = e.Shape.Request, e.Shape.Members, e.Job.Revision
	}
	if old != nil {
		j.Shapes.Release(old)
	}
}

// Asks yields what every job adds to the demand, in no order.
func (j *Table) Asks() iter.Seq[*score.DemandAsk] {
	return func(yield func(*score.DemandAsk) bool) {
		for _, e := range j.EntryByID { // order-free: whoever asks sums
			if !yield(&e.Ask) {
				return
			}
		}
	}
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
