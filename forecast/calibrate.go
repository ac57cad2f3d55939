package forecast

import (
	"math"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// A `coverage` holds the correction that is applied to predictions of one class. It also
// counts how many runs were within their p90.
type coverage struct {
	shift     float64 // binary logarithm
	predicted int
	covered   int
}

// These are the step sizes of the corrections, as binary logarithms. When a run exceeds its p90,
// later p90 predictions become longer by nine tenths of a step. The steps are small, because many
// jobs may be predicted before the first of them ends.
const (
	target   = 0.1  // the fraction of runs that may exceed the p90
	fewStep  = 0.02 // of forecasts from fewer than ares.EnoughRuns own runs: their spread is calibrated already
	step     = 0.05 // of other forecasts
	maxShift = 12
)

// The method `shift` returns the correction for a job. The parameter `class` is an index of `coverages`: the class
// of the job's own runs or, for a job without own runs, the number of these classes plus the level that has the
// largest weight. The parameter `of` is the key of the group that has the other half of the correction: the submitter's
// errors of this class, or the tenant.
func (f *Forecaster) shift(of uint64, class int) float64 {
	shift := f.coverages[class].shift
	if g := f.groups.byKey[of]; g != nil {
		shift += g.shift
	}
	return shift
}

// These constants bound a corrected p90: maxBeyond is a multiple of the submitter's longest run. If the submitter has too few
// runs, maxFactor is a multiple of the predicted median.
const (
	maxBeyond = 4
	maxFactor = ares.MaxIntervalFactor
)

// The method `stretch` corrects a p90. Without a bound, a burst of late runs could raise the p90 of all later runs by orders of
// magnitude.
func (p *submitterRuns) stretch(p50, p90 time.Duration, shift float64) time.Duration {
	most := float64(p50.Milliseconds()) * maxFactor
	if p.runs > 0 {
		most = float64(p.longest) * maxBeyond
	}
	most = min(most, float64(longest.Milliseconds()))
	return min(stretch(p90, shift), max(p50, time.Duration(most)*time.Millisecond))
}

func stretch(d time.Duration, shift float64) time.Duration {
	if shift == 0 {
		return d
	}
	return time.Duration(min(float64(d)*math.Exp2(shift), float64(longest))).Round(time.Millisecond)
}

// Overdue records that a run has exceeded its predicted p90 and is still running. A long run
// must count as soon as it exceeds its p90. If it were counted only at its end, the measured
// accuracy would be too high until then.
func (f *Forecaster) Overdue(a Features, predicted Forecast) {
	keys := a.keys()
	f.recordCoverage(&a, &keys, &predicted, false)
}

// recordCoverage records whether a run was within its predicted p90. A time limit is no prediction,
// so it is not corrected.
func (f *Forecaster) recordCoverage(a *Features, keys *[len(levels)]uint64, predicted *Forecast, covered bool) {
	if predicted.Samples == 0 && a.Limit > 0 {
		return
	}
	var class int
	var t *group
	by := step
	if predicted.Own > 0 {
		class = f.classOfRun(a, keys, predicted)
		if t = f.groups.touch(spreadKey(keys[userLevel(a)], class)); predicted.Own < ares.EnoughRuns {
			by = fewStep
		}
	} else {
		b, _, _, _ := f.otherShares(a, keys)
		class = classes + b.best
		t = f.groups.touch(keys[tenantLevel])
	}
	g := &f.coverages[class]
	miss := 1 - target
	if covered {
		miss = -target
	}
	if predicted.Samples > 0 {
		g.predicted++
		if covered {
			g.covered++
		}
	}
	g.shift = clamp(g.shift + by*miss)
	t.shift = clamp(t.shift + by*miss)
}

func clamp(shift float64) float64 { return max(-maxShift, min(maxShift, shift)) }

// Accuracy returns how many runs were compared with their prediction. It also returns how
// many of them were within the p90.
func (f *Forecaster) Accuracy() (told, covered int) {
	for _, g := range f.coverages {
		told, covered = told+g.predicted, covered+g.covered
	}
	return told, covered
}

// classOfRun returns the class of a prediction from own runs.
func (f *Forecaster) classOfRun(a *Features, keys *[len(levels)]uint64, predicted *Forecast) int {
	user := f.submitterOf(a, keys, predicted.Own)
	return classOf(predicted.Own, user.isShort(predicted.P50.Milliseconds()))
}
