package server

import (
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/engine/config"
)

func defaultScheduler() SchedulerConfig {
	d := config.Default()
	return SchedulerConfig{
		SchedulingIntervalMS: 1000, MaxQueueSize: 1_000_000, EnableGangScheduling: true, LeaderTTLSeconds: 5,
		MaxRanksPerNode: 128, DefaultCPUCores: 1, DefaultMemoryMB: 1024,
		EnableThermalAware: true, ThermalThreshold: float64(d.ThermalLimit), ThermalMargin: d.ThermalMargin,
		AgeingStepSeconds: int(d.AgeingStep / time.Second), UsageHalfLifeHours: int(d.HalfLife / time.Hour),
		EnablePreemption: d.Preemption.Enabled, PreemptionCeiling: float64(d.Preemption.Ceiling) / 1000, MaxPreemptions: d.Preemption.MaxPreemptions,
		PreemptionCooldownSeconds: int(d.Preemption.Cooldown / time.Second), RestartSeconds: int(d.Preemption.Restart / time.Second),
		MaxPreemptionsPerHour: d.Preemption.PerTenant,
		Consolidation:         ConsolidationConfig{Enabled: d.Preemption.Moving, Gain: float64(d.Preemption.MoveGain) / 1000},
		OverdueAfterHours:     int(d.Queue.OverdueAfter / time.Hour), OverdueSharePercent: d.Queue.OverdueShare,
		QueueOrder: config.Orders()[0], BlockedJobs: config.BlockedPolicies()[0], InfeasibleDeadlines: string(admission.DeadlineWarn),
		Reservations: ReservationsConfig{
			First: d.Backfill.First, AfterSeconds: int(d.Backfill.After / time.Second), HoldAfterSeconds: int(d.Backfill.DrainAfter / time.Second), HoldIdlePercent: float64(d.Backfill.HoldIdle) / 10,
			MaxSpreadPercent: d.Backfill.MaxSpread,
			SlackPercent:     d.Backfill.SlackPercent, SlackSeconds: int(d.Backfill.SlackLeast / time.Second),
		},
	}
}

// This method returns the engine's part of the configuration. Devices report temperatures in whole degrees,
// so a threshold of 75.5 has the same effect as a threshold of 75.
func (c *Config) engine() config.Config {
	s, cfg := &c.Scheduler, config.Default()
	cfg.ThermalMargin, cfg.ThermalLimit = s.ThermalMargin, 0
	cfg.AgeingStep = time.Duration(s.AgeingStepSeconds) * time.Second
	cfg.HalfLife = time.Duration(s.UsageHalfLifeHours) * time.Hour
	cfg.NodeRanks = s.MaxRanksPerNode
	cfg.Placement = config.PlacementPolicy(s.Placement)
	cfg.Queue = config.NewQueueConfig(s.QueueOrder, s.BlockedJobs, s.PreemptByOrder, s.AttainedGPUSeconds)
	if cfg.Queue.Order == config.OrderExpectedWork {
		cfg.Queue.OverdueAfter, cfg.Queue.OverdueShare = time.Duration(s.OverdueAfterHours)*time.Hour, s.OverdueSharePercent
	}
	cfg.Queue.PeersAfter = time.Duration(s.PreemptPeersAfterHours) * time.Hour
	cfg.Preemption = config.PreemptionConfig{
		Enabled: s.EnablePreemption, Ceiling: int(math.Round(s.PreemptionCeiling * 1000)), MaxPreemptions: s.MaxPreemptions,
		Cooldown: time.Duration(s.PreemptionCooldownSeconds) * time.Second, Restart: time.Duration(s.RestartSeconds) * time.Second,
		PerTenant: s.MaxPreemptionsPerHour, Moving: s.Consolidation.Enabled, MoveGain: int(math.Round(s.Consolidation.Gain * 1000)),
	}
	cfg.Backfill = s.Reservations.engine()
	cfg.ModelWeights = make(map[string]int, len(s.ModelWeights))
	if s.EnableThermalAware {
		cfg.ThermalLimit = int(math.Floor(s.ThermalThreshold))
	}
	for model, weight := range s.ModelWeights {
		cfg.ModelWeights[model] = int(math.Round(weight * 1000))
	}
	return cfg
}

func (r *ReservationsConfig) engine() config.BackfillConfig {
	return config.BackfillConfig{
		First: r.First, After: time.Duration(r.AfterSeconds) * time.Second, DrainAfter: time.Duration(r.HoldAfterSeconds) * time.Second, HoldIdle: int(math.Round(min(max(r.HoldIdlePercent, -1), 1<<20) * 10)),
		SlackPercent: r.SlackPercent, SlackLeast: time.Duration(r.SlackSeconds) * time.Second, MaxSpread: r.MaxSpreadPercent,
	}
}

// This method reports mistakes in the configuration keys of the engine.
func (s *SchedulerConfig) check(p *ares.Problems) {
	if !(s.ThermalThreshold >= 1 && s.ThermalThreshold <= config.MaxCelsius) { // also true for NaN
		p.Add("scheduler.thermal_threshold", "must be between 1 and %d °C, got %v: to ignore temperatures set enable_thermal_aware to false", config.MaxCelsius, s.ThermalThreshold)
		return
	}
	if !(s.PreemptionCeiling == 0 || s.PreemptionCeiling >= 1 && s.PreemptionCeiling <= config.MaxCeiling/1000) { // also true for NaN
		p.Add("scheduler.preemption_ceiling", "must be 0 for none, or between 1 and %d, got %v: with less than 1 no job of the same size could be preempted", config.MaxCeiling/1000, s.PreemptionCeiling)
		right := *s
		s, right.PreemptionCeiling = &right, 0 // so that the other keys are still checked
	}
	if !(s.Consolidation.Gain >= 1 && s.Consolidation.Gain <= config.MaxMoveGain/1000) {
		p.Add("scheduler.consolidation.gain", "must be between 1 and %d, got %v: with less than 1 more would be lost than gained", config.MaxMoveGain/1000, s.Consolidation.Gain)
		return
	}
	if _, err := admission.ParseDeadlinePolicy(s.InfeasibleDeadlines); err != nil {
		p.Add("scheduler.infeasible_deadlines", "%s", err)
	}
	for _, model := range slices.Sorted(maps.Keys(s.ModelWeights)) {
		if w := s.ModelWeights[model]; !(w >= 0.001 && w <= config.MaxModelWeight/1000) {
			p.Add("scheduler.model_weights."+model, "must be between 0.001 and %d, got %v", config.MaxModelWeight/1000, w)
			return
		}
	}
	c := Config{Scheduler: *s}
	if wrong, ok := errors.AsType[*ares.InvalidRequest](c.engine().Check()); ok {
		for _, w := range wrong.Problems {
			p.Add("scheduler."+w.Field, "%s", w.Message)
		}
	}
}
