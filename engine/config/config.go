package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Config is what operators decide about decisions. It is fixed for the life of
// a state, and part of what a replay needs.
type Config struct {
	// ThermalLimit is the temperature in °C above which a device is given no new
	// work; 0 for none.
	ThermalLimit int
	// ThermalMargin is how far below the limit a device is already pushed back
	// behind cooler ones, in °C.
	ThermalMargin int
	// AgeingStep is how long a job waits for each point of priority it gains.
	AgeingStep time.Duration
	// HalfLife is how long past use takes to count half.
	HalfLife time.Duration
	// ModelWeights say what a GPU of a model counts against others in fair
	// shares, in thousandths. A model that is not named counts 1000.
	ModelWeights map[string]int
	// Mix is the jobs to keep room for: placements that strand less of what
	// these could use are better. Without one it is learned from the jobs there
	// are.
	Mix []Mix
	// Queueing is what orders the jobs of a queue.
	Queue QueueConfig `json:"Queueing"`
	// Yielding is when running jobs are stopped for a waiting one.
	Preemption PreemptionConfig `json:"Yielding"`
	// Reserving is which jobs that find no place have one kept for them.
	Backfill BackfillConfig `json:"Reserving"`
	// Placement is the rule by which a node is chosen, Ares's own if empty.
	Placement PlacementPolicy
	// Seed is what PlaceRandom draws lots from.
	Seed int64
	// Typical is the jobs that PlaceFGD keeps room for; without any, Mix.
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

// Default is the configuration that is used where nothing else is said.
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

// Digest identifies a configuration in the record of decisions: the same text
// for the same values, in every process.
func (c Config) Digest() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %d %d %d %v", c.ThermalLimit, c.ThermalMargin, c.AgeingStep, c.HalfLife, c.Mix)
	for _, model := range c.weightedModels() {
		fmt.Fprintf(&b, " %q=%d", model, c.ModelWeights[model])
	}
	b.WriteString(c.Queue.digest())
	b.WriteString(c.Preemption.digest())
	b.WriteString(c.Backfill.digest())
	if c.Placement != PolicyDefault || c.Seed != 0 || len(c.Typical) > 0 { // else as it ever was
		fmt.Fprintf(&b, " %q %d %v", c.Placement, c.Seed, c.Typical)
	}
	// FNV-1a: it tells configurations apart that people wrote, no more is needed.
	h := uint64(14695981039346656037)
	for _, c := range []byte(b.String()) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return fmt.Sprintf("%016x", h)
}

// weightedModels are those with a weight, in order.
func (c Config) weightedModels() []string {
	models := make([]string, 0, len(c.ModelWeights))
	for model := range c.ModelWeights { // order-free: sorted right below
		models = append(models, model)
	}
	slices.Sort(models)
	return models
}

// WeightOf is what a device of the model counts in shares, in thousandths: by
// the longest name that is part of it, then the first.
func (c Config) WeightOf(model string) int64 {
	weight, longest := wholeDevice, 0
	for _, name := range c.weightedModels() {
		if len(name) > longest && strings.Contains(model, strings.ToLower(name)) {
			weight, longest = c.ModelWeights[name], len(name)
		}
	}
	return int64(weight)
}

// Limits on one plan, so that a commit stays small and a decision short.
const (
	// MaxPlacings is the most jobs one plan places, and the most delays it
	// ends. A plan that was cut there has Wake = now: decide again.
	MaxPlacings = 500
	// MaxRefusals is the most shapes one plan names as refused. Beyond it
	// shapes are refused without being named; Explain answers for each.
	MaxRefusals = 500
)

// Mix is a kind of job that is expected, and how often among a thousand.
type Mix struct {
	GPUs   int // whole devices, or
	Milli  int // a part of one
	CPUs   int // of each device's even share of the machine's CPUs, in percent; of its memory too
	Weight int
}

// DefaultMix is what is expected before anybody has asked for anything: mostly
// small jobs, and room kept for whole machines. It is a guess that was not
// fitted to any trace, and it counts as much as the first few asks: what jobs
// really ask for soon outweighs it.
func DefaultMix() []Mix {
	return []Mix{
		{Milli: 250, CPUs: 50, Weight: 100},
		{Milli: 500, CPUs: 50, Weight: 150},
		{GPUs: 1, CPUs: 80, Weight: 350},
		{GPUs: 2, CPUs: 80, Weight: 120},
		{GPUs: 4, CPUs: 80, Weight: 120},
		{GPUs: 8, CPUs: 80, Weight: 160},
	}
}

// PlacementPolicy is a rule for which node a member goes to. All but the default are
// there to compare with: each gives every node that has room a score, as the
// simulator of "Beware of Fragmentation" (Weng and others, USENIX ATC 2023)
// does, and takes the first of those with the highest. Their time grows with the
// fleet. Gangs of several members are placed by the topology whatever the rule.
type PlacementPolicy string

// The rules.
const (
	PolicyDefault    PlacementPolicy = ""           // the least stranded capacity
	PolicyRandom     PlacementPolicy = "random"     // any node, any device
	PolicyBestFit    PlacementPolicy = "bestfit"    // the least CPUs and GPUs left over
	PolicyDotProduct PlacementPolicy = "dotprod"    // the least product of what is free and what is asked for
	PolicyPacking    PlacementPolicy = "packing"    // shared devices, then used nodes, then idle ones
	PolicyClustering PlacementPolicy = "clustering" // where jobs that ask for as many devices are
	PolicyFGD        PlacementPolicy = "fgd"        // the steepest descent of fragmentation
)

// PlacementPolicies are the rules by name, in an order for people.
func PlacementPolicies() []PlacementPolicy {
	return []PlacementPolicy{PolicyRandom, PolicyDotProduct, PolicyClustering, PolicyPacking, PolicyBestFit, PolicyFGD}
}

// TypicalJob is a kind of job that is expected, in the numbers a job asks for, and
// how many of the expected jobs are such: the target workload of PlaceFGD.
type TypicalJob struct {
	GPUs  int // whole devices, or
	Milli int // a part of one
	CPUs  int
	Model string // models that will do, separated by |; "" for any
	Count int
}
