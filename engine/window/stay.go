package window

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// Stay is when a job would start and for how long it is expected to run: reservations
// block a job by both.
type Stay struct {
	At      time.Time
	Lasts   time.Duration
	Unknown bool // Lasts is an assumption, because no estimate exists
	Ignore  bool // as if there were no reservations
}

// StayOf is the stay of a job that would start at a time. Without reservations, or
// without a job, it has only the time.
func (c *Calendar) StayOf(e *job.Entry, at time.Time) Stay {
	if len(c.Windows) == 0 || e == nil || e.Job == nil {
		return Stay{At: at}
	}
	return newStay(e.ExpectedStay(at), at)
}

// StayOfJob is StayOf for a job that is not in the state.
func (c *Calendar) StayOfJob(j *ares.Job, at time.Time) Stay {
	return c.StayOf(&job.Entry{Job: j}, at)
}

// newStay assumes that a job without an estimate runs for ReservationLead.
func newStay(lasts time.Duration, at time.Time) Stay {
	if lasts == job.Forever {
		return Stay{At: at, Lasts: ares.ReservationLead, Unknown: true}
	}
	return Stay{At: at, Lasts: lasts}
}
