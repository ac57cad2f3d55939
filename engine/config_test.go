package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

func TestDefaultConfigIsFine(t *testing.T) {
	if err := config.Default().Check(); err != nil {
		t.Error(err)
	}
	if got := New().core.Cfg.Digest(); got != config.Default().Digest() {
		t.Errorf("a new state has the configuration %s", got)
	}
}

func TestConfigCheckNamesEveryMistake(t *testing.T) {
	err := config.Config{
		ThermalLimit: -1, ThermalMargin: 999, ModelWeights: map[string]int{"h100": 0, "": 5},
		Placement: "worstfit", Typical: []config.TypicalJob{{GPUs: 1, Count: 1}, {Milli: 500}},
		Preemption: config.PreemptionConfig{Ceiling: 999, MaxPreemptions: -1, Cooldown: 48 * time.Hour, Restart: -time.Second, PerTenant: config.MaxPerTenant + 1},
		Queue:      config.QueueConfig{Order: "lifo", Blocked: "jump", Attained: -1},
		Backfill:   config.BackfillConfig{First: 65, After: time.Hour, DrainAfter: -1, SlackPercent: 101, SlackLeast: config.MaxReserveAfter + 1},
	}.Check()
	if err == nil {
		t.Fatal("all of it is wrong")
	}
	for _, field := range []string{
		"thermal_threshold", "thermal_margin", "ageing_step_seconds", "usage_half_life_hours", "model_weights.h100", "model_weights: a model", `placement: must be one of [random`, "typical[1]",
		`queue_order: "lifo" is no order`, `blocked_jobs: "jump"`, "attained_gpu_seconds: must be between", "attained_gpu_seconds: means something",
		"preemption_ceiling: must be 0 for none", "max_preemptions: must be", "preemption_cooldown_seconds: must be", "restart_seconds: must be", "max_preemptions_per_hour: must be",
		"reservations.first: must", "reservations.hold_after_seconds: must be", "reservations.hold_after_seconds: must not", "reservations.slack_percent", "reservations.slack_seconds",
	} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
}

// Every field counts for the digest, and the order of a map does not.
func TestConfigDigest(t *testing.T) {
	seen := map[string]int{}
	for i, change := range []func(*config.Config){
		func(*config.Config) {},
		func(c *config.Config) { c.ThermalLimit++ },
		func(c *config.Config) { c.ThermalMargin++ },
		func(c *config.Config) { c.AgeingStep++ },
		func(c *config.Config) { c.HalfLife += time.Hour },
		func(c *config.Config) { c.Placement = config.PolicyFGD },
		func(c *config.Config) { c.Placement = config.PolicyRandom },
		func(c *config.Config) { c.Seed++ },
		func(c *config.Config) { c.Queue.Order = config.OrderFIFO },
		func(c *config.Config) { c.Queue.Order = config.OrderAttained },
		func(c *config.Config) { c.Queue = config.QueueConfig{Order: config.OrderAttained, Attained: 1} },
		func(c *config.Config) { c.Queue = config.QueueConfig{Order: config.OrderFIFO, Preempt: true} },
		func(c *config.Config) { c.Queue.Blocked = config.BlockedHold },
		func(c *config.Config) { c.Queue.Blocked = config.BlockedReserve },
		func(c *config.Config) { c.Backfill.First = 9 },
		func(c *config.Config) { c.Backfill.After = time.Minute },
		func(c *config.Config) { c.Backfill.DrainAfter = time.Hour },
		func(c *config.Config) { c.Backfill.SlackPercent = 11 },
		func(c *config.Config) { c.Backfill.SlackLeast = time.Hour },
		func(c *config.Config) { c.Typical = []config.TypicalJob{{GPUs: 1, Count: 1}} },
		func(c *config.Config) { c.Preemption = config.PreemptionConfig{} },
		func(c *config.Config) { c.Preemption.Enabled = false },
		func(c *config.Config) { c.Preemption.Ceiling++ },
		func(c *config.Config) { c.Preemption.MaxPreemptions++ },
		func(c *config.Config) { c.Preemption.Cooldown++ },
		func(c *config.Config) { c.Preemption.Restart++ },
		func(c *config.Config) { c.Preemption.PerTenant++ },
		func(c *config.Config) { c.ModelWeights = map[string]int{"h100": 2000} },
		func(c *config.Config) { c.ModelWeights = map[string]int{"h100": 2001} },
		func(c *config.Config) { c.ModelWeights = map[string]int{"h100": 2000, "a100": 1500} },
	} {
		cfg := config.Default()
		change(&cfg)
		if before, twice := seen[cfg.Digest()]; twice {
			t.Errorf("changes %d and %d have one digest", before, i)
		}
		seen[cfg.Digest()] = i
	}
	// A fixed value: it must be the same in every process and release.
	if got, want := config.Default().Digest(), "a84a4effa35061e5"; got != want {
		t.Errorf("the default's digest is %s, want %s", got, want)
	}
}

// A snapshot replaces what is known, not what was configured.
func TestConfigOutlivesASnapshot(t *testing.T) {
	cfg := config.Default()
	cfg.ThermalLimit = 60
	s := NewWith(cfg)
	s.Apply(ares.Batch{Revision: 5, Reset: true})
	if s.core.Cfg.ThermalLimit != 60 {
		t.Errorf("%+v", s.core.Cfg)
	}
}
