package engine

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

// entry is a job in the state. Its spec and its run are records of their own
// and may arrive in either order, so each may be missing.
type entry struct {
	id    ares.JobID
	job   *ares.Job
	run   *ares.Run // nil: not stored, so pending
	shape *shape    // nil without a job
	slot  int       // its number in the job table, while it is there
	// What a turn asks of the job is said here, beside the item and what the item
	// leads to: a decision has so many turns that most of their time is spent on
	// memory that nobody has read since the last one.
	plain      bool  // neither an array nor an element of one
	array      bool  // it is an array
	class      uint8 // as submitted, 0 for the lowest
	changed    bool  // noted in State.moved
	queue      queueKind
	item       queueItem // in the pending queue: its place in the order
	delayUntil time.Time // in the delayed queue: the end of the delay
	held       holdings  // as it was put into the accounts

	ask score.DemandAsk // what it adds to the demand

	forecast *ares.RuntimePredicted // nil: nobody said how long it will run

	urgencyTimer  timer // of one with a deadline that waits: when its place in the order changes
	deadlineTimer timer // of one with a deadline that has not ended: when something is to be noted of it
	queueTimeout  timer // of one that waits for its first place: when it has waited for as long as it would
	runningList   uint8 // the list of the yard it is in
	runningPos    int32 // and where
	// activeAt is one more than where it is among those of its tenant that hold
	// something, 0 if it is not.
	activeAt int32

	elementsMade, madeInCycle int // of an array: elements made by a decision, and by which
}

// holdings is what an entry counts in the accounts of shares, limits and quotas.
type holdings struct {
	counts bool // as one of its tenant's concurrent jobs
	grant  queue.Allocation
	past   []usagePeriod
}

// usagePeriod is an attempt's use over its time, until now when to is zero.
type usagePeriod struct {
	use      queue.Resources
	milli    int64 // thousandths of devices, whatever their model
	from, to time.Time
}

// queueKind says in which of the state's queues an entry is.
type queueKind uint8

const (
	inNone queueKind = iota
	inPending
	inDelayed
)

// byDue is the order of the delayed jobs: end of the delay, then ID.
func byDue(a, b *entry) int {
	return cmp.Or(a.delayUntil.Compare(b.delayUntil), cmp.Compare(a.id, b.id))
}

func (e *entry) phase() ares.Phase {
	if e.run == nil {
		return ares.Pending
	}
	return e.run.Phase
}

// isSettled says whether a next attempt may be placed.
func (e *entry) isSettled() bool { return e.run == nil || e.run.Stop == nil && e.run.Settled() }

// countsAsRunning says whether the job counts as one of its tenant's concurrent jobs.
// An array does not: its elements do.
func (e *entry) countsAsRunning() bool {
	return e.run != nil && (e.job == nil || !e.isArray()) && (e.run.Phase.Active() || !e.run.Settled())
}

// queueFor says which queue the entry belongs to. A pending job with a seat that
// may still live belongs to none: only an event can change that.
func (e *entry) queueFor() queueKind {
	switch {
	case e.job == nil, e.isArray() && !e.hasUnmadeElements():
		return inNone
	case e.isArray():
		return inPending
	case e.phase() == ares.Pending && e.isSettled():
		return inPending
	case e.phase() == ares.Retrying || e.phase() == ares.Preempted:
		return inDelayed
	default:
		return inNone
	}
}

// requeue puts every entry the batch changed into the queue it belongs to.
func (j *jobTable) requeue() {
	for _, e := range j.changedEntries {
		e.changed = false
		if e.deadlineTimer.heapIndex > 0 || e.job != nil && !e.job.Deadline.IsZero() {
			j.scheduleDeadlineNote(e)
		}
		if to := e.queueFor(); to != e.queue || to == inDelayed || j.rankChanged(e) {
			j.dequeue(e)
			j.enqueue(e, to)
		}
		j.updateRestarting(e)
		j.updateMigrating(e)
		if e.job == nil && e.run == nil {
			delete(j.entryByID, e.id)
			j.slots[e.slot] = nil
			j.freeSlots = append(j.freeSlots, e.slot)
		}
	}
	clear(j.changedEntries)
	j.changedEntries, j.delaysLearned = j.changedEntries[:0], nil
}

// rankChanged says whether a pending job waits under a rank that is not its own any
// more.
func (j *jobTable) rankChanged(e *entry) bool {
	if e.queue == inPending && j.ordersByDeadline(e) {
		return j.urgencyChanged(e)
	}
	return j.cfg.Queue.Order != config.OrderAged && e.queue == inPending && e.item.SortKey != j.queueRank(e)
}

func (j *jobTable) enqueue(e *entry, to queueKind) {
	e.queue = to
	switch to {
	case inPending:
		e.item = queueItem{
			Owner: e, ID: string(e.id), Priority: e.job.PriorityValue(), Accepted: e.job.AcceptedAt, Revision: e.job.Revision,
			Shape: e.shape.index,
		}
		if j.cfg.Queue.Order != config.OrderAged {
			e.item.SortKey = j.queueRank(e)
		} else if j.ordersByDeadline(e) {
			j.applyUrgency(e)
		}
		j.scheduleQueueTimeout(e)
		e.shape.leaf.Push(&e.item)
	case inDelayed:
		j.enqueueDelayed(e, j.delayEnd(e))
	case inNone:
	}
}

