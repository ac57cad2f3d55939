package config

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// BackfillConfig is which of the jobs that find no place have one kept for them, and
// what that may cost the others. The zero value keeps none.
type BackfillConfig struct {
	// First is for how many of the blocked jobs, in the order of all queues
	// together, a place is kept. Of jobs alike in one queue it is for the first.
	First int
	// After is how long a job has waited before a place is kept for it: what
	// is over sooner costs the others nothing.
	After time.Duration
	// Hold is how long a job has waited before what comes free is kept for it
	// alone though nobody knows when the rest will, or though predictions fail
	// it: of one job at a time, because that costs idle devices. 0 is never.
	DrainAfter time.Duration `json:"Hold"`
	// SlackPercent is how much later than promised a start may become by those
	// who start before it, in hundredths of its wait, and SlackLeast what it may
	// be in any case.
	SlackPercent int
	SlackLeast   time.Duration
}

// Limits on it.
const (
	MaxReserved     = 64
	MaxReserveAfter = 60 * 24 * time.Hour
	MaxSlackPercent = 100
)

// defaultBackfill is measured: see docs/backfill.md.
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

// digest is what tells it apart from others, "" for none.
func (r BackfillConfig) digest() string {
	if r == (BackfillConfig{}) {
		return ""
	}
	return fmt.Sprintf(" reserve %d %d %d %d %d", r.First, r.After, r.DrainAfter, r.SlackPercent, r.SlackLeast)
}

// Slack is how much later than promised a job's start may become that waits
// since a time.
func (r BackfillConfig) Slack(wait time.Duration) time.Duration {
	return max(r.SlackLeast, wait/100*time.Duration(r.SlackPercent))
}
