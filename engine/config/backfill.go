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
	// DrainAfter is how long a job must have waited before free devices are held for it alone, even if it is unknown
	// when the job's other devices become free. If DrainAfter is 0, no devices are held for one job alone.
	DrainAfter time.Duration `json:"Hold"`
	// HoldIdle limits the devices that are idle because they are held for jobs that have waited longer than DrainAfter.
	// It is in thousandths of the devices on which such a job could run. A job earns this share of idle time while it
	// waits, and devices are held for it only if it has earned the idle time that the hold is expected to cost. If
	// several such jobs need the same nodes, they earn the share together. If HoldIdle is 0, no devices are held.
	HoldIdle int `json:",omitempty"`
	// SlackPercent is how much backfilled jobs may delay a planned start, in percent of the reserved job's waiting
	// time. SlackLeast is a delay of the planned start that is always allowed.
	SlackPercent int
	SlackLeast   time.Duration
	// MaxSpread is how uncertain the ends of running jobs may be for a reservation that waits for them: the p90 of
	// each job's runtime must be at most this many percent of its median, from enough runs of the same job. With
	// wider predictions, a reservation keeps more GPUs idle than it saves its job. The value 0 means no condition. A
	// job without a forecast is then expected to end at its time limit.
	MaxSpread int `json:",omitempty"`
}

// These constants limit the values of a BackfillConfig.
const (
	MaxReserved     = 64
	MaxReserveAfter = 60 * 24 * time.Hour
	MaxSlackPercent = 100
	MaxMaxSpread    = 100_000
	MaxHoldIdle     = 1000
)

// defaultBackfill returns the default backfill configuration. The default values come from measurements;
// see docs/guide/backfill.md.
func defaultBackfill() BackfillConfig {
	return BackfillConfig{First: 2, After: 5 * time.Minute, DrainAfter: 42 * 24 * time.Hour, HoldIdle: 2, SlackPercent: 10, SlackLeast: time.Minute, MaxSpread: 200}
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
	if r.MaxSpread != 0 && (r.MaxSpread < 100 || r.MaxSpread > MaxMaxSpread) {
		p.Add("reservations.max_spread_percent", "must be 0 for no condition, or between 100 and %d, got %d", MaxMaxSpread, r.MaxSpread)
	}
	if r.HoldIdle < 0 || r.HoldIdle > MaxHoldIdle {
		p.Add("reservations.hold_idle_percent", "must be between 0 and %d, got %v", MaxHoldIdle/10, float64(r.HoldIdle)/10)
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
	text := fmt.Sprintf(" reserve %d %d %d %d %d", r.First, r.After, r.DrainAfter, r.SlackPercent, r.SlackLeast)
	if r.HoldIdle != 0 {
		text += fmt.Sprintf(" hold %d", r.HoldIdle)
	}
	if r.MaxSpread != 0 {
		text += fmt.Sprintf(" spread %d", r.MaxSpread)
	}
	return text
}

// Slack returns how long backfilled jobs may delay the planned start of a job that has waited for the given time.
func (r BackfillConfig) Slack(wait time.Duration) time.Duration {
	return max(r.SlackLeast, wait/100*time.Duration(r.SlackPercent))
}
