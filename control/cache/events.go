package cache

import (
	"sort"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// StreamEvent is one event of the event stream. A StreamEvent describes a transition of a job or a
// change of a node.
type StreamEvent struct {
	Revision int64
	At       time.Time
	Job      ares.JobID // "" for a node's event
	Tenant   string
	Queue    string
	Name     string
	Phase    ares.Phase
	Attempt  int
	Node     string
	State    ares.NodeState
	Message  string
}

// ringSize is the number of events that a server retains, so that streams can resume.
const ringSize = 16_384

// The type `ring` keeps the latest events in order.
type ring struct {
	start int64 // all events after this revision are retained
	items []StreamEvent
	next  int // position of the next event once the ring is full
}

func (r *ring) restart(revision int64) {
	*r = ring{start: revision, items: r.items[:0]}
}

func (r *ring) add(h StreamEvent) {
	if len(r.items) < ringSize {
		r.items = append(r.items, h)
		return
	}
	r.start = r.items[r.next].Revision
	r.items[r.next] = h
	r.next = (r.next + 1) % ringSize
}

// A reader gets its events in parts. atOnce is the approximate number of events in one part. All events of one
// revision are returned in the same read.
const atOnce = 512

// The method `since` returns the next events after a revision. The result `cut` is true if more events follow.
func (r *ring) since(revision int64) (out []StreamEvent, cut bool) {
	at := func(i int) *StreamEvent { return &r.items[(r.next+i)%len(r.items)] }
	first := sort.Search(len(r.items), func(i int) bool { return at(i).Revision > revision })
	out = make([]StreamEvent, 0, min(len(r.items)-first, atOnce))
	for i := first; i < len(r.items); i++ {
		if len(out) >= atOnce && at(i).Revision != out[len(out)-1].Revision {
			return out, true
		}
		out = append(out, *at(i))
	}
	return out, false
}

// The variable `ready` is a closed channel. EventsSince returns it if more events already exist.
var ready = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// EventsSince returns the events after a revision and the revision up to which they are complete. It also returns a
// channel that is closed when there are more events. If the revision is no longer retained, EventsSince returns an
// error that says where to start again.
func (v *View) EventsSince(revision int64) (hs []StreamEvent, upTo int64, more <-chan struct{}, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if revision < v.events.start {
		return nil, v.revision, v.moved, ares.Errorf(ares.NotFound,
			"events after revision %d are no longer available: list the jobs, then watch from the revision of that list", revision).At("revision")
	}
	hs, cut := v.events.since(revision)
	if cut {
		return hs, hs[len(hs)-1].Revision, ready, nil
	}
	return hs, v.revision, v.moved, nil
}

// jobEvents adds an event to the stream for each new transition of a run.
func (r *ring) jobEvents(was, now *Entry, rev int64) {
	seen := 0
	if was != nil {
		seen = was.Run.Dropped + len(was.Run.Transitions)
	}
	for _, t := range now.Run.Transitions[max(0, min(seen-now.Run.Dropped, len(now.Run.Transitions))):] {
		h := StreamEvent{
			Revision: rev, At: t.At, Job: now.Job.ID, Tenant: now.Job.Tenant, Queue: now.Job.Queue, Name: now.Job.Name,
			Phase: t.Phase, Attempt: t.Attempt, Message: now.Job.TransitionText(t),
		}
		if a := now.Run.Last(); a != nil && len(a.Seats) > 0 {
			h.Node = a.Seats[0].Node
		}
		r.add(h)
	}
}

func (v *View) nodeEvent(e *ares.Event, live bool, node string, state ares.NodeState, message string) {
	if live {
		v.events.add(StreamEvent{Revision: e.Revision, At: v.Now(), Node: node, State: state, Message: message})
	}
}
