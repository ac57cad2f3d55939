package forecast

import (
	"cmp"
	"slices"
	"time"
)

// A `blend` contains the weighted runs of several groups.
type blend struct {
	all  []weightedRun
	best int // the level with the largest weight, if any group has runs
	runs int // number of runs in that group
	cut  int // if most of the submitter's runs were cut short, and give no estimate: the number of runs in their group
}

type weightedRun struct {
	runtime  int64 // milliseconds
	weight   float64
	censored bool
}

// If the remaining weight is below minShare, wider groups are not read. They would not change the p90.
const minShare = 0.01

// levelShares returns the weight of each level's group, for the narrowest levels up to the given number. The
// remaining weight is for the guess, or for the spread of runs around the job's own runs. Runs that a
// narrower group already contains do not add to the weight of a wider group. Counting a run twice adds no evidence.
func (f *Forecaster) levelShares(keys *[len(levels)]uint64, upTo int) (b blend, share [len(levels)]float64, left float64) {
	left = 1
	most, counted := 0.0, 0
	for i, key := range keys[:upTo] {
		g := f.groups.byKey[key]
		if key == 0 || g == nil || g.seen <= counted {
			continue
		}
		n := float64(g.seen - counted)
		counted = g.seen
		share[i] = left * n / (n + shrinkage)
		if share[i] > most {
			most, b.best, b.runs = share[i], i, len(g.runs)
		}
		if left -= share[i]; left < minShare {
			break
		}
	}
	return b, share, left
}

// The method `weighted` appends the runs of all groups of a job, with their weights.
func (f *Forecaster) weighted(to []weightedRun, a *Features, keys *[len(levels)]uint64, share *[len(levels)]float64) []weightedRun {
	for i := range levels {
		if share[i] == 0 {
			continue
		}
		runs := f.groups.byKey[keys[i]].runs
		unit := share[i] / f.total[len(runs)]
		for k, s := range runs {
			to = append(to, weightedRun{s.runtimeFor(&levels[i], a.Limit), unit * f.weights[len(runs)-1-k], s.censored})
		}
	}
	return to
}

// The method `sort` orders the runs by runtime.
func (b *blend) sort() {
	slices.SortFunc(b.all, func(x, y weightedRun) int {
		if c := cmp.Compare(x.runtime, y.runtime); c != 0 || x.censored == y.censored {
			return c
		}
		if x.censored { // ended runs sort before censored ones, as in Kaplan-Meier
			return 1
		}
		return -1
	})
}

// guessWeight is the smallest weight of the guess.
const guessWeight = 1e-4

// guessParts is the number of runtimes in a guess. All of them have the same weight.
const guessParts = 10

// addGuess appends the runtimes that are assumed for a job of which only the time limit is known. Their median
// is half of the limit. The guess always has some weight. If all runs are censored, only the guess says anything
// about longer runs.
func (f *Forecaster) addGuess(to []weightedRun, limit time.Duration, left float64) []weightedRun {
	if limit <= 0 {
		limit = f.cfg.Unlimited
	}
	for i := range guessParts {
		part := limit / guessParts * time.Duration(i+1)
		to = append(to, weightedRun{part.Milliseconds(), max(left, guessWeight) / guessParts, false})
	}
	return to
}

// The method `redistribute` moves the weight of each censored run to the longer runs, in
// proportion to their weights. If no run is longer, the censored run keeps its weight.
func (b *blend) redistribute() {
	behind := 0.0
	for i := range b.all {
		behind += b.all[i].weight
	}
	factor := 1.0
	for i := range b.all {
		r := &b.all[i]
		w := r.weight
		behind -= w
		if r.censored && i < len(b.all)-1 && behind > 1e-12 {
			factor *= (behind + w) / behind
			r.weight = 0
			continue
		}
		r.weight *= factor
	}
}

// The method `quantile` returns the weighted quantile of the runtimes for the given fraction.
func (b *blend) quantile(part float64) time.Duration {
	runtime, _ := b.at(part)
	return time.Duration(runtime) * time.Millisecond
}

// The method `at` returns the runtime at the given fraction of the weight, in milliseconds, and whether its run is
// censored.
func (b *blend) at(part float64) (runtime int64, censored bool) {
	sum := 0.0
	for i := range b.all {
		sum += b.all[i].weight
	}
	goal, sofar := part*sum, 0.0
	for i := range b.all {
		if b.all[i].weight == 0 {
			continue
		}
		runtime, censored = b.all[i].runtime, b.all[i].censored
		if sofar += b.all[i].weight; sofar >= goal {
			break
		}
	}
	return runtime, censored
}
