package config

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// PreemptionConfig says when running jobs are stopped for a waiting job. Running jobs are stopped if the waiting
// job's priority class is higher by two or more levels, or if the waiting job reclaims quota that other tenants
// borrowed. Preemption by queue order (QueueConfig.Preempt) selects victims by its own rules. The limits Ceiling,
// Cooldown and MaxPreemptions apply to it too.
type PreemptionConfig struct {
	// Enabled allows a waiting job to preempt running jobs because of its higher priority class, or to
	// reclaim borrowed quota.
	Enabled bool
	// Ceiling is a ratio in thousandths. It limits how many GPUs may be preempted for each GPU that the waiting
	// job requests. For example, 4000 means four GPUs. If Ceiling is 0, there is no ceiling.
	Ceiling int
	// MaxPreemptions is how often one job may be preempted; 0 means no limit.
	MaxPreemptions int `json:"MaxYields"`
	// Cooldown is the time after a preempted job's restart during which it may not be preempted again. Cooldown
	// should be long enough for a job to save its progress, because otherwise the job would restart again and
	// again.
	Cooldown time.Duration
	// Restart is the cost of restarting a preempted job, for each of its GPUs. The restart cost covers loading
	// the image, the data and the checkpoint, and is added to the cost of lost work.
	Restart time.Duration
	// PerTenant limits how many jobs per hour one tenant may preempt because its jobs have a higher priority
	// class. The value 0 means no limit.
	PerTenant int
	// Moving enables consolidation. With consolidation, jobs that keep their progress are migrated if a
	// waiting job can then start and all migrated jobs can run again afterwards.
	Moving bool
	// A consolidation is made only if its gain divided by its cost is at least MoveGain, in thousandths.
	MoveGain int
}

// These constants limit the values of a PreemptionConfig.
const (
	MaxCeiling        = 1_000_000 // thousandths
	MaxMaxPreemptions = 1000
	MaxCooldown       = 24 * time.Hour
	MaxRestart        = time.Hour
	MaxPerTenant      = 1_000_000
	MaxMoveGain       = 100_000 // thousandths
)

// By default a waiting job preempts running jobs of its own queue and class, if these allow it and are expected to need
// much more. These constants say how much more, and how long both must have waited and run: a preemption should be rare
// and its gain large, and most waiting jobs start without any.
const (
	LongerRatio = 4             // the running job is expected to need at least this many times as much
	LongerExtra = time.Hour     // added to what the waiting job needs, so that very short jobs stop no jobs of a few hours
	LongerWait  = time.Hour     // the waiting job has waited for at least this long, or for its own expected runtime
	LongerRun   = 2 * time.Hour // the running job has run for at least this long since its last start
)

// PreemptsLonger reports whether waiting jobs preempt much longer jobs of their own queue and class.
func (c *Config) PreemptsLonger() bool {
	return c.Preemption.Enabled && c.Queue.Order == OrderExpectedWork && !c.Queue.Preempt && c.Queue.Blocked == BlockedSkip
}

// MaxNominations is the maximum number of nominations at one time. When MaxNominations jobs are nominated, no
// further job is nominated until one of them is placed. So a burst of urgent jobs cannot preempt the jobs of a
// whole cluster before the first urgent job has started.
const MaxNominations = 64

// defaultPreemption returns the default preemption configuration. By default, no more than four GPUs are preempted
// for each requested GPU. A job is preempted no more than three times, and never in the first five minutes after a
// restart.
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

// The method `digest` returns the part of Config.Digest that describes the preemption configuration. The result
// is "" for the zero value.
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

// ExceedsCeiling reports whether preempting the given amount of GPUs for a request exceeds the ceiling.
func (y PreemptionConfig) ExceedsCeiling(stopped, asked int64) bool {
	return y.Ceiling > 0 && stopped*wholeDevice > int64(y.Ceiling)*asked
}

// IsWorth reports whether the gain of a consolidation is worth its cost.
func (y *PreemptionConfig) IsWorth(gain, lost int64) bool {
	return gain > 0 && gain*wholeDevice >= lost*int64(y.MoveGain)
}
