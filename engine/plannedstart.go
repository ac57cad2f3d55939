package engine

import (
	"time"

	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
)

// plannedStart is a reservation as others are told of it.
func (r *backfillReservation) plannedStart() ares.Promise {
	p := ares.Promise{Job: r.entry.Id, Seats: r.seats, Level: r.merit.Level, Domain: r.merit.Domain}
	if r.at != job.NoEnd {
		p.At, p.Latest = time.Unix(0, r.at).UTC(), time.Unix(0, max(r.at, r.limit)).UTC()
	}
	return p
}
