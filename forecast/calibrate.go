package forecast

import (
	"math"
	"time"
)

// coverage is the correction of one level of evidence, and its accuracy.
type coverage struct {
	shift     float64 // binary logarithm
	predicted int
	covered   int
}

// The steps of the corrections, as binary logarithms: a run that exceeds its p90
// stretches the p90 by nine tenths of a step. Steps are small, because a burst of
// runs can be predicted before the first of them ends.
const (
	target       = 0.1 // of the runs may exceed the p90
	stepOfKind   = 0.05
	stepOfTenant = 0.05
	maxShift     = 12
)

// shift returns the correction for a job of a tenant whose evidence is mainly
// of one level.
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

// Overdue learns that a run has exceeded its predicted p90 and goes on. A run
// within its p90 is known early, a run beyond it only when it ends: without
// Overdue, long runs would make the accuracy look too good for long.
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

// Accuracy returns how many runs were compared with their prediction, and how
// many of them were within the p90.
func (f *Forecaster) Accuracy() (told, covered int) {
	for _, g := range f.coverages {
		told, covered = told+g.predicted, covered+g.covered
	}
	return told, covered
}
