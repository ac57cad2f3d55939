package service

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/policy/roles"
)

// An ETA and a runtime prediction follow from the runs of all tenants. An exact answer would tell one tenant when another
// tenant's run began or how long it took. So callers that may not see all jobs get these values rounded, and the more
// coarsely the farther away they are. The grid is the same for all jobs: with a grid of its own for each job, somebody who
// asks about many jobs could compute the exact value from the differences.

// roundsFor reports whether predictions are rounded for the caller.
func (e Visibility) roundsFor() bool { return !roles.Allows(e.Who, roles.JobRead, "", "") }

// roundETA rounds an ETA outwards, so that the job still starts between its two bounds. A bound that would lie in the past
// becomes the present.
func (e Visibility) roundETA(eta ares.ETA, now time.Time) ares.ETA {
	if !e.roundsFor() {
		return eta
	}
	if t := eta.Earliest; !t.IsZero() {
		eta.Earliest = roundInstant(t, now, roundDown)
		if eta.Earliest.Before(now) {
			eta.Earliest = now.Truncate(time.Second)
		}
	}
	if t := eta.Latest; !t.IsZero() {
		eta.Latest = roundInstant(t, now, roundUp)
	}
	return eta
}

// roundHold rounds the cost of a hold up. The cost follows from the ends of other tenants' jobs too.
func (e Visibility) roundHold(h *ares.HoldOutlook, now time.Time) *ares.HoldOutlook {
	if h == nil || !e.roundsFor() {
		return h
	}
	shown := *h
	shown.Until = roundInstant(h.Until, now, roundUp)
	if !h.Begins.IsZero() {
		shown.Begins = roundInstant(h.Begins, now, roundUp)
	}
	for _, d := range []*time.Duration{&shown.Idle, &shown.Delay} {
		*d = roundInstant(now.Add(*d), now, roundUp).Sub(now).Round(time.Minute)
	}
	return &shown
}

// roundingSteps are the grids of instants. An instant is rounded to the grid of the first step whose result is at least as
// far away as the step says.
var roundingSteps = [...]struct{ grid, beyond time.Duration }{
	{time.Hour, 24 * time.Hour}, {15 * time.Minute, 6 * time.Hour}, {5 * time.Minute, time.Hour}, {time.Minute, 0},
}

// roundInstant rounds an instant to a grid that depends on its distance. The distance is taken from the coarser value, which
// the caller could be told before. If it were taken from the instant itself, the moment at which the answer changes to the
// finer grid would tell the instant exactly.
func roundInstant(t, now time.Time, round func(time.Time, time.Duration) time.Time) (shown time.Time) {
	for _, step := range roundingSteps {
		if shown = round(t, step.grid); shown.Sub(now) >= step.beyond {
			break
		}
	}
	return shown
}

func roundDown(t time.Time, grid time.Duration) time.Time { return t.Truncate(grid) }

// roundUp returns the first instant of a grid that is not before t.
func roundUp(t time.Time, grid time.Duration) time.Time {
	if down := t.Truncate(grid); down.Before(t) {
		return down.Add(grid)
	}
	return t
}

// roundPrediction rounds the quantiles of a job's prediction. They stay within the job's time limit, which the caller
// knows.
func (e Visibility) roundPrediction(j *ares.Job, p ares.RuntimePredicted) ares.RuntimePredicted {
	if !e.roundsFor() {
		return p
	}
	p.P50, p.P90 = ares.RoundRuntime(p.P50), ares.RoundRuntime(p.P90)
	if limit := j.MaxRuntime(); limit > 0 {
		p.P50, p.P90 = min(p.P50, limit), min(p.P90, limit)
	}
	return p
}
