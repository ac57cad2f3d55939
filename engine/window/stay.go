package window

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// Stay holds the time at which a job would start, and its expected runtime. The start and the runtime decide
// whether a reservation blocks the job.
type Stay struct {
	At      time.Time
	Lasts   time.Duration
	Unknown bool // Lasts is an assumption, because there is no estimate
	Ignore  bool // as if there were no reservations
}

// StayOf returns the Stay of a job that would start at a given time. If there are no reservations, or if no job is
// given, only the start time is set.
func (c *Calendar) StayOf(e *job.Entry, at time.Time) Stay {
	if len(c.Windows) == 0 || e == nil || e.Job == nil {
		return Stay{At: at}
	}
	return newStay(e.ExpectedStay(at), at)
}

// StayOfJob does the same as StayOf, but for a job that is not in the state.
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
