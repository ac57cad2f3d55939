package forecast

import (
	"math"
	"slices"
)

// The type `submitterRuns` describes the runtimes of a submitter's latest runs, as binary logarithms of milliseconds. The
// zero value is for a submitter with too few runs.
type submitterRuns struct {
	runs      int
	median    float64
	deviation float64 // estimated from the median absolute deviation
	longest   int64   // milliseconds
	ofUser    bool    // of one user, not of a whole tenant
	ofLimits  bool    // computed from fractions of time limits
}

const (
	// minOthers is the smallest number of runs that a submitter must have besides the runs of the job itself.
	minOthers = 3
	// ownVariance is the variance of a job's runs that is assumed before any is known. It counts as one run.
	ownVariance = 2
	// minVariance is the smallest variance that a submitter's runs are assumed to have.
	minVariance = 0.5
	// maxPriorRuns bounds the weight of the submitter's other jobs: they count for at most this many runs of the job.
	maxPriorRuns = 2
	// limitWeight multiplies this weight for a job with a time limit, because the limit is a statement about this job.
	limitWeight = 4
	// The constant `apart` controls how fast own runs that are far from the submitter's runs make these irrelevant.
	apart = 4
	// shortLog says which runs are short: those below a quarter of the median of the user's runs.
	shortLog = 2
)

// submitterOf returns the runtimes of a job's submitter. If the job has a time limit, they are computed from
// fractions of the limits. The parameter `own` is the number of the job's own runs, which are among them.
func (f *Forecaster) submitterOf(a *Features, keys *[len(levels)]uint64, own int) (out submitterRuns) {
	for i := ownLevels; i < len(levels) && levels[i].isOf(a); i++ {
		g := f.groups.byKey[keys[i]]
		if keys[i] == 0 || g == nil || len(g.runs) < min(own+minOthers, f.cfg.Window) {
			continue
		}
		logs := f.logs[:0]
		for _, s := range g.runs {
			logs = append(logs, logOf(s.runtimeFor(&levels[i], a.Limit)))
		}
		f.logs = logs
		slices.Sort(logs)
		out = submitterRuns{runs: len(logs), median: logs[len(logs)/2], longest: int64(math.Exp2(logs[len(logs)-1])), ofUser: a.User != "", ofLimits: levels[i].share}
		for k := range logs {
			logs[k] = math.Abs(logs[k] - out.median)
		}
		slices.Sort(logs)
		out.deviation = 1.48 * logs[len(logs)/2] // for a normal distribution, this is the standard deviation
		break
	}
	return out
}

func logOf(runtime int64) float64 { return math.Log2(float64(max(runtime, 1))) }

// The method `shrink` moves the median of a job's own runs toward the median of the submitter's runs. The submitter's runs count
// for as many own runs as the variances say: many if the submitter's jobs are alike and the own runs are not, and
// almost none if the own runs are alike.
func (p *submitterRuns) shrink(median int64, own []sample) int64 {
	if p.runs == 0 {
		return median
	}
	mid, sum := logOf(median), float64(ownVariance)
	for _, s := range own {
		d := logOf(s.runtime) - mid
		sum += d * d
	}
	n, others := float64(len(own)), float64(p.runs)
	// Several own runs that are far from all other jobs are no coincidence, so the job is of another kind.
	// But runs that differ from each other may be failures.
	gap := (n - 1) / apart * math.Abs(mid-p.median) / max(1, sum/n)
	variance := max(p.deviation*p.deviation, gap*gap, minVariance)
	count := min(maxPriorRuns, sum/n/variance) * others / (others + shrinkage)
	if p.ofLimits {
		count *= limitWeight
	}
	weight := n / (n + count)
	return int64(math.Round(math.Exp2(weight*mid + (1-weight)*p.median)))
}

// isShort reports whether a runtime is much shorter than the user's other runs.
func (p *submitterRuns) isShort(runtime int64) bool {
	return p.ofUser && logOf(runtime) < p.median-shortLog
}
