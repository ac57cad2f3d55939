package backfill

import (
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// PlannedStart returns the reservation in the form that users see: the start time, the latest start time and the seats.
func (r *Reservation) PlannedStart() ares.PlannedStart {
	p := ares.PlannedStart{Job: r.Entry.ID, Seats: r.Seats, Level: r.Merit.Level, Domain: r.Merit.Domain, Held: r.drain, Price: r.price}
	if r.At != job.NoEnd {
		p.At, p.Latest = time.Unix(0, r.At).UTC(), time.Unix(0, max(r.At, r.limit)).UTC()
	}
	return p
}
