package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Promises are the reservations of the last decision, in the order of the jobs.
// They are a part of no plan, and good until the next decision.
func (s *State) Promises() []ares.Promise { return s.promises }

// promise is a reservation as others are told of it.
func (r *reservation) promise() ares.Promise {
	p := ares.Promise{Job: r.entry.id, Seats: r.seats, Level: r.merit.Level, Domain: r.merit.Domain}
	if r.at != endless {
		p.At, p.Latest = time.Unix(0, r.at).UTC(), time.Unix(0, max(r.at, r.limit)).UTC()
	}
	return p
}

// promises keeps the reservations of a decision for who asks.
func (t *try) promises() {
	s := t.state
	clear(s.promises)
	s.promises = s.promises[:0]
	for i := range t.reserved {
		p := t.reserved[i].promise()
		p.Firm = t.reserved[i].first && !p.At.IsZero() && !s.Borrows(p.Job) && len(s.shutFrom(t.reserved[i].entry)) == 0
		s.promises = append(s.promises, p)
	}
}

// Ends is when a job that started now would have ended in nine of ten cases; it
// is false when nobody knows.
func (s *State) Ends(id ares.JobID, now time.Time) (time.Time, bool) {
	e := s.jobs[id]
	if e == nil || e.job == nil {
		return time.Time{}, false
	}
	_, late := e.left(now)
	return now.Add(late), late != never
}
