package forecast

import (
	"math"
	"time"
)

// coverage is the correction of one kind of evidence, and how well it did.
type coverage struct {
	shift     float64 // in logarithms to the base of 2
	predicted int
	covered   int
}

// The steps of the corrections, in logarithms to the base of 2: by so much, times
// nine tenths, is the p90 stretched after a run that outlasted it. A burst of
// runs that were all told before the first of them ended must not throw it far.
const (
	target       = 0.1 // of the runs may outlast it
	stepOfKind   = 0.05
	stepOfTenant = 0.05
	maxShift     = 12
)

// shift is the correction for an ask of a tenant whose evidence is mainly of one level.
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

// Overdue learns that a run has outlasted the p90 that was told of it and goes
// on. That it was covered is known of a run early and that it was not only late,
// so whoever waits for the ends of long runs believes for long that all is well.
func (f *Forecaster) Overdue(a Features) {
	keys := a.keys()
	f.recordCoverage(&keys, false)
}

// recordCoverage notes whether a run was covered by what was told of it.
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

// Accuracy says how many runs were held against what was told of them, and how
// many took no longer than the p90.
func (f *Forecaster) Accuracy() (told, covered int) {
	for _, g := range f.coverages {
		told, covered = told+g.predicted, covered+g.covered
	}
	return told, covered
}
