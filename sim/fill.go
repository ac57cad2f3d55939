package sim

import (
	"cmp"
	"math"
	"slices"
)

// demand is what a tenant could use if it had the fleet to itself.
type demand struct {
	wants  amounts
	weight float64
	most   float64 // the part of it that it may have at most: 1, or less by its limits
}

// fill is the fair division by progressive filling: every tenant's weighted
// dominant share rises at the same pace, until the tenant has all it may have or
// a resource it needs is used up. Everything can be divided: jobs are taken to
// run in part and anywhere, so that it is an oracle, not a schedule. It yields
// the dominant share of each.
func fill(demands []demand, capacity amounts) []float64 {
	f := filling{shares: make([]float64, len(demands)), demands: demands}
	for i, d := range demands {
		if full := dominant(d.wants, capacity); full > 0 && d.most > 0 && d.weight > 0 {
			f.rising = append(f.rising, riser{at: i, full: full, until: full * d.most / d.weight})
		}
	}
	slices.SortFunc(f.rising, func(a, b riser) int { return cmp.Or(cmp.Compare(a.until, b.until), cmp.Compare(a.at, b.at)) })
	for r := range f.left {
		f.left[r] = float64(capacity[r])
	}
	level := 0.0
	for len(f.rising) > 0 {
		level = f.raise(level)
	}
	return f.shares
}

// filling is a division under way.
type filling struct {
	demands []demand
	shares  []float64
	rising  []riser // by the level at which each has all it may have
	left    [3]float64
}

// riser is a tenant whose share still rises.
type riser struct {
	at    int
	full  float64 // dominant share of all it wants
	until float64 // weighted
}

// pace is what one step of the level takes of each resource for a tenant.
func (f *filling) pace(r riser) (by [3]float64) {
	d := &f.demands[r.at]
	for k := range by {
		by[k] = float64(d.wants[k]) * d.weight / r.full
	}
	return by
}

// raise lifts the level to where the next tenant has enough, or the next
// resource is used up, and takes those out that rise no further.
func (f *filling) raise(level float64) float64 {
	var pace [3]float64
	for _, r := range f.rising {
		for k, v := range f.pace(r) {
			pace[k] += v
		}
	}
	next := f.rising[0].until
	for k := range pace {
		if pace[k] > 0 {
			next = min(next, level+max(f.left[k], 0)/pace[k])
		}
	}
	var dry [3]bool
	for k := range pace {
		f.left[k] -= (next - level) * pace[k]
		// What rounding leaves over is nothing.
		dry[k] = pace[k] > 0 && f.left[k] <= 1e-9*math.Max(1, pace[k])
	}
	f.rising = slices.DeleteFunc(f.rising, func(r riser) bool {
		d := &f.demands[r.at]
		stuck := r.until <= next*(1+1e-12)
		for k := range dry {
			stuck = stuck || dry[k] && d.wants[k] > 0
		}
		if stuck {
			f.shares[r.at] = min(next*d.weight, r.full*d.most)
		}
		return stuck
	})
	return next
}

// jain is Jain's index: 1 when all are alike, 1/n when one of n has everything.
// Without any it is 1.
func jain(values []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(values)) * squares)
}
