package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// plannedStart is a reservation as others are told of it.
func (r *backfillReservation) plannedStart() ares.Promise {
	p := ares.Promise{Job: r.entry.id, Seats: r.seats, Level: r.merit.Level, Domain: r.merit.Domain}
	if r.at != noEnd {
		p.At, p.Latest = time.Unix(0, r.at).UTC(), time.Unix(0, max(r.at, r.limit)).UTC()
	}
	return p
}
