package config

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// PreemptionConfig says when running jobs are stopped for a waiting one: because its
// class is higher by two or more, or because it reclaims quota that others borrowed.
// Preemption by queue order (QueueConfig.Preempt) has its own rules for victims, but
// Ceiling, Cooldown and MaxPreemptions bind it too.
type PreemptionConfig struct {
	// Enabled allows preemption by class and by quota.
	Enabled bool
	// Ceiling is how much may be stopped for a job, in thousandths of its request: 4000 is
	// four GPUs for each requested one. 0 for no ceiling.
	Ceiling int
	// MaxPreemptions is how often one job may be preempted; 0 for no bound.
	MaxPreemptions int `json:"MaxYields"`
	// Cooldown is how long a preempted job may not be preempted again after it restarted.
	// It should be long enough to save progress, or the job would only restart.
	Cooldown time.Duration
	// Restart is the cost of a restart for each GPU of a job, in addition to lost work:
	// loading the image, the data and the checkpoint.
	Restart time.Duration
	// PerTenant is how many jobs the jobs of one tenant may preempt by class in an hour; 0
	// for no bound.
	PerTenant int
	// Moving enables consolidation: jobs that keep their progress are moved when that
	// makes capacity for a waiting job and all of them run afterwards.
	Moving bool
	// MoveGain is the smallest ratio of the gain to the cost of consolidation, in
	// thousandths.
	MoveGain int
}

// Limits on a PreemptionConfig.
const (
	MaxCeiling        = 1_000_000 // thousandths
	MaxMaxPreemptions = 1000
	MaxCooldown       = 24 * time.Hour
	MaxRestart        = time.Hour
	MaxPerTenant      = 1_000_000
	MaxMoveGain       = 100_000 // thousandths
)

// MaxNominations is the number of nominations at one time. Other jobs wait until a
// nominated job is placed, so that a burst of urgent jobs does not stop a whole
// cluster before the first of them has started.
const MaxNominations = 64

// defaultPreemption returns the defaults: at most four GPUs are stopped for one, a job
// is preempted at most three times, and not in the first five minutes after a restart.
// After three preemptions the same job has paid often enough, and finishes.
func defaultPreemption() PreemptionConfig {
	return PreemptionConfig{Enabled: true, Ceiling: 4000, MaxPreemptions: 3, Cooldown: 5 * time.Minute, Restart: time.Minute, PerTenant: 100, MoveGain: 2000}
}

func (y PreemptionConfig) validate(p *ares.Problems) {
	between := func(field string, v, most int, unit string) {
		if v < 0 || v > most {
			p.Add(field, "must be between 0 and %d%s, got %d", most, unit, v)
		}
	}
	if y.Ceiling != 0 && (y.Ceiling < wholeDevice || y.Ceiling > MaxCeiling) {
		p.Add("preemption_ceiling", "must be 0 for none, or between 1 and %d, got %d thousandths: with less than 1 no job of the same size could be preempted", MaxCeiling/1000, y.Ceiling)
	}
	between("max_preemptions", y.MaxPreemptions, MaxMaxPreemptions, "")
	between("preemption_cooldown_seconds", int(y.Cooldown/time.Second), int(MaxCooldown/time.Second), "")
	between("restart_seconds", int(y.Restart/time.Second), int(MaxRestart/time.Second), "")
	if y.Moving && y.MoveGain < wholeDevice || y.MoveGain < 0 || y.MoveGain > MaxMoveGain {
		p.Add("consolidation.gain", "must be between 1 and %d, got %d thousandths: with less than 1 more would be lost than gained", MaxMoveGain/1000, y.MoveGain)
	}
	between("max_preemptions_per_hour", y.PerTenant, MaxPerTenant, "")
}

// digest returns the part of Config.Digest, "" for the zero value.
func (y PreemptionConfig) digest() string {
	if y == (PreemptionConfig{}) {
		return ""
	}
	out := fmt.Sprintf(" yield %t %d %d %d %d %d", y.Enabled, y.Ceiling, y.MaxPreemptions, y.Cooldown, y.Restart, y.PerTenant)
	if y.Moving { // otherwise MoveGain has no effect
		out += fmt.Sprintf(" move %d", y.MoveGain)
	}
	return out
}

// ExceedsCeiling reports whether stopping so much for a request exceeds the ceiling.
func (y PreemptionConfig) ExceedsCeiling(stopped, asked int64) bool {
	return y.Ceiling > 0 && stopped*wholeDevice > int64(y.Ceiling)*asked
}

// IsWorth reports whether the gain of a consolidation is worth its cost.
func (y *PreemptionConfig) IsWorth(gain, lost int64) bool {
	return gain > 0 && gain*wholeDevice >= lost*int64(y.MoveGain)
}
