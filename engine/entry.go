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
	if c := cmp.Compare(b.lodged.class, a.lodged.class); c != 0 {
		return c
	}
	if c := cmp.Compare(b.lodged.priority, a.lodged.priority); c != 0 {
		return c
	}
	if c := cmp.Compare(a.lodged.revision, b.lodged.revision); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id) // only here: comparing strings costs most
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
// An array does not: its elements do.
func (e *entry) holds() bool {
	return e.run != nil && (e.job == nil || !e.isArray()) && (e.run.Phase.Active() || !e.run.Settled())
}

// wants says which queue the entry belongs to. A pending job with a seat that
// may still live belongs to none: only an event can change that.
func (e *entry) wants() queue {
	switch {
	case e.job == nil, e.isArray() && !e.unmade():
		return inNone
	case e.isArray():
		return inPending
	case e.phase() == ares.Pending && e.settled():
		return inPending
	case e.phase() == ares.Retrying || e.phase() == ares.Preempted:
		return inDelayed
	default:
		return inNone
	}
}

// bulk is the number of entries above which one pass over a queue is cheaper
// than finding each.
const bulk = 16

// requeue puts every entry the batch changed into the queue it belongs to.
func (s *State) requeue() {
	s.dequeue()
	var pending, delayed []*entry
	for _, e := range s.moved {
		e.moved = false
		e.queue = e.wants()
		switch e.queue {
		case inPending:
			p := e.job.PriorityValue()
			e.lodged = rank{ares.ClassOf(p).Rank(), p, e.job.Revision}
			pending = append(pending, e)
		case inDelayed:
			e.due = s.due(e.run)
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

// skew is how far another server's clock may be ahead before its delays are
// no longer taken as it wrote them.
const skew = time.Second

// due is the end of a delay by the clock of whoever decides. The server that
// wrote it had a clock of its own; when that was ahead, the attempt seems to
// have ended in the future, and the delay is counted from now instead. (A clock
// that was behind only shortens a delay.)
func (s *State) due(run *ares.Run) time.Time {
	last := run.Last()
	if last == nil || s.at.IsZero() || !last.EndedAt.After(s.at.Add(skew)) {
		return run.NotBefore
	}
	return s.at.Add(run.NotBefore.Sub(last.EndedAt))
}

// merge puts more into a sorted queue. It works from the end: new jobs mostly
// belong there, and then the rest of the queue is not looked at.
func merge(q, more []*entry, order func(a, b *entry) int) []*entry {
	slices.SortFunc(more, order)
	at := len(q) - 1
	q = append(q, more...)
	for to := len(q) - 1; len(more) > 0; to-- {
		last := more[len(more)-1]
		if at >= 0 && order(q[at], last) > 0 {
			q[to] = q[at]
			at--
			continue
		}
		q[to] = last
		more = more[:len(more)-1]
	}
	return q
}

// dequeue takes every entry the batch changed out of the queue it is in.
func (s *State) dequeue() {
	var pending, delayed int
	for _, e := range s.moved {
		switch e.queue {
		case inPending:
			pending++
		case inDelayed:
			delayed++
		case inNone:
		}
	}
	s.pending = cut(s.pending, s.moved, inPending, pending, inOrder)
	s.delayed = cut(s.delayed, s.moved, inDelayed, delayed, byDue)
	for _, e := range s.moved {
		e.queue = inNone
	}
}

// cut removes from a queue those of moved that are in it, n of them.
func cut(q, moved []*entry, in queue, n int, order func(a, b *entry) int) []*entry {
	if n > bulk {
		return slices.DeleteFunc(q, func(e *entry) bool { return e.moved })
	}
	for _, e := range moved {
		if e.queue != in {
			continue
		}
		at, found := slices.BinarySearchFunc(q, e, order)
		if !found {
			panic("engine: job " + string(e.id) + " is not in the queue it was put into")
		}
		q = slices.Delete(q, at, at+1)
	}
	return q
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
