package control

import (
	"sort"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Happening is one step of a job or a node as the event stream tells it.
type Happening struct {
	Revision int64
	At       time.Time
	Job      ares.JobID // "" when it is about a node
	Tenant   string
	Queue    string
	Name     string
	Phase    ares.Phase
	Attempt  int
	Node     string
	State    ares.NodeState
	Message  string
}

// ringSize is how many happenings a server keeps for streams to resume from.
const ringSize = 16_384

// ring keeps the latest happenings, in the order they came.
type ring struct {
	start int64 // happenings after this revision are complete
	items []Happening
	next  int // where the next one goes once the ring is full
}

func (r *ring) restart(revision int64) {
	*r = ring{start: revision, items: r.items[:0]}
}

func (r *ring) add(h Happening) {
	if len(r.items) < ringSize {
		r.items = append(r.items, h)
		return
	}
	r.start = r.items[r.next].Revision
	r.items[r.next] = h
	r.next = (r.next + 1) % ringSize
}

// atOnce is how many happenings are copied for one reader at a time, or a few
// more: revisions stay whole.
const atOnce = 512

// since returns what happened after a revision, or the first part of it.
func (r *ring) since(revision int64) (out []Happening, cut bool) {
	at := func(i int) *Happening { return &r.items[(r.next+i)%len(r.items)] }
	first := sort.Search(len(r.items), func(i int) bool { return at(i).Revision > revision })
	out = make([]Happening, 0, min(len(r.items)-first, atOnce))
	for i := first; i < len(r.items); i++ {
		if len(out) >= atOnce && at(i).Revision != out[len(out)-1].Revision {
			return out, true
		}
		out = append(out, *at(i))
	}
	return out, false
}

// ready says that there is more already.
var ready = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// EventsSince returns what happened after a revision, how far it is complete,
// and a channel that closes when there is more, or is closed if there is. A revision this server no
// longer remembers is an error that says where to begin anew.
func (v *View) EventsSince(revision int64) (hs []Happening, upTo int64, more <-chan struct{}, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if revision < v.events.start {
		return nil, v.revision, v.moved, ares.Errorf(ares.NotFound,
			"events after revision %d are no longer kept: list the jobs, then watch from the revision of that list", revision).At("revision")
	}
	hs, cut := v.events.since(revision)
	if cut {
		return hs, hs[len(hs)-1].Revision, ready, nil
	}
	return hs, v.revision, v.moved, nil
}

// jobEvents adds the transitions that a change of a run brought.
func (r *ring) jobEvents(was, now *Entry, rev int64) {
	seen := 0
	if was != nil {
		seen = was.Run.Dropped + len(was.Run.Transitions)
	}
	for _, t := range now.Run.Transitions[max(0, min(seen-now.Run.Dropped, len(now.Run.Transitions))):] {
		h := Happening{
			Revision: rev, At: t.At, Job: now.Job.ID, Tenant: now.Job.Tenant, Queue: now.Job.Queue, Name: now.Job.Name,
			Phase: t.Phase, Attempt: t.Attempt, Message: now.Job.Told(t),
		}
		if a := now.Run.Last(); a != nil && len(a.Seats) > 0 {
			h.Node = a.Seats[0].Node
		}
		r.add(h)
	}
}

func (v *View) nodeEvent(e *ares.Event, live bool, node string, state ares.NodeState, message string) {
	if live {
		v.events.add(Happening{Revision: e.Revision, At: v.Now(), Node: node, State: state, Message: message})
	}
}
