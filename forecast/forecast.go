package forecast

import (
	"math"
	"time"

	ares "github.com/ares-scheduler/ares"
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

// Forecast is the predicted runtime of a job.
type Forecast struct {
	// P50 and P90 are the median and the 90th percentile. If Samples is 0, they are an assumption
	// for planning, which says nothing about this job and is not shown to users.
	P50, P90 time.Duration
	// Basis is a text for users that describes the runs on which the forecast is based, or why
	// there is no estimate.
	Basis string
	// Samples is the number of the submitter's runs on which the forecast is based: the runs in the
	// group with the largest weight. Samples is 0 if there is no estimate.
	Samples int
	// Own is the number of runs of the same job on which the forecast is based. If Own is 0, only
	// other jobs are known, and a run that exceeds its p90 is not late.
	// Invariant: if Own > 0, then Samples == Own.
	Own int
	// Doubt says how little recent forecasts told short jobs from long ones, in percent; see `skill`.
	Doubt int
}

// Record returns the forecast as the prediction of a job, as it is stored and given to the engine.
func (f Forecast) Record(job ares.JobID) ares.RuntimePredicted {
	return ares.RuntimePredicted{Job: job, P50: f.P50, P90: f.P90, Basis: f.Basis, Samples: f.Samples, Own: f.Own, Doubt: f.Doubt}
}

// Recorded returns the forecast that was recorded as a prediction.
func Recorded(p ares.RuntimePredicted) Forecast {
	return Forecast{P50: p.P50, P90: p.P90, Basis: p.Basis, Samples: p.Samples, Own: p.Own, Doubt: p.Doubt}
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
	// Predicted is the forecast that was made for the run. If its P90 is 0, there was none. The
	// text is not needed.
	Predicted Forecast
	// Overdue is true if Forecaster.Overdue was called for the run.
	Overdue bool
}

// Forecaster remembers runs and predicts the runtime of the next job. Only one goroutine at a time may use a
// Forecaster.
type Forecaster struct {
	cfg       Config
	groups    groups
	coverages []coverage // by class
	spreads   [classes]spread
	drifts    []Drift
	weights   []float64 // of runs, by age
	total     []float64 // cumulative sums of the weights
	scratch   []weightedRun
	logs      []float64 // scratch
	skill     skill
}

// The constant `shrinkage` controls the weight of a group in a prediction. If a group has this
// many runs, it has the same weight as all wider groups together.
const shrinkage = 3

// enoughShare is the smallest weight with which the runs of the submitter's other jobs give an estimate. Three
// runs have this weight.
const enoughShare = 0.5

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
	f := &Forecaster{cfg: cfg, coverages: make([]coverage, classes+len(levels)), groups: groups{byKey: map[uint64]*group{}, limit: cfg.Groups}}
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
	out, ok := f.predictOwn(&a, &keys)
	if !ok {
		out = f.predictOthers(&a, &keys)
	}
	if a.Limit > 0 {
		out.P50, out.P90 = min(out.P50, a.Limit), min(out.P90, a.Limit)
	}
	out.P90 = max(out.P50, out.P90)
	out.Doubt = f.skill.doubt()
	return out
}

