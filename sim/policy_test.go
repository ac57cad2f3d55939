package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"
)

func TestBuiltInPoliciesAreValid(t *testing.T) {
	t.Parallel()
	for _, name := range PolicyNames() {
		p, err := PolicyNamed(name)
		if err != nil || p.Name != name || p.Engine.Check() != nil {
			t.Errorf("%s: %+v, %v, %v", name, p, err, p.Engine.Check())
		}
	}
	if _, err := PolicyNamed("lifo"); err == nil || !strings.Contains(err.Error(), "use one of ares, ares-preemptible, ares-turns, bestfit") {
		t.Error(err)
	}
}

func TestReadPolicy(t *testing.T) {
	t.Parallel()
	p, err := ReadPolicy(strings.NewReader(`
name: mine
base: srtf
queue_order: attained
attained_gpu_seconds: 60
blocked_jobs: skip
ageing_step_seconds: 7
usage_half_life_hours: 5
thermal_threshold: 70.5
thermal_margin: 3
model_weights: {h100: 2.5}
placement: bestfit
estimate: none
checkpoint_seconds: 30
`))
	if err != nil {
		t.Fatal(err)
	}
	e := p.Engine
	if p.Name != "mine" || p.Estimate != EstimateNone || p.CheckpointSeconds != 30 || e.Queue != (config.QueueConfig{Order: config.OrderAttained, Preempt: true, Attained: 60}) ||
		e.AgeingStep != 7*time.Second || e.HalfLife != 5*time.Hour || e.ThermalLimit != 70 || e.ThermalMargin != 3 || e.ModelWeights["h100"] != 2500 || e.Placement != config.PolicyBestFit {
		t.Errorf("%+v", p)
	}
	for _, text := range []string{"", "# nothing\n"} {
		if _, err = ReadPolicy(strings.NewReader(text)); err == nil {
			t.Errorf("%q is a policy", text)
		}
	}
}

func TestPolicyMistakesAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"base: lifo":              `unknown policy "lifo": use one of`,
		"queue_ordre: fifo":       "line 1: unknown key queue_ordre",
		"queue_order: lifo":       `queue_order: "lifo" is not a valid queue order: use one of expected-work, aged, fifo`,
		"blocked_jobs: jump":      "blocked_jobs: ",
		"preempt_by_order: true":  "preempt_by_order: needs a queue_order",
		"placement: worst":        "placement: must be one of",
		"estimate: guess":         `estimate: unknown estimate "guess": use one of none, oracle`,
		"estimate_error: -1":      "estimate_error: must be between 0 and 10",
		"estimate_error: .nan":    "estimate_error: must be between 0 and 10",
		"checkpoint_seconds: -1":  "checkpoint_seconds: must be between 0 and 86400, got -1",
		"attained_gpu_seconds: 5": "attained_gpu_seconds: means something with",
		"thermal_margin: many":    "line 1: many is not a whole number",
	} {
		if _, err := ReadPolicy(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestInfeasibleJobBlocksNobody checks that the simulator, like a server, rejects a job that fits
// on no machine. If the simulator accepted the infeasible job, all jobs in a strict queue would
// wait behind it.
func TestInfeasibleJobBlocksNobody(t *testing.T) {
	t.Parallel()
	f, err := ReadFleet(strings.NewReader("machines: [{name: m, count: 2, gpus: 4, cpus: 8, memory_mb: 1000}]"))
	if err != nil {
		t.Fatal(err)
	}
	trace, err := Read("slurm", strings.NewReader(`JobID|Submit|ElapsedRaw|AllocTRES|
1|2026-01-01T00:00:00|60|cpu=64,gres/gpu=1|
2|2026-01-01T00:00:01|60|cpu=1,gres/gpu=1|
`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := PolicyNamed("fifo")
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(f, p)
	if err := w.Run(trace, 0, nil); err != nil {
		t.Fatal(err)
	}
	if r := w.Report(); r.Refused != 1 || r.Ended != 1 {
		t.Errorf("%d refused, %d ended, want one each", r.Refused, r.Ended)
	}
}
