package control

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Happening is one step of a job or a node as the event stream tells it.
type Happening struct {
	Revision int64
	At       time.Time
	Job      ares.JobID // "" when it is about a node
	Tenant   string
	Name     string
	Phase    ares.Phase
	Attempt  int
	Node     string
	State    ares.NodeState
	Message  string
}

// ringSize is how many happenings a server keeps for streams to resume from.
const ringSize = 16_384

// ring keeps the latest happenings.
type ring struct {
	start int64 // happenings after this revision are complete
	items []Happening
}

func (r *ring) restart(revision int64) {
	r.items, r.start = nil, revision
}

func (r *ring) add(hs ...Happening) {
	r.items = append(r.items, hs...)
	if over := len(r.items) - ringSize; over > ringSize/4 {
		r.start = r.items[over-1].Revision
		r.items = slices.Clone(r.items[over:])
	}
}

// EventsSince returns what happened after a revision, how far it is complete,
// and a channel that closes when there is more. A revision this server no
// longer remembers is an error that says where to begin anew.
func (v *View) EventsSince(revision int64) (hs []Happening, upTo int64, more <-chan struct{}, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if revision < v.events.start {
		return nil, v.revision, v.moved, ares.Errorf(ares.NotFound,
			"events after revision %d are no longer kept: list the jobs, then watch from the revision of that list", revision).At("revision")
	}
	i, _ := slices.BinarySearchFunc(v.events.items, revision+1, func(h Happening, rev int64) int {
		if h.Revision < rev {
			return -1
		}
		return 1
	})
	return slices.Clone(v.events.items[i:]), v.revision, v.moved, nil
}

// jobEvents are the transitions a change of a run brought.
func jobEvents(was, now *Entry, rev int64) []Happening {
	seen := 0
	if was != nil {
		seen = was.Run.Dropped + len(was.Run.Transitions)
	}
	var out []Happening
	for _, t := range now.Run.Transitions[max(0, min(seen-now.Run.Dropped, len(now.Run.Transitions))):] {
		h := Happening{
			Revision: rev, At: t.At, Job: now.Job.ID, Tenant: now.Job.Tenant, Name: now.Job.Name,
			Phase: t.Phase, Attempt: t.Attempt, Message: t.Message,
		}
		if a := now.Run.Last(); a != nil && len(a.Seats) > 0 {
			h.Node = a.Seats[0].Node
		}
		out = append(out, h)
	}
	return out
}

func (v *View) nodeEvent(e *ares.Event, live bool, node string, state ares.NodeState, message string) {
	if live {
		v.events.add(Happening{Revision: e.Revision, At: v.Now(), Node: node, State: state, Message: message})
	}
}
