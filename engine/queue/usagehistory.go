package queue

import (
	"cmp"
	"slices"
)

// usageHistory stores past usage as sums by epoch. Each value is a sum over attempts. It depends neither on the
// order of the attempts nor on the time at which they were added. The past usage at a given time depends only
// on these sums. So adding the same attempts in any order always gives exactly the same past usage.
//
// Invariant: the lists `ended` and `running` are sorted by epoch. They contain neither duplicates nor entries
// that are all 0.
type usageHistory struct {
	ended   []endedUsage
	running []runningUsage
}

// endedUsage is the usage of ended attempts within one epoch.
type endedUsage struct {
	epoch int64
	sum   [3]int128 // use times the growth over its duration
}

// runningUsage is the usage that began in one epoch and has not ended yet.
type runningUsage struct {
	epoch    int64
	use      Resources
	startSum [3]int128 // use times the growth at its start
}

// addGrown adds usage within one epoch. The argument named `grown` is the growth at the end of the usage
// minus the growth at its start.
func (h *usageHistory) addGrown(epoch int64, use [3]int64, grown uint64, sign int64) {
	var sum [3]int128
	for r := range sum {
		sum[r] = multiply(sign*use[r], grown)
	}
	h.addSum(epoch, sum)
}

// addSum adds an amount to the sum of an epoch.
func (h *usageHistory) addSum(epoch int64, sum [3]int128) {
	i, ok := slices.BinarySearchFunc(h.ended, epoch, func(e endedUsage, at int64) int { return cmp.Compare(e.epoch, at) })
	if !ok {
		h.ended = slices.Insert(h.ended, i, endedUsage{epoch: epoch})
	}
	e := &h.ended[i]
	for r := range e.sum {
		e.sum[r] = e.sum[r].plus(sum[r])
	}
	if e.sum == ([3]int128{}) {
		h.ended = slices.Delete(h.ended, i, i+1)
	}
}

// addEnded adds the usage between two moments if `sign` is 1. It subtracts the usage if `sign` is -1.
func (h *usageHistory) addEnded(use Resources, from, to moment, sign int64) {
	if to.epoch < from.epoch || to.epoch == from.epoch && to.growth <= from.growth {
		return
	}
	parts := use.vector()
	begin := from.growth
	// Usage does not count if it was more than epochsKept epochs before the end of the attempt.
	if first := to.epoch - epochsKept; from.epoch < first {
		from.epoch, begin = first, growthUnit
	}
	for e := from.epoch; e < to.epoch; e++ {
		h.addGrown(e, parts, 2*growthUnit-begin, sign)
		begin = growthUnit
	}
	if to.growth > begin {
		h.addGrown(to.epoch, parts, to.growth-begin, sign)
	}
}

// If `sign` is 1, addRunning adds usage that has not ended yet. If `sign` is -1, addRunning subtracts this
// usage.
func (h *usageHistory) addRunning(use Resources, from moment, sign int64) {
	i, ok := slices.BinarySearchFunc(h.running, from.epoch, func(e runningUsage, at int64) int { return cmp.Compare(e.epoch, at) })
	if !ok {
		h.running = slices.Insert(h.running, i, runningUsage{epoch: from.epoch})
	}
	e := &h.running[i]
	e.use = e.use.Add(use, sign)
	for r, n := range use.vector() {
		e.startSum[r] = e.startSum[r].plus(multiply(sign*n, from.growth))
	}
	if e.use == (Resources{}) && e.startSum == ([3]int128{}) {
		h.running = slices.Delete(h.running, i, i+1)
	}
}

// The method `merge` adds all sums of another history.
func (h *usageHistory) merge(other *usageHistory) {
	for _, e := range other.ended {
		h.addSum(e.epoch, e.sum)
	}
	for _, e := range other.running {
		i, ok := slices.BinarySearchFunc(h.running, e.epoch, func(e runningUsage, at int64) int { return cmp.Compare(e.epoch, at) })
		if !ok {
			h.running = slices.Insert(h.running, i, runningUsage{epoch: e.epoch})
		}
		mine := &h.running[i]
		mine.use = mine.use.Add(e.use, 1)
		for r := range mine.startSum {
			mine.startSum[r] = mine.startSum[r].plus(e.startSum[r])
		}
	}
}

// averageAt returns the past usage at a moment. This is the average usage, weighted by growth.
func (h *usageHistory) averageAt(now moment) Resources {
	if len(h.ended) == 0 && len(h.running) == 0 {
		return Resources{}
	}
	var buffer [epochsKept + 1][3]int128
	sums := buffer[:h.oldestAge(now)+1] // by age in epochs
	for i := range h.ended {
		if age := now.epoch - h.ended[i].epoch; age >= 0 && age < int64(len(sums)) {
			sums[age] = h.ended[i].sum
		}
	}
	h.addRunningSums(now, sums)
	var total [3]int128
	for age := range sums {
		for r := range total {
			total[r] = total[r].plus(sums[age][r].shiftRight(uint(age)))
		}
	}
	return Resources{total[0].divFloor(now.growth), total[1].divFloor(now.growth), total[2].divFloor(now.growth)}
}

// oldestAge returns the age, in epochs, of the oldest epoch that counts.
func (h *usageHistory) oldestAge(now moment) int64 {
	first := now.epoch
	if len(h.ended) > 0 {
		first = min(first, h.ended[0].epoch)
	}
	if len(h.running) > 0 {
		first = min(first, h.running[0].epoch)
	}
	return min(now.epoch-first, epochsKept)
}

// addRunningSums adds to the sums the amounts that running jobs have used until now. The sums are indexed by
// age in epochs.
func (h *usageHistory) addRunningSums(now moment, sums [][3]int128) {
	if len(h.running) == 0 {
		return
	}
	var before Resources // usage of runs that began in an earlier epoch
	i := 0
	for ; i < len(h.running) && h.running[i].epoch < now.epoch-epochsKept; i++ {
		before = before.Add(h.running[i].use, 1)
	}
	for age := len(sums) - 1; age >= 0; age-- {
		sum, end := &sums[age], uint64(2*growthUnit)
		if age == 0 {
			end = now.growth
		}
		for r, n := range before.vector() {
			sum[r] = sum[r].plus(multiply(n, end-growthUnit))
		}
		if i < len(h.running) && h.running[i].epoch == now.epoch-int64(age) {
			began := &h.running[i]
			for r, n := range began.use.vector() {
				sum[r] = sum[r].plus(multiply(n, end)).minus(began.startSum[r])
			}
			before = before.Add(began.use, 1)
			i++
		}
	}
}
