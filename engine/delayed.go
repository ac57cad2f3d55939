package engine

import (
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// readyDelayed readies the jobs whose delay is over, once none of their seats can
// still hold a live process, and notes when the next delay ends.
func (j *jobTable) readyDelayed(plan *ares.Plan, now time.Time) {
	for _, e := range j.delayed {
		if now.Before(e.delayUntil) {
			plan.Wake = e.delayUntil
			return
		}
		if !e.isSettled() || j.arrayIsStopping(e) {
			continue // an event will say when
		}
		if len(plan.Ready) == config.MaxPlacings {
			plan.Wake = now
			return
		}
		plan.Ready = append(plan.Ready, e.id)
	}
}
