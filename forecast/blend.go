package forecast

import (
	"cmp"
	"slices"
	"time"
)

// blend is the runs of several groups, weighed.
type blend struct {
	all  []weightedRun
	main int // the level that weighs most; the guess is that after the last
	best int // that of the groups, as long as there are runs
	runs int // of that group
}

type weightedRun struct {
	runtime  int64 // milliseconds
	weight   float64
	censored bool
}

// minShare is how little may be left to wider groups before they are not asked: it
// would not move a ninth decile.
const minShare = 0.01

// levelShares says how much each level's group counts, and what is left for the guess.
// A group weighs by the runs that no narrower one has: the same run again is no
// more evidence.
func (f *Forecaster) levelShares(keys *[len(levels)]uint64) (b blend, share [len(levels)]float64, left float64) {
	left = 1
	most, counted := 0.0, 0
	for i, key := range keys {
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
	if b.main = b.best; left > most {
		b.main = len(levels)
	}
	return b, share, left
}

// blend puts together what the groups of an ask know.
func (f *Forecaster) blend(a *Features, keys *[len(levels)]uint64) blend {
	b, share, left := f.levelShares(keys)
	b.all = f.scratch[:0]
	for i := range levels {
		if share[i] == 0 {
			continue
		}
		runs := f.groups.byKey[keys[i]].runs
		unit := share[i] / f.total[len(runs)]
		for k, s := range runs {
			b.all = append(b.all, weightedRun{s.runtimeFor(&levels[i], a.Limit), unit * f.weights[len(runs)-1-k], s.censored})
		}
	}
	// The guess is never quite without weight: where all runs were cut short it
	// says what lies beyond.
	for _, part := range f.guess(a.Limit) {
		b.all = append(b.all, weightedRun{part.Milliseconds(), max(left, guessWeight) / guessParts, false})
	}
	f.scratch = b.all
	slices.SortFunc(b.all, func(x, y weightedRun) int {
		if c := cmp.Compare(x.runtime, y.runtime); c != 0 || x.censored == y.censored {
			return c
		}
		if x.censored { // ended before cut, as among equals in Kaplan and Meier's
			return 1
		}
		return -1
	})
	b.redistribute()
	return b
}

// guessWeight is the weight of the guess beside all the evidence there can be.
const guessWeight = 1e-4

// guessParts is how many equal parts the guess without evidence has.
const guessParts = 10

// guess is what is thought of a job of which nothing is known but its limit:
// half of such jobs take up to half of it.
func (f *Forecaster) guess(limit time.Duration) (out [guessParts]time.Duration) {
	if limit <= 0 {
		limit = f.cfg.Unlimited
	}
	for i := range out {
		out[i] = limit * time.Duration(i+1) / guessParts
	}
	return out
}

// redistribute gives the weight of each run that was cut short to those that
// took longer, in proportion. One with none behind it keeps its own: that it
// took at least so long is all that is known.
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

// quantile is the least time that a part of the weight is not above.
func (b *blend) quantile(part float64) time.Duration {
	sum := 0.0
	for i := range b.all {
		sum += b.all[i].weight
	}
	goal, sofar, last := part*sum, 0.0, int64(0)
	for i := range b.all {
		if b.all[i].weight == 0 {
			continue
		}
		last = b.all[i].runtime
		if sofar += b.all[i].weight; sofar >= goal {
			break
		}
	}
	return time.Duration(last) * time.Millisecond
}
