package engine

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// entry is a job in the state. Its spec and its run are records of their own
// and may arrive in either order, so each may be missing.
type entry struct {
	id     ares.JobID
	job    *ares.Job
	run    *ares.Run // nil: not stored, so pending
	shape  *shape    // nil without a job
	moved  bool      // noted in State.moved
	queue  queue
	due    time.Time // in the delayed queue: the end of the delay
	lodged rank      // in the pending queue: its place in the order
}

// queue says in which of the state's queues an entry is.
type queue uint8

const (
	inNone queue = iota
	inPending
	inDelayed
)

// rank is where a job stands in the order of the cycle. It is kept with the
// entry as it was queued, so that it is found again.
type rank struct {
	class, priority int
	revision        int64
}

// inOrder is the order of the cycle: class, priority, acceptance, then ID.
func inOrder(a, b *entry) int {
	return cmp.Or(
		cmp.Compare(b.lodged.class, a.lodged.class),
		cmp.Compare(b.lodged.priority, a.lodged.priority),
		cmp.Compare(a.lodged.revision, b.lodged.revision),
		cmp.Compare(a.id, b.id),
	)
}

// byDue is the order of the delayed jobs: end of the delay, then ID.
func byDue(a, b *entry) int {
	return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.id, b.id))
}

func (e *entry) phase() ares.Phase {
	if e.run == nil {
		return ares.Pending
	}
	return e.run.Phase
}

// settled says whether a next attempt may be placed.
func (e *entry) settled() bool { return e.run == nil || e.run.Stop == nil && e.run.Settled() }

// holds says whether the job counts as one of its tenant's concurrent jobs.
func (e *entry) holds() bool { return e.run != nil && (e.run.Phase.Active() || !e.run.Free()) }

// wants says which queue the entry belongs to. A pending job with a seat that
// may still live belongs to none: only an event can change that.
func (e *entry) wants() queue {
	switch {
	case e.job == nil:
		return inNone
	case e.phase() == ares.Pending && e.settled():
		return inPending
	case e.phase() == ares.Retrying || e.phase() == ares.Preempted:
		return inDelayed
	default:
		return inNone
	}
}

// bulk is the number of entries above which sorting a queue once is cheaper
// than finding a place in it for each.
const bulk = 64

// requeue puts every entry the batch changed into the queue it belongs to.
func (s *State) requeue() {
	var pending, delayed []*entry
	for _, e := range s.moved {
		e.moved = false
		s.dequeue(e)
		e.queue = e.wants()
		switch e.queue {
		case inPending:
			p := e.job.PriorityValue()
			e.lodged = rank{ares.ClassOf(p).Rank(), p, e.job.Revision}
			pending = append(pending, e)
		case inDelayed:
			e.due = e.run.NotBefore
			delayed = append(delayed, e)
		case inNone:
		}
		if e.job == nil && e.run == nil {
			delete(s.jobs, e.id)
		}
	}
	s.pending = merge(s.pending, pending, inOrder)
	s.delayed = merge(s.delayed, delayed, byDue)
	clear(s.moved)
	s.moved = s.moved[:0]
}

func merge(q, more []*entry, order func(a, b *entry) int) []*entry {
	if len(more) > bulk {
		q = append(q, more...)
		slices.SortFunc(q, order)
		return q
	}
	for _, e := range more {
		at, _ := slices.BinarySearchFunc(q, e, order)
		q = slices.Insert(q, at, e)
	}
	return q
}

func (s *State) dequeue(e *entry) {
	switch e.queue {
	case inPending:
		s.pending = cut(s.pending, e, inOrder)
	case inDelayed:
		s.delayed = cut(s.delayed, e, byDue)
	case inNone:
	}
	e.queue = inNone
}

func cut(q []*entry, e *entry, order func(a, b *entry) int) []*entry {
	at, found := slices.BinarySearchFunc(q, e, order)
	if !found {
		panic("engine: job " + string(e.id) + " is not in the queue it was put into")
	}
	return slices.Delete(q, at, at+1)
}

// reshape gives an entry the shape of its job.
func (s *State) reshape(e *entry) {
	old := e.shape
	e.shape = nil
	if e.job != nil {
		e.shape = s.shapes.intern(e.job, s.tenant(e.job.Tenant))
	}
	if old != nil {
		s.shapes.release(old)
	}
}
