package sim

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// policyFile is a policy as users write it. If a setting also exists in the scheduler section of a
// server's configuration, its key has the same name in both files. If a key is missing in the
// policy file, the value of the base policy applies.
type policyFile struct {
	Name string `yaml:"name"`
	Base string `yaml:"base"`

	EnableThermalAware *bool              `yaml:"enable_thermal_aware"`
	ThermalThreshold   *float64           `yaml:"thermal_threshold"`
	ThermalMargin      *int               `yaml:"thermal_margin"`
	AgeingStepSeconds  *int               `yaml:"ageing_step_seconds"`
	UsageHalfLifeHours *int               `yaml:"usage_half_life_hours"`
	ModelWeights       map[string]float64 `yaml:"model_weights"`
	Placement          *string            `yaml:"placement"`
	QueueOrder         *string            `yaml:"queue_order"`
	OverdueAfterHours  *int               `yaml:"overdue_after_hours"`
	OverdueShare       *int               `yaml:"overdue_share_percent"`
	BlockedJobs        *string            `yaml:"blocked_jobs"`
	PreemptByOrder     *bool              `yaml:"preempt_by_order"`
	AttainedGPUSeconds *int               `yaml:"attained_gpu_seconds"`
	Reservations       reservationsFile   `yaml:"reservations"`
	PreemptPeersAfter  *int               `yaml:"preempt_peers_after_hours"`
	MaxPreemptions     *int               `yaml:"max_preemptions"`
	Consolidation      consolidationFile  `yaml:"consolidation"`

	// These settings exist only in simulations.
	Estimate          *string  `yaml:"estimate"`
	EstimateError     *float64 `yaml:"estimate_error"`
	CheckpointSeconds *int     `yaml:"checkpoint_seconds"`
	Preemptible       *bool    `yaml:"preemptible"`
}

// reservationsFile contains the settings of backfill reservations.
type reservationsFile struct {
	First            *int     `yaml:"first"`
	AfterSeconds     *int     `yaml:"after_seconds"`
	HoldAfterSeconds *int     `yaml:"hold_after_seconds"`
	HoldIdlePercent  *float64 `yaml:"hold_idle_percent"`
	MaxSpreadPercent *int     `yaml:"max_spread_percent"`
	SlackPercent     *int     `yaml:"slack_percent"`
	SlackSeconds     *int     `yaml:"slack_seconds"`
}

// consolidationFile contains the settings of consolidation.
type consolidationFile struct {
	Enabled *bool    `yaml:"enabled"`
	Gain    *float64 `yaml:"gain"`
}

func (f *consolidationFile) change(y *config.PreemptionConfig) {
	set(&y.Moving, f.Enabled)
	if f.Gain != nil {
		y.MoveGain = int(math.Round(min(max(*f.Gain, 0), 1<<20) * 1000))
	}
}

func (f *reservationsFile) change(r *config.BackfillConfig) {
	set(&r.First, f.First)
	set(&r.SlackPercent, f.SlackPercent)
	set(&r.MaxSpread, f.MaxSpreadPercent)
	if f.HoldIdlePercent != nil {
		r.HoldIdle = int(math.Round(min(max(*f.HoldIdlePercent, -1), 1<<20) * 10))
	}
	for of, given := range map[*time.Duration]*int{&r.After: f.AfterSeconds, &r.DrainAfter: f.HoldAfterSeconds, &r.SlackLeast: f.SlackSeconds} {
		if given != nil {
			*of = time.Duration(*given) * time.Second
		}
	}
}

