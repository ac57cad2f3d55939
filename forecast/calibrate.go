package forecast

import (
	"math"
	"time"
)

// A `coverage` holds the correction that is applied to predictions from one level. It also
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
	target       = 0.1 // the fraction of runs that may exceed the p90
	stepOfKind   = 0.05
	stepOfTenant = 0.05
	maxShift     = 12
)

// The method `shift` returns the correction for a job of a tenant. The parameter `main` is the level that
// has the largest weight in the job's forecast.
func (f *Forecaster) shift(tenant uint64, main int) float64 {
	shift := f.coverages[main].shift
	if g := f.groups.byKey[tenant]; g != nil {
		shift += g.shift
	}
	return shift
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
func (f *Forecaster) Overdue(a Features) {
	keys := a.keys()
	f.recordCoverage(&keys, false)
}

// recordCoverage records whether a run was within its predicted p90.
func (f *Forecaster) recordCoverage(keys *[len(levels)]uint64, covered bool) {
	b, _, _ := f.levelShares(keys)
	g, t := &f.coverages[b.main], f.groups.touch(keys[tenantLevel])
	miss := 1 - target
	if covered {
		miss = -target
		g.covered++
	}
	g.predicted++
	g.shift = clamp(g.shift + stepOfKind*miss)
	t.shift = clamp(t.shift + stepOfTenant*miss)
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
