package sim

import (
	"cmp"
	"math"
	"slices"
)

// A `demand` is the amount of resources that a tenant could use if it had the whole cluster for itself.
type demand struct {
	wanted      resources
	weight      float64
	maxFraction float64 // the fraction of the demand that its limits allow, at most 1
}

// progressiveFilling returns the fair dominant share of each tenant. The weighted dominant shares of all tenants rise
// at the same rate. A tenant's share stops rising when the tenant's demand is met, its limit is reached, or a resource
// that it needs is exhausted. Jobs are assumed to be divisible and to run anywhere. The result is therefore an upper
// bound for comparison, not a schedule.
func progressiveFilling(demands []demand, capacity resources) []float64 {
	f := fillState{shares: make([]float64, len(demands)), demands: demands}
	for i, d := range demands {
		if full := dominant(d.wanted, capacity); full > 0 && d.maxFraction > 0 && d.weight > 0 {
			f.rising = append(f.rising, risingTenant{index: i, fullShare: full, stopLevel: full * d.maxFraction / d.weight})
		}
	}
	slices.SortFunc(f.rising, func(a, b risingTenant) int {
		return cmp.Or(cmp.Compare(a.stopLevel, b.stopLevel), cmp.Compare(a.index, b.index))
	})
	for r := range f.left {
		f.left[r] = float64(capacity[r])
	}
	level := 0.0
	for len(f.rising) > 0 {
		level = f.raise(level)
	}
	return f.shares
}

// fillState is the state of a progressive filling that has not ended yet.
type fillState struct {
	demands []demand
	shares  []float64
	rising  []risingTenant // sorted by stopLevel
	left    [3]float64
}

// risingTenant is a tenant whose share still rises.
type risingTenant struct {
	index     int
	fullShare float64 // dominant share of its whole demand
	stopLevel float64 // weighted share at which its demand is met
}

// This method returns how much of each resource a tenant gets when its weighted share rises by one unit.
func (f *fillState) rate(r risingTenant) (by [3]float64) {
	d := &f.demands[r.index]
	for k := range by {
		by[k] = float64(d.wanted[k]) * d.weight / r.fullShare
	}
	return by
}

// This method increases the weighted share of all rising tenants until one of them has
// enough or a resource is exhausted. Then the method removes the tenants whose share cannot
// rise further.
func (f *fillState) raise(level float64) float64 {
	var pace [3]float64
	for _, r := range f.rising {
		for k, v := range f.rate(r) {
			pace[k] += v
		}
	}
	next := f.rising[0].stopLevel
	for k := range pace {
		if pace[k] > 0 {
			next = min(next, level+max(f.left[k], 0)/pace[k])
		}
	}
	var dry [3]bool
	for k := range pace {
		f.left[k] -= (next - level) * pace[k]
		// Treat a remainder below this threshold as a rounding error.
		dry[k] = pace[k] > 0 && f.left[k] <= 1e-9*math.Max(1, pace[k])
	}
	f.rising = slices.DeleteFunc(f.rising, func(r risingTenant) bool {
		d := &f.demands[r.index]
		stuck := r.stopLevel <= next*(1+1e-12)
		for k := range dry {
			stuck = stuck || dry[k] && d.wanted[k] > 0
		}
		if stuck {
			f.shares[r.index] = min(next*d.weight, r.fullShare*d.maxFraction)
		}
		return stuck
	})
	return next
}

// The function `jain` returns Jain's index. Jain's index is 1 if all values are equal or there are no values. It is
// 1/n if only one of n values is not 0.
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
