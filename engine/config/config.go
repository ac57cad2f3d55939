package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Config is what operators decide about scheduling decisions. It is fixed for the life
// of a state, and a replay needs the same one.
type Config struct {
	// ThermalLimit is the temperature in °C above which a device gets no new work; 0 for
	// none.
	ThermalLimit int
	// ThermalMargin is how far below the limit, in °C, cooler devices are preferred to a
	// device.
	ThermalMargin int
	// AgeingStep is how long a job waits for each point of priority that it gains.
	AgeingStep time.Duration
	// HalfLife is the time after which past use counts half.
	HalfLife time.Duration
	// ModelWeights is what a GPU of a model counts in fair shares, in thousandths. A model
	// that is not listed counts 1000.
	ModelWeights map[string]int
	// Mix is the expected workload: a placement is better when it strands less capacity
	// that these jobs could use. When it is empty, the mix is learned from the jobs in the
	// state.
	Mix []Mix
	// Queue is the order of the jobs in a queue.
	Queue QueueConfig `json:"Queueing"`
	// Preemption says when running jobs are stopped for a waiting one.
	Preemption PreemptionConfig `json:"Yielding"`
	// Backfill says which blocked jobs get a backfill reservation.
	Backfill BackfillConfig `json:"Reserving"`
	// Placement is the policy that chooses a node; empty for the default.
	Placement PlacementPolicy
	// Seed is the seed of PolicyRandom.
	Seed int64
	// Typical is the target workload of PolicyFGD; Mix when it is empty.
	Typical []TypicalJob
}

// wholeDevice is a whole device in thousandths.
const wholeDevice = 1000

// Limits on a configuration.
const (
	MaxCelsius      = 150
	MaxModelWeights = 64
	MaxModelWeight  = 1_000_000 // thousandths
	MaxTypical      = 4096
	MaxAgeingStep   = 24 * time.Hour
	MaxHalfLife     = 366 * 24 * time.Hour
)

// Default returns the configuration that applies when nothing is configured.
func Default() Config {
	return Config{
		ThermalLimit: 75, ThermalMargin: 10, AgeingStep: 10 * time.Second, HalfLife: 24 * time.Hour,
		Preemption: defaultPreemption(), Backfill: defaultBackfill(),
	}
}

// Check reports every mistake, by the names of the configuration file.
func (c Config) Check() error {
	var p ares.Problems
	if c.ThermalLimit < 0 || c.ThermalLimit > MaxCelsius {
		p.Add("thermal_threshold", "must be between 0 and %d °C, got %d", MaxCelsius, c.ThermalLimit)
	}
	if c.ThermalMargin < 0 || c.ThermalMargin > MaxCelsius {
		p.Add("thermal_margin", "must be between 0 and %d °C, got %d", MaxCelsius, c.ThermalMargin)
	}
	if c.AgeingStep < time.Second || c.AgeingStep > MaxAgeingStep {
		p.Add("ageing_step_seconds", "must be between 1 and %d, got %d", MaxAgeingStep/time.Second, c.AgeingStep/time.Second)
	}
	if c.HalfLife < time.Hour || c.HalfLife > MaxHalfLife {
		p.Add("usage_half_life_hours", "must be between 1 and %d, got %d", MaxHalfLife/time.Hour, c.HalfLife/time.Hour)
	}
	if c.Placement != PolicyDefault && !slices.Contains(PlacementPolicies(), c.Placement) {
		p.Add("placement", "must be one of %v or empty, got %q", PlacementPolicies(), string(c.Placement))
	}
	if len(c.Typical) > MaxTypical {
		p.Add("typical", "at most %d kinds of jobs, got %d", MaxTypical, len(c.Typical))
	}
	for i, t := range c.Typical {
		if t.Count < 1 || t.Count > MaxModelWeight || min(t.GPUs, t.Milli, t.CPUs) < 0 || t.Milli > wholeDevice || t.GPUs > 0 && t.Milli > 0 {
			p.Add(fmt.Sprintf("typical[%d]", i), "needs a count from 1 on, and GPUs or up to %d thousandths of one", wholeDevice)
		}
	}
	if len(c.ModelWeights) > MaxModelWeights {
		p.Add("model_weights", "at most %d models, got %d", MaxModelWeights, len(c.ModelWeights))
	}
	for _, model := range c.weightedModels() {
		if w := c.ModelWeights[model]; model == "" || len(model) > ares.MaxNameBytes {
			p.Add("model_weights", "a model has 1 to %d bytes", ares.MaxNameBytes)
		} else if w < 1 || w > MaxModelWeight {
			p.Add("model_weights."+model, "must be between 0.001 and %d, got %d thousandths", MaxModelWeight/1000, w)
		}
	}
	c.Queue.validate(&p)
	c.Preemption.validate(&p)
	c.Backfill.validate(&p)
	return p.Err()
}

// Digest identifies a configuration in recorded decisions. Equal values have the same
// digest in every process. Invariant: a new option does not change the digest while it
// has its zero value.
func (c Config) Digest() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %d %d %d %v", c.ThermalLimit, c.ThermalMargin, c.AgeingStep, c.HalfLife, c.Mix)
	for _, model := range c.weightedModels() {
		fmt.Fprintf(&b, " %q=%d", model, c.ModelWeights[model])
	}
	b.WriteString(c.Queue.digest())
	b.WriteString(c.Preemption.digest())
	b.WriteString(c.Backfill.digest())
	if c.Placement != PolicyDefault || c.Seed != 0 || len(c.Typical) > 0 { // the defaults must not change the digest
		fmt.Fprintf(&b, " %q %d %v", c.Placement, c.Seed, c.Typical)
	}
	// FNV-1a: enough to distinguish configurations that people wrote.
	h := uint64(14695981039346656037)
	for _, c := range []byte(b.String()) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return fmt.Sprintf("%016x", h)
}

// weightedModels returns the models that have a weight, sorted.
func (c Config) weightedModels() []string {
	models := make([]string, 0, len(c.ModelWeights))
	for model := range c.ModelWeights { // order-free: sorted right below
		models = append(models, model)
	}
	slices.Sort(models)
	return models
}

// WeightOf returns what a device of a model counts in shares, in thousandths: the
// weight of the longest listed name that is a part of the model's name, the first of
// several.
func (c Config) WeightOf(model string) int64 {
	weight, longest := wholeDevice, 0
	for _, name := range c.weightedModels() {
		if len(name) > longest && strings.Contains(model, strings.ToLower(name)) {
			weight, longest = c.ModelWeights[name], len(name)
		}
	}
	return int64(weight)
}

// Limits on one plan, so that commits stay small and decisions short.
const (
	// MaxPlacings is the number of jobs that one plan may place. It also limits the
	// jobs that a plan stops, and those that it readies after a delay. A plan that
	// reaches it has Wake = now, so that the next cycle runs at once.
	MaxPlacings = 500
	// MaxRefusals is the number of shapes that one plan names as refused. Explain
	// answers for the others.
	MaxRefusals = 500
)
