package window

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// Calendar holds the reservations, and determines which of them block a job. If there are no reservations,
// the checks of a Calendar take almost no time.
type Calendar struct {
	Cluster *cluster.Cluster
	Jobs    *job.Table
	Windows []*Window // sorted by start, then name

	blockingScratch []*Window   // result of BlockingWindows
	ownScratch      cluster.Set // result of ReservedForOwn
}

// SetReservation stores the record of a reservation, or deletes it if the record is nil.
func (c *Calendar) SetReservation(name string, r *ares.Reservation) {
	c.Windows = slices.DeleteFunc(c.Windows, func(w *Window) bool { return w.Name == name })
	if r == nil {
		return
	}
	w := &Window{Reservation: r, layout: -1}
	at, _ := slices.BinarySearchFunc(c.Windows, w, byBeginning)
	c.Windows = slices.Insert(c.Windows, at, w)
}

// WakeAtWindows sets the plan's wake-up time to the time when the next window opens or closes.
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
