package forecast

import (
	"fmt"
	"math"
	"time"
)

// Config bounds the memory of a forecaster. The zero value of a Config selects the defaults.
type Config struct {
	// Groups is the largest number of groups of similar jobs. Default 4096.
	Groups int
	// Window is the number of runs stored in each group. Only the latest runs are stored. The
	// default is 32, and the maximum is 255.
	Window int
	// Unlimited is the time limit that is assumed for a job without one.
	// Default 24 h.
	Unlimited time.Duration
}

// Forecast is the predicted runtime of a job. If a quantile is not predicted, it is 0.
type Forecast struct {
	P50, P90 time.Duration
	// Basis is a text for users that describes the runs on which the forecast is based.
	Basis string
	// Samples is the number of runs in the group with the largest weight; 0 if
	// no run is known.
	Samples int
}

// Outcome says whether a run ended by itself, at its time limit, or because something else cut it
// short.
type Outcome string

// These are the outcomes of a run.
const (
	Ended   Outcome = "ended"   // the run ended by itself, with any exit code
	Limited Outcome = "limited" // the run was ended by its time limit
	Cut     Outcome = "cut"     // cut short: cancelled, preempted, drained, or lost with its node
)

// Run is an ended run.
type Run struct {
	Features Features
	Took     time.Duration
	Outcome  Outcome
	// PredictedP90 is the p90 that was predicted. If PredictedP90 is 0, there was no prediction and the run is
	// not used for calibration.
	PredictedP90 time.Duration
	// Overdue is true if Forecaster.Overdue was called for the run.
	Overdue bool
}

// Forecaster remembers runs and predicts the runtime of the next job. Only one goroutine at a time may use a
// Forecaster.
type Forecaster struct {
	cfg       Config
	groups    groups
	coverages []coverage // by the level with the largest weight; the last entry is for the guess
	drifts    []Drift
	weights   []float64 // of runs, by age
	total     []float64 // cumulative sums of the weights
	scratch   []weightedRun
}

// The constant `shrinkage` controls the weight of a group in a prediction. If a group has this
// many runs, it has the same weight as all wider groups together.
const shrinkage = 3

// halfLife controls the weight of old runs. The weight of a run is halved after this many newer
// runs in its group.
const halfLife = 16

// New returns a forecaster that has seen no runs.
func New(cfg Config) *Forecaster {
	if cfg.Groups <= 0 {
		cfg.Groups = 4096
	}
	cfg.Groups = max(cfg.Groups, len(levels)) // at least as many as the groups of one job
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

// Predict predicts the runtime of a job. Predict does not change the forecaster.
func (f *Forecaster) Predict(a Features) Forecast {
	keys := a.keys()
	b := f.blend(&a, &keys)
	p50, p90 := b.quantile(0.5), stretch(b.quantile(0.9), f.shift(keys[tenantLevel], b.main))
	if a.Limit > 0 {
		p50, p90 = min(p50, a.Limit), min(p90, a.Limit)
	}
	return Forecast{P50: min(p50, p90), P90: p90, Basis: b.basis(&a), Samples: b.runs}
}

// The method `basis` returns a text that describes the runs on which a forecast is based.
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

// Observe learns from an ended run. It returns the drift of the run's group, if there is one. If several groups
// of the run have drifted, Observe returns the drift of the narrowest group.
func (f *Forecaster) Observe(r Run) (found Drift, drifted bool) {
	if r.Took < 0 || r.Outcome == Cut && r.Took == 0 {
		return found, false // the job did not run
	}
	a, keys := r.Features, r.Features.keys()
	if r.Outcome == Limited && a.Limit > 0 {
		r.Took = min(r.Took, a.Limit) // time beyond the limit is the grace period
	}
	// A run that was cut short before its predicted p90 is not used for calibration, because it
	// might have exceeded the p90.
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