// predictOwn predicts the runtime of a job from earlier runs of the same job. The median is almost the
// median of these runs. The p90 also depends on how far runs usually are from such a median. The
// result is false if most of these runs were cut short, or if there is none.
func (f *Forecaster) predictOwn(a *Features, keys *[len(levels)]uint64) (Forecast, bool) {
	b, share, left := f.levelShares(keys, ownLevels)
	if b.runs == 0 {
		return Forecast{}, false
	}
	b.all = f.weighted(f.scratch[:0], a, keys, &share)
	f.scratch = b.all
	b.sort()
	b.redistribute()
	center, censored := b.at(middle)
	if censored {
		return Forecast{}, false // most runs were cut short, so they show only that the job runs longer
	}
	center = max(center, 1)
	least := b.quantile(0.9)
	user := f.submitterOf(a, keys, b.runs)
	center = user.shrink(center, f.groups.byKey[keys[b.best]].runs)
	class := classOf(b.runs, user.isShort(center))
	// The weights of interrupted runs are redistributed over the spread as well.
	b.all = f.weighted(b.all[:0], a, keys, &share)
	b.all = f.spreadAround(b.all, center, keys[userLevel(a)], class, left)
	f.scratch = b.all
	b.sort()
	b.redistribute()
	p50 := time.Duration(center) * time.Millisecond
	p90 := user.stretch(p50, b.quantile(0.9), f.shift(spreadKey(keys[userLevel(a)], class), class))
	// Other jobs can only raise the p90 above the p90 of the own runs. So they never make a job late.
	p90 = max(p90, least)
	return Forecast{P50: p50, P90: p90, Basis: b.words(a), Samples: b.runs, Own: b.runs}, true
}

// predictOthers predicts the runtime of a job of which no run is known, from the submitter's other
// jobs. If these are too few, P50 and P90 are an assumption for planning and there is no estimate.
func (f *Forecaster) predictOthers(a *Features, keys *[len(levels)]uint64) Forecast {
	b, share, left, known := f.otherShares(a, keys)
	if known || a.Limit <= 0 && b.runs > 0 {
		left = 0 // runs say more than a guess
	}
	b.all = f.weighted(f.scratch[:0], a, keys, &share)
	b.all = f.addGuess(b.all, a.Limit, left)
	f.scratch = b.all
	b.sort()
	b.redistribute()
	user := f.submitterOf(a, keys, 0)
	out := Forecast{P50: b.quantile(0.5)}
	out.P90 = user.stretch(out.P50, b.quantile(0.9), f.shift(keys[tenantLevel], classes+b.best))
	if known {
		out.Samples, out.Basis = b.runs, b.words(a)
		return out
	}
	out.Basis = b.noEstimate(a)
	if a.Limit > 0 {
		out.P90 = a.Limit // nothing else is known
	}
	return out
}

// otherShares returns the weights of the groups for a job without own runs. If the submitter has enough runs, and not
// too many of them were cut short, only these have weight and `known` is true. Otherwise all groups have weight, for
// planning.
func (f *Forecaster) otherShares(a *Features, keys *[len(levels)]uint64) (b blend, share [len(levels)]float64, left float64, known bool) {
	cut := 0
	if b, share, left = f.levelShares(keys, userLevel(a)+1); 1-left >= enoughShare {
		if f.showsMedian(a, keys, &share) {
			return b, share, left, true
		}
		cut = b.runs
	}
	b, share, left = f.levelShares(keys, len(levels))
	b.cut = cut
	return b, share, left, false
}

// showsMedian reports whether weighted runs show a median. If most of them were cut short, they show only that half of
// the runs are longer, and any median would come from the guess. A job with a time limit has a median then too, if the
// runs were as long as its limit.
func (f *Forecaster) showsMedian(a *Features, keys *[len(levels)]uint64, share *[len(levels)]float64) bool {
	b := blend{all: f.weighted(f.scratch[:0], a, keys, share)}
	f.scratch = b.all
	b.sort()
	b.redistribute()
	median, censored := b.at(0.5)
	return !censored || a.Limit > 0 && median >= a.Limit.Milliseconds()
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
	if late := r.Took > r.Predicted.P90; r.Predicted.P90 > 0 && !r.Overdue && (late || r.Outcome != Cut) {
		f.recordCoverage(&a, &keys, &r.Predicted, !late)
	}
	if r.Outcome == Ended && r.Predicted.P50 > 0 {
		f.skill.observe(r.Predicted.P50, r.Took)
	}
	if r.Predicted.Own > 0 && r.Predicted.P50 > 0 {
		f.observeSpread(&r, keys[userLevel(&a)], f.classOfRun(&a, &keys, &r.Predicted))
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
