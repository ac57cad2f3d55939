package forecast

import (
	"fmt"
	"math"
	"time"
)

// Config bounds the memory of a forecaster. The zero value means the defaults.
type Config struct {
	// Groups is the number of groups of similar jobs. Default 4096.
	Groups int
	// Window is the number of runs kept in each group. Default 32, at most 255.
	Window int
	// Unlimited is the time limit that is assumed for a job without one.
	// Default 24 h.
	Unlimited time.Duration
}

// Forecast is the predicted runtime of a job. A quantile that is not predicted
// is 0.
type Forecast struct {
	P50, P90 time.Duration
	// Basis describes the evidence, for display.
	Basis string
	// Samples is the number of runs in the group with the largest weight; 0 if
	// no run is known.
	Samples int
}

// Outcome says how a run ended, as far as its runtime is concerned.
type Outcome string

// The outcomes of a run.
const (
	Ended   Outcome = "ended"   // by itself, whatever its exit code
	Limited Outcome = "limited" // by its time limit
	Cut     Outcome = "cut"     // cut short: cancelled, preempted, drained, or lost with its node
)

// Run is an ended run.
type Run struct {
	Features Features
	Took     time.Duration
	Outcome  Outcome
	// PredictedP90 is the p90 that was predicted; 0 for none: then the run is not
	// used for calibration.
	PredictedP90 time.Duration
	// Overdue says that Forecaster.Overdue was called for it.
	Overdue bool
}

// Forecaster remembers runs and predicts the runtime of the next. It is for one
// goroutine at a time.
type Forecaster struct {
	cfg       Config
	groups    groups
	coverages []coverage // by the level with the largest weight, the guess last
	drifts    []Drift
	weights   []float64 // of runs, by age
	total     []float64 // sums of the first weights
	scratch   []weightedRun
}

// shrinkage is the number of runs at which a group weighs as much as all wider
// ones together.
const shrinkage = 3

// halfLife is the number of newer runs in its group after which a run weighs
// half.
const halfLife = 16

// New returns a forecaster that has seen no runs.
func New(cfg Config) *Forecaster {
	if cfg.Groups <= 0 {
		cfg.Groups = 4096
	}
	cfg.Groups = max(cfg.Groups, len(levels)) // at least the groups of one job
	if cfg.Window <= 0 {
		cfg.Window = 32
	}
	cfg.Window = min(cfg.Window, 255)
	if cfg.Unlimited <= 0 {
		cfg.Unlimited = 24 * time.Hour
	}
	f := &Forecaster{cfg: cfg, coverages: make([]coverage, len(levels)+1), groups: groups{byKey: map[uint64]*group{}, limit: cfg.Groups}}
	f.total = append(f.total, 0)
	for i := range cfg.Window {
		f.weights = append(f.weights, math.Exp2(-float64(i)/halfLife))
		f.total = append(f.total, f.total[i]+f.weights[i])
	}
	return f
}

// Predict predicts the runtime of a job. It does not change the forecaster.
func (f *Forecaster) Predict(a Features) Forecast {
	keys := a.keys()
	b := f.blend(&a, &keys)
	p50, p90 := b.quantile(0.5), stretch(b.quantile(0.9), f.shift(keys[tenantLevel], b.main))
	if a.Limit > 0 {
		p50, p90 = min(p50, a.Limit), min(p90, a.Limit)
	}
	return Forecast{P50: min(p50, p90), P90: p90, Basis: b.basis(&a), Samples: b.runs}
}

// basis describes the evidence of a forecast.
func (b *blend) basis(a *Features) string {
	runs := ""
	switch b.runs {
	case 0:
	case 1:
		runs = "1 run of " + levels[b.best].words(a)
	default:
		runs = fmt.Sprintf("%d runs of %s", b.runs, levels[b.best].words(a))
	}
	switch {
	case runs == "" && a.Limit > 0:
		return "its limit of " + a.Limit.String() + ", because no similar run is known"
	case runs == "":
		return "nothing: no similar run is known, and it has no limit"
	case b.main < len(levels):
		return runs
	case a.Limit > 0:
		return "its limit of " + a.Limit.String() + " and " + runs
	default:
		return "little: " + runs
	}
}

// Observe learns from an ended run, and returns the drift of its group, if any.
// A drift of a group is also one of the wider groups: the narrowest is
// returned.
func (f *Forecaster) Observe(r Run) (found Drift, drifted bool) {
	if r.Took < 0 || r.Outcome == Cut && r.Took == 0 {
		return found, false // it did not run
	}
	a, keys := r.Features, r.Features.keys()
	if r.Outcome == Limited && a.Limit > 0 {
		r.Took = min(r.Took, a.Limit) // the rest is its grace period
	}
	// A run that was cut short before its p90 might have exceeded it: it does not
	// count for calibration.
	if late := r.Took > r.PredictedP90; r.PredictedP90 > 0 && !r.Overdue && (late || r.Outcome != Cut) {
		f.recordCoverage(&keys, !late)
	}
	for i, key := range keys {
		if key == 0 {
			continue
		}
		g := f.groups.touch(key)
		g.add(sampleOf(&levels[i], r.Took, a.Limit, r.Outcome != Ended), f.cfg.Window)
		if d, ok := g.checkDrift(i, &a); ok && !drifted && !levels[i].share {
			found, drifted = d, true
			f.addDrift(d)
		}
	}
	return found, drifted
}
