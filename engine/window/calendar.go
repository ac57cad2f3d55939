package window

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// Calendar is the reservations, and what they mean for the job whose turn it is.
// Who has none pays for nothing.
type Calendar struct {
	Cluster *cluster.Cluster
	Jobs    *job.Table
	Windows []*Window // by their beginning, then name

	At              time.Time     // when what is placed would begin
	ExpectedStay    time.Duration // how long the job would stay
	stayUnknown     bool          // nobody knows how long that is
	Ignored         bool          // as if there were none
	blockingScratch []*Window     // scratch of bars
	ownScratch      cluster.Set   // scratch of ownNodes
}

// SetReservation takes over a reservation's record, nil when it went.
func (c *Calendar) SetReservation(name string, r *ares.Reservation) {
	c.Windows = slices.DeleteFunc(c.Windows, func(w *Window) bool { return w.Name == name })
	if r == nil {
		return
	}
	w := &Window{Reservation: r, layout: -1}
	at, _ := slices.BinarySearchFunc(c.Windows, w, byBeginning)
	c.Windows = slices.Insert(c.Windows, at, w)
}

// SetWindowTime has windows held against what begins at a time.
func (c *Calendar) SetWindowTime(at time.Time) { c.At, c.Ignored = at, false }

// SetExpectedStay has windows held against how long a job is thought to stay.
func (c *Calendar) SetExpectedStay(e *job.Entry) {
	if len(c.Windows) > 0 && e != nil && e.Job != nil {
		c.setStay(e.ExpectedStay(c.At))
	}
}

// SetExpectedStayOf is stays of a job that the state does not know.
func (c *Calendar) SetExpectedStayOf(j *ares.Job) {
	c.setStay((&job.Entry{Job: j}).ExpectedStay(c.At))
}

// setStay is how long a job is taken to run: of unknown length so long as a
// reservation is thought of ahead.
func (c *Calendar) setStay(late time.Duration) {
	if c.ExpectedStay, c.stayUnknown = late, late == job.Forever; c.stayUnknown {
		c.ExpectedStay = ares.ReservationLead
	}
}

// WakeAtWindows wakes the plan when the next window opens or closes.
func (c *Calendar) WakeAtWindows(plan *ares.Plan) {
	if len(c.Jobs.EntryByID) == 0 {
		return // nobody to wake for
	}
	for _, w := range c.Windows {
		for _, at := range [2]time.Time{w.From, w.Until} {
			if at.After(plan.Now) && (plan.Wake.IsZero() || at.Before(plan.Wake)) {
				plan.Wake = at
			}
		}
	}
}
