package forecast

import (
	"math"
	"time"
)

// The type `skill` measures how well forecasts tell short jobs from long ones: the correlation between the logarithm of the
// predicted median and that of the runtime, over the recent runs of all jobs. An order by forecasts without skill only
// delays some jobs at random, and those are the jobs with the largest slowdown. The fields are weighted sums.
type skill struct {
	runs, squares float64 // sums of the weights and of their squares
	x, y          float64 // predicted and actual
	xx, yy, xy    float64
}

const (
	// skillHalfLife is the number of runs after which the weight of a run is halved.
	skillHalfLife = 256
	// leastSkillRuns is the number of runs below which nothing is known about the skill.
	leastSkillRuns = 10
	// skillMargin is the number of standard errors that are subtracted from the correlation. Chance alone seldom
	// exceeds it.
	skillMargin = 1.5
	// fullSkill is the correlation, less the margin, from which on forecasts are not doubted.
	fullSkill = 0.2
	// leastLength is the shortest runtime that counts. The order of shorter jobs does not matter.
	leastLength = time.Minute
)

// The method `observe` learns from a run that ended by itself.
func (s *skill) observe(predicted, took time.Duration) {
	x, y := math.Log(max(predicted, leastLength).Seconds()), math.Log(max(took, leastLength).Seconds())
	keep := math.Exp2(-1.0 / skillHalfLife)
	for _, sum := range []struct {
		of *float64
		by float64
	}{{&s.runs, 1}, {&s.x, x}, {&s.y, y}, {&s.xx, x * x}, {&s.yy, y * y}, {&s.xy, x * y}} {
		*sum.of = *sum.of*keep + sum.by
	}
	s.squares = s.squares*keep*keep + 1
}

// The method `doubt` returns how little forecasts are worth for an order, in percent. It is 100 until enough runs show
// that they are worth something, and falls to 0 at the correlation fullSkill.
func (s *skill) doubt() int {
	if s.runs < leastSkillRuns {
		return 100
	}
	x, y := s.x/s.runs, s.y/s.runs
	of := (s.xx/s.runs - x*x) * (s.yy/s.runs - y*y)
	if !(of > 1e-12) { // all runs, or all forecasts, are alike
		return 100
	}
	correlation := (s.xy/s.runs - x*y) / math.Sqrt(of)
	sure := correlation - skillMargin*math.Sqrt(s.squares)/s.runs
	if !(sure > 0) { // also if it is not a number
		return 100
	}
	return int(math.Round(100 * (1 - min(sure/fullSkill, 1))))
}

// maxSum is larger than any sum can become: the weights add up to less than 400, and no logarithm of a runtime is above 25.
const maxSum = 1e6

// The method `check` forgets restored sums that cannot be right.
func (s *skill) check() {
	for _, sum := range s.sums() {
		if !(math.Abs(*sum) <= maxSum) { // also if it is not a number
			*s = skill{}
			return
		}
	}
}

// The method `sums` returns all fields, for saving.
func (s *skill) sums() []*float64 {
	return []*float64{&s.runs, &s.squares, &s.x, &s.y, &s.xx, &s.yy, &s.xy}
}
