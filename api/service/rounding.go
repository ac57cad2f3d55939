package service

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/policy/roles"
)

// An ETA and a runtime prediction follow from the runs of all tenants. An exact answer would tell one tenant when another
// tenant's run began or how long it took. So callers that may not see all jobs get these values rounded, and the more
// coarsely the farther away they are. Instants are rounded to a fixed grid, so that asking again shows nothing more.

// roundsFor reports whether predictions are rounded for the caller.
func (e Visibility) roundsFor() bool { return !roles.Allows(e.Who, roles.JobRead, "", "") }

// grain returns the grid for an instant that is this far away, or for a duration of this length.
func grain(far time.Duration) time.Duration {
	switch {
	case far < time.Hour:
		return time.Minute
	case far < 6*time.Hour:
		return 5 * time.Minute
	case far < 24*time.Hour:
		return 15 * time.Minute
	default:
		return time.Hour
	}
}

// roundETA rounds an ETA outwards, so that the job still starts between its two bounds. A bound that would lie in the past
// becomes the present.
func (e Visibility) roundETA(eta ares.ETA, now time.Time) ares.ETA {
	if !e.roundsFor() {
		return eta
	}
	if t := eta.Earliest; !t.IsZero() {
		eta.Earliest = t.Truncate(grain(t.Sub(now)))
		if eta.Earliest.Before(now) {
			eta.Earliest = now.Truncate(time.Second)
		}
	}
	if t := eta.Latest; !t.IsZero() {
		eta.Latest = roundUp(t, grain(t.Sub(now)))
	}
	return eta
}

// roundUp returns the first instant of a grid that is not before t.
func roundUp(t time.Time, grid time.Duration) time.Time {
	if down := t.Truncate(grid); down.Before(t) {
		return down.Add(grid)
	}
	return t
}

// roundPrediction rounds the quantiles of a prediction up. Below a minute the grid is ten seconds, because most jobs of a
// test suite are that short.
func (e Visibility) roundPrediction(p ares.RuntimePredicted) ares.RuntimePredicted {
	if e.roundsFor() {
		p.P50, p.P90 = roundDuration(p.P50), roundDuration(p.P90)
	}
	return p
}

func roundDuration(d time.Duration) time.Duration {
	grid := grain(d)
	if d <= time.Minute {
		grid = 10 * time.Second
	}
	return (d + grid - 1).Truncate(grid)
}
