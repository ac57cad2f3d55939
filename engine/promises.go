package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// PlannedStarts are the reservations of the last decision, in the order of the jobs.
// They are a part of no plan, and good until the next decision.
func (s *State) PlannedStarts() []ares.Promise { return s.round.plannedStarts }

// plannedStart is a reservation as others are told of it.
func (r *backfillReservation) plannedStart() ares.Promise {
	p := ares.Promise{Job: r.entry.id, Seats: r.seats, Level: r.merit.Level, Domain: r.merit.Domain}
	if r.at != noEnd {
		p.At, p.Latest = time.Unix(0, r.at).UTC(), time.Unix(0, max(r.at, r.limit)).UTC()
	}
	return p
}

// recordPlannedStarts keeps the reservations of a decision for who asks.
func (t *round) recordPlannedStarts() {
	clear(t.plannedStarts)
	t.plannedStarts = t.plannedStarts[:0]
	for i := range t.backfill.reservations {
		p := t.backfill.reservations[i].plannedStart()
		p.Firm = t.backfill.reservations[i].firm && !p.At.IsZero() && !t.jobs.wouldBorrowNow(t.backfill.reservations[i].entry) && len(t.windows.windowsBlocking(t.backfill.reservations[i].entry)) == 0
		t.plannedStarts = append(t.plannedStarts, p)
	}
}

// ExpectedEnd is when a job that started now would have ended in nine of ten cases; it
// is false when nobody knows.
func (s *State) ExpectedEnd(id ares.JobID, now time.Time) (time.Time, bool) {
	e := s.core.jobs.entryByID[id]
	if e == nil || e.job == nil {
		return time.Time{}, false
	}
	_, late := e.remaining(now)
	return now.Add(late), late != forever
}