// ReadPolicy reads a policy file. One key of the file, called base, contains the name of a built-in policy. The
// other keys change this policy. Without this key, the other keys change the policy named "ares".
func ReadPolicy(from io.Reader) (Policy, error) {
	text, err := io.ReadAll(from)
	if err != nil {
		return Policy{}, fmt.Errorf("read the policy: %w", err)
	}
	var f policyFile
	if err = decode(text, &f); errors.Is(err, io.EOF) {
		return Policy{}, ares.Errorf(ares.Invalid, "read the policy: the policy file is empty: it must contain at least the key `base`")
	} else if err != nil {
		return Policy{}, ares.Errorf(ares.Invalid, "read the policy: %s", err)
	}
	p, err := PolicyNamed(cmp.Or(f.Base, "ares"))
	if err != nil {
		return Policy{}, fmt.Errorf("base: %w", err)
	}
	p.Name = cmp.Or(f.Name, p.Name)
	f.change(&p)
	var wrong ares.Problems
	if bad, ok := errors.AsType[*ares.InvalidRequest](p.Engine.Check()); ok {
		wrong = append(wrong, bad.Problems...)
	}
	if !slices.Contains(Estimates(), cmp.Or(p.Estimate, "none")) {
		wrong.Add("estimate", "unknown estimate %q: use one of %s", p.Estimate, strings.Join(Estimates(), ", "))
	}
	if !(p.EstimateError >= 0 && p.EstimateError <= maxEstimateError) {
		wrong.Add("estimate_error", "must be between 0 and %d, got %v", maxEstimateError, p.EstimateError)
	}
	if p.CheckpointSeconds < 0 || p.CheckpointSeconds > maxCheckpoint {
		wrong.Add("checkpoint_seconds", "must be between 0 and %d, got %d", maxCheckpoint, p.CheckpointSeconds)
	}
	return p, wrong.Err()
}

// These constants limit the settings that exist only in simulations.
const (
	maxEstimateError = 10
	maxCheckpoint    = 86_400
)

// This method applies the settings in the file to a policy.
func (f *policyFile) change(p *Policy) {
	e, q := &p.Engine, &p.Engine.Queue
	set(&e.ThermalMargin, f.ThermalMargin)
	set(&p.Estimate, f.Estimate)
	set(&p.EstimateError, f.EstimateError)
	set(&p.CheckpointSeconds, f.CheckpointSeconds)
	set(&p.Preemptible, f.Preemptible)
	set(&q.Preempt, f.PreemptByOrder)
	set(&q.Attained, f.AttainedGPUSeconds)
	f.Reservations.change(&e.Backfill)
	f.Consolidation.change(&e.Preemption)
	set(&e.Preemption.MaxPreemptions, f.MaxPreemptions)
	if f.PreemptPeersAfter != nil {
		q.PeersAfter = time.Duration(*f.PreemptPeersAfter) * time.Hour
	}
	if f.ThermalThreshold != nil {
		e.ThermalLimit = int(math.Floor(*f.ThermalThreshold))
	}
	if f.EnableThermalAware != nil && !*f.EnableThermalAware {
		e.ThermalLimit = 0
	}
	if f.AgeingStepSeconds != nil {
		e.AgeingStep = time.Duration(*f.AgeingStepSeconds) * time.Second
	}
	if f.UsageHalfLifeHours != nil {
		e.HalfLife = time.Duration(*f.UsageHalfLifeHours) * time.Hour
	}
	if f.Placement != nil {
		e.Placement = config.PlacementPolicy(*f.Placement)
	}
	order, blocked := string(q.Order), string(q.Blocked)
	set(&order, f.QueueOrder)
	set(&blocked, f.BlockedJobs)
	before := *q
	*q = config.NewQueueConfig(order, blocked, q.Preempt, q.Attained)
	q.PeersAfter = before.PeersAfter
	if q.Order == before.Order {
		q.OverdueAfter, q.OverdueShare = before.OverdueAfter, before.OverdueShare
	}
	set(&q.OverdueShare, f.OverdueShare)
	if f.OverdueAfterHours != nil {
		q.OverdueAfter = time.Duration(*f.OverdueAfterHours) * time.Hour
	}
	if len(f.ModelWeights) > 0 {
		e.ModelWeights = make(map[string]int, len(f.ModelWeights))
	}
	for model, weight := range f.ModelWeights {
		e.ModelWeights[model] = int(math.Round(weight * 1000))
	}
	if p.Estimate == "none" {
		p.Estimate = EstimateNone
	}
}

// This function assigns the new value, unless it is nil.
func set[T any](value, given *T) {
	if given != nil {
		*value = *given
	}
}
