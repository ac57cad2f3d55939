package job

import (
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// ReadyDelayed readies the jobs whose delay is over, once none of their seats can
// still hold a live process, and notes when the next delay ends.
func (j *Table) ReadyDelayed(plan *ares.Plan, now time.Time) {
	for _, e := range j.Delayed {
		if now.Before(e.DelayUntil) {
			plan.Wake = e.DelayUntil
			return
		}
		if !e.IsSettled() || j.ArrayIsStopping(e) {
			continue // an event will say when
		}
		if len(plan.Ready) == config.MaxPlacings {
			plan.Wake = now
			return
		}
		plan.Ready = append(plan.Ready, e.ID)
	}
}
