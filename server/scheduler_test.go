package server

import (
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"
)

func TestTheDefaultIsTheEnginesOwn(t *testing.T) {
	cfg, own := Default(), config.Default()
	own.NodeRanks = 128 // simulations have no agents, so they need no limit
	if got, want := cfg.engine().Digest(), own.Digest(); got != want {
		t.Errorf("%+v: digest %s, want %s", cfg.engine(), got, want)
	}
}

// TestSchedulerKeysReachTheEngine checks that every scheduler key of the configuration file is passed to the engine.
func TestSchedulerKeysReachTheEngine(t *testing.T) {
	cfg := Default()
	if err := cfg.parse("", []byte("scheduler: {thermal_threshold: 70.9, thermal_margin: 3, ageing_step_seconds: 7, usage_half_life_hours: 5, model_weights: {h100: 9}, placement: bestfit, queue_order: attained, blocked_jobs: hold, attained_gpu_seconds: 60, preempt_by_order: true, preempt_peers_after_hours: 96, max_preemptions: 10, max_ranks_per_node: 9}"), nil); err != nil {
		t.Fatal(err)
	}
	cfg.environment([]string{"ARES_SCHEDULER_THERMAL_MARGIN=4", "ARES_SCHEDULER_MODEL_WEIGHTS=h100=2.5, a100=1"})
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	got := cfg.engine()
	if got.ThermalLimit != 70 || got.NodeRanks != 9 || got.ThermalMargin != 4 || got.AgeingStep != 7*time.Second || got.HalfLife != 5*time.Hour || got.Placement != config.PolicyBestFit || got.ModelWeights["h100"] != 2500 || got.ModelWeights["a100"] != 1000 {
		t.Errorf("%+v", got)
	}
	if want := (config.QueueConfig{Order: config.OrderAttained, Blocked: config.BlockedHold, Attained: 60, Preempt: true, PeersAfter: 96 * time.Hour}); got.Queue != want || got.Preemption.MaxPreemptions != 10 {
		t.Errorf("%+v, want %+v", got.Queue, want)
	}
	cfg.environment([]string{"ARES_SCHEDULER_ENABLE_PREEMPTION=false", "ARES_SCHEDULER_PREEMPTION_CEILING=2.5"})
	if err := cfg.parse("", []byte("scheduler: {max_preemptions: 1, preemption_cooldown_seconds: 2, restart_seconds: 3, max_preemptions_per_hour: 4}"), nil); err != nil {
		t.Fatal(err)
	}
	if got, want := cfg.engine().Preemption, (config.PreemptionConfig{Ceiling: 2500, MaxPreemptions: 1, Cooldown: 2 * time.Second, Restart: 3 * time.Second, PerTenant: 4, MoveGain: 2000}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	cfg.environment([]string{"ARES_SCHEDULER_ENABLE_THERMAL_AWARE=false"})
	if got = cfg.engine(); got.ThermalLimit != 0 {
		t.Errorf("temperatures are to be ignored: %+v", got)
	}
}

func TestSchedulerMistakesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"preempt_by_order: true":                      "scheduler.preempt_by_order: needs a queue_order other than expected-work, aged, fifo and edf",
		"preempt_peers_after_hours: 5":                "scheduler.preempt_peers_after_hours: means something with queue_order attained and preempt_by_order only",
		"thermal_threshold: 0":                        "scheduler.thermal_threshold: must be between 1 and 150 °C, got 0",
		"thermal_threshold: .nan":                     "scheduler.thermal_threshold: must be between",
		"thermal_margin: -1":                          "scheduler.thermal_margin: must be between 0 and 150 °C, got -1",
		"ageing_step_seconds: 0":                      "scheduler.ageing_step_seconds: must be between 1 and 86400, got 0",
		"usage_half_life_hours: 9999":                 "scheduler.usage_half_life_hours: must be between 1 and 8784, got 9999",
		"placement: worstfit":                         `scheduler.placement: must be one of [random dotprod clustering packing bestfit fgd] or empty, got "worstfit"`,
		"preemption_ceiling: 0.5":                     "scheduler.preemption_ceiling: must be 0 for none, or between 1 and 1000, got 0.5: with less than 1",
		"preemption_ceiling: .inf":                    "scheduler.preemption_ceiling: must be 0 for none, or between 1 and 1000",
		"preemption_ceiling: -1, max_preemptions: -1": "scheduler.max_preemptions: must be between 0 and 1000, got -1",
		"max_preemptions: -1":                         "scheduler.max_preemptions: must be between 0 and 1000, got -1",
		"preemption_cooldown_seconds: 1e99":           "scheduler.preemption_cooldown_seconds: want a whole number",
		"restart_seconds: 3601":                       "scheduler.restart_seconds: must be between 0 and 3600, got 3601",
		"max_preemptions_per_hour: -1":                "scheduler.max_preemptions_per_hour: must be between 0 and 1000000, got -1",
		"queue_order: lifo":                           `scheduler.queue_order: "lifo" is not a valid queue order: use one of expected-work, aged, fifo, shortest, shortest-remaining, least-service, attained`,
		"blocked_jobs: jump":                          `scheduler.blocked_jobs: "jump" is not a valid policy for blocked jobs: use one of skip, hold, reserve`,
		"attained_gpu_seconds: 5":                     "scheduler.attained_gpu_seconds: means something with queue_order attained only",
		"model_weights: {h100: 0}":                    "scheduler.model_weights.h100: must be between 0.001 and 1000, got 0",
		"model_weights: {h100: .inf}":                 "scheduler.model_weights.h100: must be between",
		"model_weights: {h100: heavy}":                "scheduler.model_weights: want names with numbers",
	} {
		cfg := Default()
		if err := cfg.parse("", []byte("scheduler: {"+text+"}"), nil); err != nil {
			t.Fatal(err)
		}
		if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
