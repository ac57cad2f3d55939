package window

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// Calendar holds the reservations, and says what they mean for the current job. It
// costs nothing when there are none.
type Calendar struct {
	Cluster *cluster.Cluster
	Jobs    *job.Table
	Windows []*Window // by beginning, then name

	At              time.Time     // when the current job would start
	ExpectedStay    time.Duration // how long the current job is expected to run
	stayUnknown     bool          // ExpectedStay is an assumption, because no estimate exists
	Ignored         bool          // BlockingWindows returns none
	blockingScratch []*Window     // result of BlockingWindows
	ownScratch      cluster.Set   // result of ReservedForOwn
}

// SetReservation stores the record of a reservation; nil deletes it.
func (c *Calendar) SetReservation(name string, r *ares.Reservation) {
	c.Windows = slices.DeleteFunc(c.Windows, func(w *Window) bool { return w.Name == name })
	if r == nil {
		return
	}
	w := &Window{Reservation: r, layout: -1}
	at, _ := slices.BinarySearchFunc(c.Windows, w, byBeginning)
	c.Windows = slices.Insert(c.Windows, at, w)
}

// SetWindowTime sets when the next jobs would start, and ends Ignored.
func (c *Calendar) SetWindowTime(at time.Time) { c.At, c.Ignored = at, false }

// SetExpectedStay sets how long the current job is expected to run. A nil entry leaves
// it as it is.
func (c *Calendar) SetExpectedStay(e *job.Entry) {
	if len(c.Windows) > 0 && e != nil && e.Job != nil {
		c.setStay(e.ExpectedStay(c.At))
	}
}

// SetExpectedStayOf is SetExpectedStay for a job that is not in the state.
func (c *Calendar) SetExpectedStayOf(j *ares.Job) {
	c.setStay((&job.Entry{Job: j}).ExpectedStay(c.At))
}

// setStay sets the expected stay. A job without an estimate is assumed to run for
// ReservationLead.
func (c *Calendar) setStay(late time.Duration) {
	if c.ExpectedStay, c.stayUnknown = late, late == job.Forever; c.stayUnknown {
		c.ExpectedStay = ares.ReservationLead
	}
}

// WakeAtWindows wakes the plan when the next window opens or closes.
func (c *Calendar) WakeAtWindows(plan *ares.Plan) {
	if len(c.Jobs.EntryByID) == 0 {
		return // no job can be affected
	}
	for _, w := range c.Windows {
		for _, at := range [2]time.Time{w.From, w.Until} {
			if at.After(plan.Now) && (plan.Wake.IsZero() || at.Before(plan.Wake)) {
				plan.Wake = at
			}
		}
	}
}
