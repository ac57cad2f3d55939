package forecast

import (
	"fmt"
	"math"
	"time"
)

// Config bounds what a forecaster remembers. The zero value means the defaults.
type Config struct {
	// Groups is how many groups of alike jobs are remembered. Default 4096.
	Groups int
	// Window is how many runs of each. Default 32, at most 255.
	Window int
	// Unlimited is the limit that is supposed for a job without one, as long as
	// nothing at all is known. Default 24 h.
	Unlimited time.Duration
}

// Forecast is how long a run is thought to take. A part that is not told is 0.
type Forecast struct {
	P50, P90 time.Duration
	// Basis says what it rests on, for people.
	Basis string
	// Samples is how many runs the group has that weighs most; 0 when none is
	// known.
	Samples int
}

// Outcome says how a run ended, as far as its length is concerned.
type Outcome string

// The outcomes of a run.
const (
	Ended   Outcome = "ended"   // by itself, whatever its exit code
	Limited Outcome = "limited" // by its time limit
	Cut     Outcome = "cut"     // by somebody: cancelled, preempted, drained, or lost with its node
)

// Run is a run that is over.
type Run struct {
	Features Features
	Took     time.Duration
	Outcome  Outcome
	// Told is the p90 that was told of it; 0 when none was: then it says nothing
	// of how good forecasts are.
	PredictedP90 time.Duration
	// Overdue says that it was told to Forecaster.Overdue already.
	Overdue bool
}

// Forecaster remembers runs and says how long the next will take. It is for one
// goroutine at a time.
type Forecaster struct {
	cfg       Config
	groups    groups
	coverages []coverage // by the level that weighs most, the guess last
	drifts    []Drift
	weights   []float64 // of runs by their age
	total     []float64 // of the first weights
	scratch   []weightedRun
}

// shrinkage is how many runs it takes until a group weighs as much as all wider
// ones together.
const shrinkage = 3

// halfLife is after how many newer runs of its group a run weighs half.
const halfLife = 16

// New is a forecaster that has seen nothing.
func New(cfg Config) *Forecaster {
	if cfg.Groups <= 0 {
		cfg.Groups = 4096
	}
	cfg.Groups = max(cfg.Groups, len(levels)) // those of one job are there together
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

// Predict says how long a run will take. It changes nothing that is remembered.
func (f *Forecaster) Predict(a Features) Forecast {
	keys := a.keys()
	b := f.blend(&a, &keys)
	p50, p90 := b.quantile(0.5), stretch(b.quantile(0.9), f.shift(keys[tenantLevel], b.main))
	if a.Limit > 0 {
		p50, p90 = min(p50, a.Limit), min(p90, a.Limit)
	}
	return Forecast{P50: min(p50, p90), P90: p90, Basis: b.basis(&a), Samples: b.runs}
}

// basis says in words what an answer rests on.
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
		return "its limit of " + a.Limit.String() + ", for no run like it is known"
	case runs == "":
		return "nothing: no run like it is known, and it has no limit"
	case b.main < len(levels):
		return runs
	case a.Limit > 0:
		return "its limit of " + a.Limit.String() + " and " + runs
	default:
		return "little: " + runs
	}
}

// Observe learns from a run that is over, and tells when the runs of its group
// are of another length than before. What drifts in a group drifts in wider ones
// too: the narrowest is told.
func (f *Forecaster) Observe(r Run) (found Drift, drifted bool) {
	if r.Took < 0 || r.Outcome == Cut && r.Took == 0 {
		return found, false // that it did not run says nothing
	}
	a, keys := r.Features, r.Features.keys()
	if r.Outcome == Limited && a.Limit > 0 {
		r.Took = min(r.Took, a.Limit) // the rest is the time it had to stop
	}
	// One that was cut before its p90 may have been about to pass it: it counts
	// neither way.
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
