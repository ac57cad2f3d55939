package previous

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/forecast"
)

type weighted struct {
	runtime  int64 // milliseconds
	weight   float64
	censored bool
}

// The method `shares` returns the weight of each level, the level with the largest weight, and the
// weight that is left for the guess.
func (f *Forecaster) shares(keys *[levels]string) (share [levels]float64, main int, left float64) {
	left = 1
	most, counted := 0.0, 0
	for i, key := range keys {
		g := f.groups[key]
		if key == "" || g == nil || g.seen <= counted {
			continue
		}
		n := float64(g.seen - counted)
		counted = g.seen
		share[i] = left * n / (n + shrinkage)
		if share[i] > most {
			most, main = share[i], i
		}
		if left -= share[i]; left < minShare {
			break
		}
	}
	if left > most {
		main = levels
	}
	return share, main, left
}

// The method `blend` returns the weighted runs of all groups of a job, ordered by runtime, after the
// weight of censored runs was moved to the longer ones (Kaplan-Meier).
func (f *Forecaster) blend(a *forecast.Features, keys *[levels]string) (all []weighted, main int) {
	share, main, left := f.shares(keys)
	for i := range levels {
		if share[i] == 0 {
			continue
		}
		runs, sum := f.groups[keys[i]].runs, 0.0
		for k := range runs {
			sum += math.Exp2(-float64(k) / halfLife)
		}
		for k, r := range runs {
			value := r.value
			if isShare(i) {
				value = int64(float64(r.value) / 1e6 * float64(a.Limit.Milliseconds()))
			}
			all = append(all, weighted{value, share[i] / sum * math.Exp2(-float64(len(runs)-1-k)/halfLife), r.censored})
		}
	}
	limit := a.Limit
	if limit <= 0 {
		limit = unlimited
	}
	for i := range guessParts {
		part := limit * time.Duration(i+1) / guessParts
		all = append(all, weighted{part.Milliseconds(), max(left, guessWeight) / guessParts, false})
	}
	slices.SortStableFunc(all, func(x, y weighted) int {
		if c := cmp.Compare(x.runtime, y.runtime); c != 0 || x.censored == y.censored {
			return c
		}
		if x.censored {
			return 1
		}
		return -1
	})
	redistribute(all)
	return all, main
}

func redistribute(all []weighted) {
	behind := 0.0
	for i := range all {
		behind += all[i].weight
	}
	factor := 1.0
	for i := range all {
		w := all[i].weight
		behind -= w
		if all[i].censored && i < len(all)-1 && behind > 1e-12 {
			factor *= (behind + w) / behind
			all[i].weight = 0
			continue
		}
		all[i].weight *= factor
	}
}

func quantile(all []weighted, part float64) time.Duration {
	sum := 0.0
	for i := range all {
		sum += all[i].weight
	}
	goal, sofar, last := part*sum, 0.0, int64(0)
	for i := range all {
		if all[i].weight == 0 {
			continue
		}
		last = all[i].runtime
		if sofar += all[i].weight; sofar >= goal {
			break
		}
	}
	return time.Duration(last) * time.Millisecond
}
