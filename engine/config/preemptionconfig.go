package config

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// PreemptionConfig is when running jobs are stopped for a waiting one: because its class
// is higher by two or more, or because its tenant takes back what it had lent.
// Queueing.Yield has rules of its own for who, but the ceiling, the cooldown and
// the number of times bind it too.
type PreemptionConfig struct {
	// Enabled lets jobs give way by class and by quota.
	Enabled bool
	// Ceiling is how much may be stopped for a job, in thousandths of what it
	// asks for: 4000 is four GPUs for each one asked. 0 for no ceiling.
	Ceiling int
	// MaxYields is how often one job gives way at most, to whomever; 0 for no bound.
	MaxPreemptions int `json:"MaxYields"`
	// Cooldown is how long a job that gave way is left alone once it runs again:
	// long enough to save something, or it would only ever restart.
	Cooldown time.Duration
	// Restart is what starting again costs each GPU of a job, beside the work that
	// is lost: loading the image, the data, the checkpoint.
	Restart time.Duration
	// PerTenant is how many jobs the jobs of one tenant may stop by class in an
	// hour; 0 for no bound.
	PerTenant int
	// Moving lets jobs be moved that keep their progress, where that makes room
	// for one that waits and all of them run then.
	Moving bool
	// MoveGain is how many times what it costs that must gain, in thousandths.
	MoveGain int
}

// Limits on it.
const (
	MaxCeiling        = 1_000_000 // thousandths
	MaxMaxPreemptions = 1000
	MaxCooldown       = 24 * time.Hour
	MaxRestart        = time.Hour
	MaxPerTenant      = 1_000_000
	MaxMoveGain       = 100_000 // thousandths
)

// MaxNominations is how many jobs have seats kept for them at once. Beyond it
// jobs wait until one of those has its place: so that a burst of urgent jobs
// does not empty a fleet before the first of them has started.
const MaxNominations = 64

// defaultPreemption stops at most four GPUs for one, a job at most three times,
// and not in the first five minutes after it came back. Three, because the
// fourth time it is always the same job that pays: from then on it finishes.
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
		p.Add("preemption_ceiling", "must be 0 for none, or between 1 and %d, got %d thousandths: with less than 1 nothing could give way to a job of its own size", MaxCeiling/1000, y.Ceiling)
	}
	between("max_preemptions", y.MaxPreemptions, MaxMaxPreemptions, "")
	between("preemption_cooldown_seconds", int(y.Cooldown/time.Second), int(MaxCooldown/time.Second), "")
	between("restart_seconds", int(y.Restart/time.Second), int(MaxRestart/time.Second), "")
	if y.Moving && y.MoveGain < wholeDevice || y.MoveGain < 0 || y.MoveGain > MaxMoveGain {
		p.Add("consolidation.gain", "must be between 1 and %d, got %d thousandths: with less than 1 more would be lost than gained", MaxMoveGain/1000, y.MoveGain)
	}
	between("max_preemptions_per_hour", y.PerTenant, MaxPerTenant, "")
}

// digest is what tells it apart from others, "" for the zero value: so the
// digests of those who never heard of it stay what they were.
func (y PreemptionConfig) digest() string {
	if y == (PreemptionConfig{}) {
		return ""
	}
	out := fmt.Sprintf(" yield %t %d %d %d %d %d", y.Enabled, y.Ceiling, y.MaxPreemptions, y.Cooldown, y.Restart, y.PerTenant)
	if y.Moving { // else it decides nothing
		out += fmt.Sprintf(" move %d", y.MoveGain)
	}
	return out
}

// ExceedsCeiling says whether stopping so much for so much is above the ceiling.
func (y PreemptionConfig) ExceedsCeiling(stopped, asked int64) bool {
	return y.Ceiling > 0 && stopped*wholeDevice > int64(y.Ceiling)*asked
}

// IsWorth says whether a gain is worth a loss.
func (y *PreemptionConfig) IsWorth(gain, lost int64) bool {
	return gain > 0 && gain*wholeDevice >= lost*int64(y.MoveGain)
}
