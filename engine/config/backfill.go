package config

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// BackfillConfig says which blocked jobs get a backfill reservation, and how far other
// jobs may delay it. The zero value makes no reservations.
type BackfillConfig struct {
	// First is how many of the blocked jobs, in the order of all queues together, get a
	// backfill reservation. Of jobs of one shape in one queue only the first gets one.
	First int
	// After is how long a job must have waited to get a reservation: a shorter wait should
	// not cost other jobs anything.
	After time.Duration
	// DrainAfter is how long a job must have waited until free devices are kept for it
	// alone, even though the time of the rest is unknown or predictions have failed. It
	// applies to one job at a time, because it leaves devices idle. 0 means never.
	DrainAfter time.Duration `json:"Hold"`
	// SlackPercent is how much backfilled jobs may delay a planned start, in percent of
	// the job's wait. SlackLeast is what they may delay it in any case.
	SlackPercent int
	SlackLeast   time.Duration
}

// Limits on a BackfillConfig.
const (
	MaxReserved     = 64
	MaxReserveAfter = 60 * 24 * time.Hour
	MaxSlackPercent = 100
)

// defaultBackfill returns the defaults. They were measured: see docs/backfill.md.
func defaultBackfill() BackfillConfig {
	return BackfillConfig{First: 2, After: 5 * time.Minute, DrainAfter: 7 * 24 * time.Hour, SlackPercent: 10, SlackLeast: time.Minute}
}

func (r BackfillConfig) validate(p *ares.Problems) {
	if r.First < 0 || r.First > MaxReserved {
		p.Add("reservations.first", "must be between 0 and %d, got %d", MaxReserved, r.First)
	}
	within := func(field string, d, most time.Duration) {
		if d < 0 || d > most {
			p.Add("reservations."+field, "must be between 0 and %d, got %d", most/time.Second, d/time.Second)
		}
	}
	within("after_seconds", r.After, MaxReserveAfter)
	within("hold_after_seconds", r.DrainAfter, MaxReserveAfter)
	within("slack_seconds", r.SlackLeast, MaxReserveAfter)
	if r.DrainAfter != 0 && r.DrainAfter < r.After {
		p.Add("reservations.hold_after_seconds", "must not be less than after_seconds (%d), got %d", r.After/time.Second, r.DrainAfter/time.Second)
	}
	if r.SlackPercent < 0 || r.SlackPercent > MaxSlackPercent {
		p.Add("reservations.slack_percent", "must be between 0 and %d, got %d", MaxSlackPercent, r.SlackPercent)
	}
}

// digest returns the part of Config.Digest, "" for the zero value.
func (r BackfillConfig) digest() string {
	if r == (BackfillConfig{}) {
		return ""
	}
	return fmt.Sprintf(" reserve %d %d %d %d %d", r.First, r.After, r.DrainAfter, r.SlackPercent, r.SlackLeast)
}

// Slack returns how much a planned start may be delayed for a job that has waited so
// long.
func (r BackfillConfig) Slack(wait time.Duration) time.Duration {
	return max(r.SlackLeast, wait/100*time.Duration(r.SlackPercent))
}
