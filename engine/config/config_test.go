package config

import (
	"strings"
	"testing"
	"time"
)

func TestDefaultIsValid(t *testing.T) {
	if err := Default().Check(); err != nil {
		t.Error(err)
	}
}

func TestCheckNamesEveryError(t *testing.T) {
	err := Config{
		ThermalLimit: -1, ThermalMargin: 999, ModelWeights: map[string]int{"h100": 0, "": 5},
		Placement: "worstfit", Typical: []TypicalJob{{GPUs: 1, Count: 1}, {Milli: 500}},
		Preemption: PreemptionConfig{Ceiling: 999, MaxPreemptions: -1, Cooldown: 48 * time.Hour, Restart: -time.Second, PerTenant: MaxPerTenant + 1},
		Queue:      QueueConfig{Order: "lifo", Blocked: "jump", Attained: -1},
		Backfill:   BackfillConfig{First: 65, After: time.Hour, DrainAfter: -1, HoldIdle: 1001, SlackPercent: 101, SlackLeast: MaxReserveAfter + 1},
	}.Check()
	if err == nil {
		t.Fatal("an invalid configuration passes the check")
	}
	for _, field := range []string{
		"thermal_threshold", "thermal_margin", "ageing_step_seconds", "usage_half_life_hours", "model_weights.h100", "model_weights: a model", `placement: must be one of [random`, "typical[1]",
		`queue_order: "lifo" is not a valid queue order`, `blocked_jobs: "jump"`, "attained_gpu_seconds: must be between", "attained_gpu_seconds: means something",
		"preemption_ceiling: must be 0 for none", "max_preemptions: must be", "preemption_cooldown_seconds: must be", "restart_seconds: must be", "max_preemptions_per_hour: must be",
		"reservations.first: must", "reservations.hold_after_seconds: must be", "reservations.hold_after_seconds: must not", "reservations.hold_idle_percent", "reservations.slack_percent", "reservations.slack_seconds",
	} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("the error does not name %s: %v", field, err)
		}
	}
}

// TestDigest checks that every field changes the digest, and that the iteration order of a map does not change it.
func TestDigest(t *testing.T) {
	seen := map[string]int{}
	for i, change := range []func(*Config){
		func(*Config) {},
		func(c *Config) { c.ThermalLimit++ },
		func(c *Config) { c.ThermalMargin++ },
		func(c *Config) { c.AgeingStep++ },
		func(c *Config) { c.HalfLife += time.Hour },
		func(c *Config) { c.Placement = PolicyFGD },
		func(c *Config) { c.Placement = PolicyRandom },
		func(c *Config) { c.Seed++ },
		func(c *Config) { c.Queue.Order = OrderFIFO },
		func(c *Config) { c.Queue.Order = OrderAttained },
		func(c *Config) { c.Queue = QueueConfig{Order: OrderAttained, Attained: 1} },
		func(c *Config) { c.Queue = QueueConfig{Order: OrderFIFO, Preempt: true} },
		func(c *Config) { c.Queue.Blocked = BlockedHold },
		func(c *Config) { c.Queue.Blocked = BlockedReserve },
		func(c *Config) { c.Backfill.First = 9 },
		func(c *Config) { c.Backfill.After = time.Minute },
		func(c *Config) { c.Backfill.DrainAfter = time.Hour },
		func(c *Config) { c.Backfill.HoldIdle = 7 },
		func(c *Config) { c.Backfill.SlackPercent = 11 },
		func(c *Config) { c.Backfill.SlackLeast = time.Hour },
		func(c *Config) { c.Backfill.MaxSpread++ },
		func(c *Config) { c.Queue.OverdueAfter++ },
		func(c *Config) { c.Queue.OverdueShare++ },
		func(c *Config) { c.Typical = []TypicalJob{{GPUs: 1, Count: 1}} },
		func(c *Config) { c.Preemption = PreemptionConfig{} },
		func(c *Config) { c.Preemption.Enabled = false },
		func(c *Config) { c.Preemption.Ceiling++ },
		func(c *Config) { c.Preemption.MaxPreemptions++ },
		func(c *Config) { c.Preemption.Cooldown++ },
		func(c *Config) { c.Preemption.Restart++ },
		func(c *Config) { c.Preemption.PerTenant++ },
		func(c *Config) { c.ModelWeights = map[string]int{"h100": 2000} },
		func(c *Config) { c.ModelWeights = map[string]int{"h100": 2001} },
		func(c *Config) { c.ModelWeights = map[string]int{"h100": 2000, "a100": 1500} },
	} {
		cfg := Default()
		change(&cfg)
		if before, twice := seen[cfg.Digest()]; twice {
			t.Errorf("changes %d and %d have the same digest", before, i)
		}
		seen[cfg.Digest()] = i
	}
	// The digest of a configuration must be the same in every process and every release.
	before := Default() // as it was before the order by expected work became the default
	before.Queue, before.Backfill.MaxSpread, before.Backfill.HoldIdle = QueueConfig{}, 0, 0
	for _, c := range []struct {
		of   Config
		want string
	}{{Default(), "328fa432035bddca"}, {before, "17661eca5a82086e"}} {
		if got := c.of.Digest(); got != c.want {
			t.Errorf("digest of %+v = %s, want %s", c.of, got, c.want)
		}
	}
}