// enqueueDelayed puts an entry among the delayed ones.
func (j *jobTable) enqueueDelayed(e *entry, due time.Time) {
	e.queue, e.delayUntil = inDelayed, due
	at, _ := slices.BinarySearchFunc(j.delayed, e, byDue)
	j.delayed = slices.Insert(j.delayed, at, e)
}

// dequeue takes an entry out of the queue it is in.
func (j *jobTable) dequeue(e *entry) {
	switch e.queue {
	case inPending:
		j.queues.Remove(&e.item)
		j.urgencyTimers.cancel(&e.urgencyTimer)
		j.queueTimeouts.cancel(&e.queueTimeout)
	case inDelayed:
		at, found := slices.BinarySearchFunc(j.delayed, e, byDue)
		if !found {
			panic("engine: job " + string(e.id) + " is not in the queue it was put into")
		}
		j.delayed = slices.Delete(j.delayed, at, at+1)
	case inNone:
	}
	e.queue = inNone
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
func (j *jobTable) delayEnd(e *entry) time.Time {
	last, at := e.run.Last(), j.at
	if seen, ok := j.delaysLearned[e]; ok {
		at = seen
	}
	if last == nil || at.IsZero() || !last.EndedAt.After(at.Add(maxClockSkew)) {
		return e.run.NotBefore
	}
	return at.Add(e.run.NotBefore.Sub(last.EndedAt))
}

// delayLearnedAt is when the state learned of an entry's delay, zero where the record
// says all that matters.
func (e *entry) delayLearnedAt() time.Time {
	if e.queue != inDelayed || e.delayUntil.Equal(e.run.NotBefore) {
		return time.Time{}
	}
	return e.delayUntil.Add(e.run.Last().EndedAt.Sub(e.run.NotBefore))
}

// reshape gives an entry the shape of its job.
func (j *jobTable) reshape(e *entry) {
	old := e.shape
	e.shape, e.plain, e.array, e.class = nil, false, false, 0
	if e.job != nil {
		e.array, e.class = e.job.IsArray(), uint8(ares.ClassOf(e.job.PriorityValue()).Rank())
		e.plain = !e.array && e.job.ArrayOf == ""
		j.tenant(e.job.Tenant)
		e.shape = j.internShape(e.job)
	}
	e.ask.Request, e.ask.Members, e.ask.Revision = nil, 0, 0
	if e.job != nil {
		e.ask.Request, e.ask.Members, e.ask.Revision = e.shape.request, e.shape.members, e.job.Revision
	}
	if old != nil {
		j.shapes.release(old)
	}
}

// asks yields what every job adds to the demand, in no order.
func (j *jobTable) asks() iter.Seq[*score.DemandAsk] {
	return func(yield func(*score.DemandAsk) bool) {
		for _, e := range j.entryByID { // order-free: whoever asks sums
			if !yield(&e.ask) {
				return
			}
		}
	}
}

// lastNodes is where the job's last attempt was.
func (j *jobTable) lastNodes(e *entry) []int {
	last := e.run.Last()
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

// mayBePreempted says whether the job goes on later where it was stopped, and may be
// stopped at all.
func (e *entry) mayBePreempted() bool {
	return e.job.Checkpoint.Enabled && !e.job.Placement.LatencySensitive && !e.run.Endures(e.job)
}

// runsWithin says whether a seat of the job is on one of the nodes.
func (j *jobTable) runsWithin(e *entry, nodes *cluster.Set) bool {
	a := e.run.Current()
	return slices.ContainsFunc(a.Seats, func(h ares.Held) bool {
		n := j.cluster.NodesByID[h.Node]
		return n != nil && nodes.Has(n.Pos)
	})
}

// sharesNodeWith says whether a seat of the job is on a node of others.
func (e *entry) sharesNodeWith(seats []ares.Seat) bool {
	return slices.ContainsFunc(e.run.Current().Seats, func(h ares.Held) bool {
		return slices.ContainsFunc(seats, func(s ares.Seat) bool { return s.Node == h.Node })
	})
}

// opensNode says whether a node that the job leaves has room for a member.
func (j *jobTable) opensNode(e *entry, w *cluster.Request) bool {
	a := e.run.Current()
	for i := range a.Seats {
		if n := j.cluster.NodesByID[a.Seats[i].Node]; n != nil && n.Schedulable() && n.RoomFor(w) > 0 {
			return true
		}
	}
	return false
}

// sitsBesideSeats says whether a running job has a seat on a node of some.
func (e *entry) sitsBesideSeats(seats []ares.Seat) bool {
	return slices.ContainsFunc(e.run.Current().Seats, func(h ares.Held) bool {
		return slices.ContainsFunc(seats, func(s ares.Seat) bool { return s.Node == h.Node })
	})
}
