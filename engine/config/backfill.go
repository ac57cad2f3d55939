package config

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// BackfillConfig says which blocked jobs get a backfill reservation, and how much other jobs may delay
// the reserved start. With the zero value, no backfill reservations are made.
type BackfillConfig struct {
	// The field First is the number of blocked jobs that get a backfill reservation. The reservations go to the
	// first blocked jobs in the common order of all queues. If several jobs of one queue have equal requests
	// (the same shape), only the first of them gets a reservation.
	First int
	// The field After is the waiting time after which a job can get a reservation. A job that has waited for
	// less than `After` gets no reservation, so it does not delay other jobs.
	After time.Duration
	// DrainAfter is how long a job must have waited before free devices are held for it alone. The devices
	// are then held even if it is unknown when the job's other devices become free, or if earlier predictions
	// were wrong. Devices are held in this way for only one job at a time, because they stay idle while they
	// are held. If DrainAfter is 0, no devices are held for one job alone.
	DrainAfter time.Duration `json:"Hold"`
	// SlackPercent is how much backfilled jobs may delay a planned start, in percent of the reserved job's waiting
	// time. SlackLeast is a delay of the planned start that is always allowed.
	SlackPercent int
	SlackLeast   time.Duration
}

// These constants limit the values of a BackfillConfig.
const (
	MaxReserved     = 64
	MaxReserveAfter = 60 * 24 * time.Hour
	MaxSlackPercent = 100
)

// defaultBackfill returns the default backfill configuration. The default values come from measurements;
// see docs/guide/backfill.md.
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

// The method `digest` returns the part of Config.Digest that describes the backfill configuration. The result
// is "" for the zero value.
func (r BackfillConfig) digest() string {
	if r == (BackfillConfig{}) {
		return ""
	}
	return fmt.Sprintf(" reserve %d %d %d %d %d", r.First, r.After, r.DrainAfter, r.SlackPercent, r.SlackLeast)
}

// Slack returns how long backfilled jobs may delay the planned start of a job that has waited for the given time.
func (r BackfillConfig) Slack(wait time.Duration) time.Duration {
	return max(r.SlackLeast, wait/100*time.Duration(r.SlackPercent))
}
