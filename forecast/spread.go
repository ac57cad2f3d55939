package forecast

import "math"

// The type `spread` holds how far the latest runs of all tenants were from the median of the runs of the same job
// that had ended before. This shows how certain such a median is. There is one spread for each class of jobs,
// because a median of many runs is more certain than one run.
type spread struct {
	errors []sample // in the form of errorOf, oldest first, at most maxErrors
}

// classes is the number of classes of jobs by the number of their own runs: 1, 2, 3–4, 5–8, 9–16, and more. One or two
// runs that were much shorter than the submitter's other jobs may be failures, so these jobs have classes of their own.
const (
	classes  = 8
	byCounts = 6
)

// classOf returns the class of a job with the given number of own runs, which is at least 1.
func classOf(own int, short bool) int {
	class := 0
	for class < byCounts-1 && own > 1<<class {
		class++
	}
	if short && class < classes-byCounts {
		class += byCounts
	}
	return class
}

const (
	// The constant `middle` is the fraction at which the median of the own runs is taken. It is a little above one half,
	// so that the median of two runs is the longer one. A run that fails early is shorter than what follows.
	middle = 0.55
	// maxErrors is the number of errors in the spread of all tenants.
	maxErrors = 255
	// priorErrors is the number of errors that the assumed spread counts for.
	priorErrors = 10
	// userShare is the number of errors of the submitter's own jobs that would weigh as much as the errors of all tenants.
	userShare = 100
)

// An error is stored as the binary logarithm of runtime/median, in thousandths, plus errorOffset.
const (
	errorUnit   = 1000
	errorOffset = 50 * errorUnit
)

// errorOf returns the error of a median.
func errorOf(runtime, median int64) int64 {
	e := math.Log2(float64(max(runtime, 1)) / float64(max(median, 1)))
	return max(0, min(2*errorOffset, int64(math.Round(e*errorUnit))+errorOffset))
}

// runtimeAround returns the runtime that has the given error, in milliseconds.
func (s sample) runtimeAround(median int64) int64 {
	return int64(min(float64(median)*math.Exp2(float64(s.runtime-errorOffset)/errorUnit), float64(longest.Milliseconds())))
}

// assumedSpread are the errors that are assumed before any are known, as binary logarithms in thousandths: half of the
// runs are within a factor of 1.2 to 1.5, and a tenth takes more than 5 times as long.
var assumedSpread = [10]int64{-2500, -1200, -600, -250, -50, 50, 250, 600, 1200, 2500}

// spreadKey returns the key of the group that holds the errors of a submitter's jobs.
func spreadKey(user uint64, class int) uint64 {
	return max(uint64(hasher(user).byte('s').byte(byte(class))), 1)
}

// observeSpread learns how far a run was from its predicted median.
func (f *Forecaster) observeSpread(r *Run, user uint64, class int) {
	e := sample{errorOf(r.Took.Milliseconds(), r.Predicted.P50.Milliseconds()), r.Outcome != Ended}
	s := &f.spreads[class]
	if len(s.errors) >= maxErrors {
		copy(s.errors, s.errors[1:])
		s.errors = s.errors[:maxErrors-1]
	}
	s.errors = append(s.errors, e)
	f.groups.touch(spreadKey(user, class)).add(e, f.cfg.Window)
}

// spreadAround appends the runtimes that have the errors of the job's class around a median. Their weights sum up to
// the given weight.
func (f *Forecaster) spreadAround(to []weightedRun, median int64, user uint64, class int, weight float64) []weightedRun {
	add := func(errors []sample, weight float64) {
		for _, e := range errors {
			to = append(to, weightedRun{e.runtimeAround(median), weight / float64(len(errors)), e.censored})
		}
	}
	if g := f.groups.byKey[spreadKey(user, class)]; g != nil {
		n := float64(len(g.runs))
		add(g.runs, weight*n/(n+userShare))
		weight *= userShare / (n + userShare)
	}
	all := f.spreads[class].errors
	n := float64(len(all))
	add(all, weight*n/(n+priorErrors))
	weight *= priorErrors / (n + priorErrors)
	var assumed [len(assumedSpread)]sample
	for i, e := range assumedSpread {
		assumed[i].runtime = e + errorOffset
	}
	add(assumed[:], weight)
	return to
}
