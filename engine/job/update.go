package job

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// QueueFor returns the queue that the entry belongs to. If a seat of a pending job may still have a live
// process, the job belongs to no queue. This changes when an event says that the process has ended. A job whose start
// conditions are not met belongs to no queue either, so it costs nothing in a cycle; see start.go.
func (j *Table) QueueFor(e *Entry) QueueKind {
	switch {
	case e.Job == nil, e.IsArray() && !e.hasUnmadeElements():
		return InNone
	case e.hasStartConditions() && e.Phase() != ares.Retrying && e.Phase() != ares.Preempted && !j.mayStart(e):
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

// UpdateEntry calls the function `change`, which changes the records of an entry. UpdateEntry removes the entry
// from the accounts and indexes before the change, and adds the entry again afterwards.
func (j *Table) UpdateEntry(e *Entry, change func()) {
	j.chargeJob(e, -1)
	j.countArray(e, -1)
	j.Estimated -= e.Estimates()
	j.Waiting -= e.CountWaiting()
	before, state := e.Job, j.dependedState(e)
	change()
	e.stateChanged = e.stateChanged || j.dependedState(e) != state
	j.Estimated += e.Estimates()
	j.Waiting += e.CountWaiting()
	if e.Job != before {
		j.indexStart(e, before)
		j.scorer.UncountDemand(&e.Ask)
		j.Dequeue(e)
		j.reshape(e)
		j.scorer.CountDemand(&e.Ask)
	}
	j.chargeJob(e, +1)
	j.countArray(e, +1)
	j.markChanged(e)
}

// markChanged adds an entry to those that Requeue handles.
func (j *Table) markChanged(e *Entry) {
	if !e.changed {
		e.changed = true
		j.ChangedEntries = append(j.ChangedEntries, e)
	}
}

// The method `reshape` computes the Shape of an entry, and the entry's part of the demand. Both depend on the job
// of the entry.
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

// Requeue handles every entry that the batch has changed. It moves the entry to the queue
// to which the entry belongs. Requeue drops entries that no longer have a job or a run.
func (j *Table) Requeue() {
	for i := 0; i < len(j.ChangedEntries); i++ { // a change of a job adds the jobs that wait for it, but not those that wait for them
		e := j.ChangedEntries[i]
		e.changed = false
		j.updateStart(e)
		if e.timers != nil && e.timers.deadline.heapIndex > 0 || e.Job != nil && !e.Job.Deadline.IsZero() {
			j.scheduleDeadlineNote(e)
		}
		if to := j.QueueFor(e); to != e.Queue || to == InDelayed || j.positionChanged(e) {
			j.Dequeue(e)
			j.enqueue(e, to)
		}
		j.updateRestarting(e)
		j.updateMigrating(e)
		if e.Job == nil && e.Run == nil {
			delete(j.EntryByID, e.ID)
			delete(j.protections, e.ID)
			j.Slots[e.Slot] = nil
			j.freeSlots = append(j.freeSlots, e.Slot)
		}
	}
	clear(j.ChangedEntries)
	j.ChangedEntries, j.DelaysLearned = j.ChangedEntries[:0], nil
}

// The method `enqueue` adds an entry to a queue.
func (j *Table) enqueue(e *Entry, to QueueKind) {
	e.Queue = to
	switch to {
	case InPending:
		e.Item = queueItem{
			Owner: e, ID: string(e.ID), Accepted: e.Job.AcceptedAt, Revision: e.Job.Revision, Shape: e.Shape.index,
		}
		p := j.positionOf(e, j.clock)
		j.setPosition(e, &p)
		j.scheduleQueueTimeout(e)
		j.waiting.add(e)
		e.Shape.Leaf.Push(&e.Item)
	case InDelayed:
		j.EnqueueDelayed(e, j.delayEnd(e))
	case InNone:
	}
}

// Dequeue removes an entry from the queue it is in.
func (j *Table) Dequeue(e *Entry) {
	switch e.Queue {
	case InPending:
		j.Queues.Remove(&e.Item)
		j.positionTimers.cancel(&e.positionTimer)
		j.setOverdue(e, false)
		j.waiting.remove(e)
		if e.timers != nil {
			j.queueTimeouts.cancel(&e.timers.queueTimeout)
		}
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

// AdvanceClock moves the pending jobs to the positions that they have at the time `now`, and lets jobs start whose begin
// time has come. The result depends only on
// the jobs and on the time `now`, not on earlier calls. The given time may be earlier than the time in the last
// call.
func (j *Table) AdvanceClock(now time.Time) {
	back := now.Before(j.clock)
	j.clock = now
	j.moveBegun()
	if back {
		for _, a := range append(timerHeap(nil), j.positionTimers...) {
			j.updatePosition(a.entry)
		}
		return
	}
	for len(j.positionTimers) > 0 && j.positionTimers[0].isDue(now) {
		j.updatePosition(j.positionTimers[0].entry)
	}
}

// SetProtection protects a job from preemption, or ends its protection if p is nil. The protection of a job without
// records is dropped at the end of the batch.
func (j *Table) SetProtection(id ares.JobID, p *ares.Protection) {
	if p == nil {
		delete(j.protections, id)
		return
	}
	if j.protections == nil {
		j.protections = map[ares.JobID]*ares.Protection{}
	}
	j.protections[id] = p
	j.markChanged(j.Entry(id))
}

// Protection returns the protection of a job, or nil if it has none. Nearly all jobs have none, so protections are in a map
// and not in the entries.
func (j *Table) Protection(id ares.JobID) *ares.Protection { return j.protections[id] }
