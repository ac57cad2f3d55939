package forecast

import (
	"math"
	"time"
)

// grade is the correction of one kind of evidence, and how well it did.
type grade struct {
	shift   float64 // in logarithms to the base of 2
	told    int
	covered int
}

// The steps of the corrections, in logarithms to the base of 2: by so much, times
// nine tenths, is the p90 stretched after a run that outlasted it. A burst of
// runs that were all told before the first of them ended must not throw it far.
const (
	stepOfKind   = 0.05
	stepOfTenant = 0.05
	maxShift     = 12
)

// shift is the correction for an ask whose evidence is mainly of one level.
func (f *Forecaster) shift(a *Ask, main int) float64 {
	shift := f.grades[main].shift
	if g := f.groups.byKey[a.key(tenantLevel)]; g != nil {
		shift += g.shift
	}
	return shift
}

func stretch(d time.Duration, shift float64) time.Duration {
	if shift == 0 {
		return d
	}
	const most = 10 * 365 * 24 * time.Hour
	return time.Duration(min(float64(d)*math.Exp2(shift), float64(most))).Round(time.Millisecond)
}

// grade holds a run against what was told of it.
func (f *Forecaster) grade(r *Run) {
	b := f.blend(&r.Ask)
	told := r.Told
	if told <= 0 {
		told = f.Predict(r.Ask).P90
	}
	g := &f.grades[b.main]
	g.told++
	miss := -0.1
	if r.Took > told {
		miss = 0.9
	} else {
		g.covered++
	}
	g.shift = clamp(g.shift + stepOfKind*miss)
	t := f.groups.touch(r.Ask.key(tenantLevel))
	t.shift = clamp(t.shift + stepOfTenant*miss)
}

func clamp(shift float64) float64 { return max(-maxShift, min(maxShift, shift)) }

// Accuracy says how many runs were held against what was told of them, and how
// many took no longer than the p90.
func (f *Forecaster) Accuracy() (told, covered int) {
	for _, g := range f.grades {
		told, covered = told+g.told, covered+g.covered
	}
	return told, covered
}
