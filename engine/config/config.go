package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Config holds the operators' settings for scheduling decisions. The configuration of a state never changes, and
// a replay of the state needs the same configuration.
type Config struct {
	// ThermalLimit is the temperature in °C above which a device gets no new work; 0 means no limit.
	ThermalLimit int
	// ThermalMargin is a temperature range below ThermalLimit, in °C. A device in this range is used only if no
	// cooler device is available.
	ThermalMargin int
	// The priority of a waiting job rises by one point whenever another AgeingStep of waiting time has passed.
	AgeingStep time.Duration
	// HalfLife is the time after which past usage counts only half in fair shares.
	HalfLife time.Duration
	// ModelWeights maps a GPU model to the weight of one such GPU in fair shares. The weight is in thousandths. A
	// model that is not listed has weight 1000.
	ModelWeights map[string]int
	// Mix is the expected workload. A placement is better if it leaves more free capacity that the expected
	// jobs could use. If Mix is empty, the mix is learned from the jobs in the state.
	Mix []Mix
	// Queue is the order of the jobs in a queue.
	Queue QueueConfig `json:"Queueing"`
	// Preemption says when running jobs are stopped for a waiting job.
	Preemption PreemptionConfig `json:"Yielding"`
	// Backfill says which blocked jobs get a backfill reservation.
	Backfill BackfillConfig `json:"Reserving"`
	// Placement is the policy that chooses a node. If Placement is empty, the default policy is used.
	Placement PlacementPolicy
	// Seed is the random seed of PolicyRandom.
	Seed int64
	// Typical is the target workload of PolicyFGD. If Typical is empty, Mix is used.
	Typical []TypicalJob
	// NodeRanks limits the number of ranks on one node; 0 means MaxNodeRanks.
	NodeRanks int `json:",omitempty"`
}

// wholeDevice is a whole device in thousandths.
const wholeDevice = 1000

// These constants limit the values of a configuration.
const (
	MaxCelsius      = 150
	MaxModelWeights = 64
	MaxModelWeight  = 1_000_000 // thousandths
	MaxTypical      = 4096
	MaxAgeingStep   = 24 * time.Hour
	MaxHalfLife     = 366 * 24 * time.Hour
	// MaxNodeRanks is the maximum number of ranks on one node. It is limited because each rank is a process on the node and a part of
	// every message to the node's agent.
	MaxNodeRanks = 512
)

// RankLimit returns the maximum number of ranks on one node.
func (c *Config) RankLimit() int {
	if c.NodeRanks == 0 {
		return MaxNodeRanks
	}
	return c.NodeRanks
}

// Default returns the configuration that applies when nothing is configured.
func Default() Config {
	return Config{
		ThermalLimit: 75, ThermalMargin: 10, AgeingStep: 10 * time.Second, HalfLife: 24 * time.Hour,
		Queue: defaultQueue(), Preemption: defaultPreemption(), Backfill: defaultBackfill(),
	}
}

// Check reports every mistake in the configuration. The error messages use the option names of the configuration
// file.
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
	if c.NodeRanks < 0 || c.NodeRanks > MaxNodeRanks {
		p.Add("max_ranks_per_node", "must be between 1 and %d, got %d", MaxNodeRanks, c.NodeRanks)
	}
	c.Queue.validate(&p)
	c.Preemption.validate(&p)
	c.Backfill.validate(&p)
	return p.Err()
}

// Digest identifies a configuration in recorded decisions. Equal configurations have the same digest in
// every process. Invariant: a new option does not change the digest while it has its zero value.
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
	if c.NodeRanks != 0 {
		fmt.Fprintf(&b, " ranks %d", c.NodeRanks)
	}
	// FNV-1a is sufficient to distinguish configurations that people wrote.
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

// WeightOf returns the weight of one device of the given model in fair shares. The weight is in thousandths. A
// listed name applies if it is part of the model's name. If several names apply, the weight of the longest name is
// used. If two of them have the same length, the alphabetically first one is used.
func (c Config) WeightOf(model string) int64 {
	weight, longest := wholeDevice, 0
	for _, name := range c.weightedModels() {
		if len(name) > longest && strings.Contains(model, strings.ToLower(name)) {
			weight, longest = c.ModelWeights[name], len(name)
		}
	}
	return int64(weight)
}

// These constants limit the size of one plan, so that commits stay small and decisions short.
const (
	// MaxPlacings is the maximum number of jobs that one plan may place. MaxPlacings also limits the number of jobs
	// that a plan stops, and the number of jobs whose retry delay a plan ends. A plan that reaches the limit has
	// Wake = now, so that the next cycle runs immediately.
	MaxPlacings = 500
	// MaxRefusals is the maximum number of refusals that one plan lists. A plan lists one refusal for all jobs of a
	// queue that have equal requests. If a refused job is not listed, call Explain to learn why it waits.
	MaxRefusals = 500
)
