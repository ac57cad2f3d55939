package queue

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// usageHistory is what was used, by epochs. Every figure is a sum over runs that does
// not depend on their order or on when it was added, and its value at a time
// is a function of these sums alone: whoever saw the same runs has the same.
type usageHistory struct {
	ended   []endedUsage   // by epoch
	running []runningUsage // by epoch
}

// endedUsage is use times the growth it lasted for, within one epoch.
type endedUsage struct {
	epoch int64
	sum   [3]int128
}

// runningUsage is what began in one epoch and has not ended: the use, and the use
// times the growth at its beginning.
type runningUsage struct {
	epoch    int64
	use      Use
	startSum [3]int128
}

func (u Use) vector() [3]int64 { return [3]int64{u.GPU, u.CPU, u.Memory} }

func (p *usageHistory) addGrown(epoch int64, use [3]int64, grown uint64, sign int64) {
	var sum [3]int128
	for r := range sum {
		sum[r] = multiply(sign*use[r], grown)
	}
	p.addSum(epoch, sum)
}

func (p *usageHistory) addSum(epoch int64, sum [3]int128) {
	i, ok := slices.BinarySearchFunc(p.ended, epoch, func(e endedUsage, at int64) int { return cmp.Compare(e.epoch, at) })
	if !ok {
		p.ended = slices.Insert(p.ended, i, endedUsage{epoch: epoch})
	}
	e := &p.ended[i]
	for r := range e.sum {
		e.sum[r] = e.sum[r].plus(sum[r])
	}
	if e.sum == ([3]int128{}) {
		p.ended = slices.Delete(p.ended, i, i+1)
	}
}

// addEnded adds what was used from one moment to another, sign -1 takes it off.
func (p *usageHistory) addEnded(use Use, from, to moment, sign int64) {
	if to.epoch < from.epoch || to.epoch == from.epoch && to.growth <= from.growth {
		return
	}
	parts := use.vector()
	begin := from.growth
	// What lies far behind the end weighs nothing by the time it counts.
	if first := to.epoch - epochsKept; from.epoch < first {
		from.epoch, begin = first, growthUnit
	}
	for e := from.epoch; e < to.epoch; e++ {
		p.addGrown(e, parts, 2*growthUnit-begin, sign)
		begin = growthUnit
	}
	if to.growth > begin {
		p.addGrown(to.epoch, parts, to.growth-begin, sign)
	}
}

// addRunning adds what has been used since a moment and still is.
func (p *usageHistory) addRunning(use Use, from moment, sign int64) {
	i, ok := slices.BinarySearchFunc(p.running, from.epoch, func(e runningUsage, at int64) int { return cmp.Compare(e.epoch, at) })
	if !ok {
		p.running = slices.Insert(p.running, i, runningUsage{epoch: from.epoch})
	}
	e := &p.running[i]
	e.use = e.use.Add(use, sign)
	for r, n := range use.vector() {
		e.startSum[r] = e.startSum[r].plus(multiply(sign*n, from.growth))
	}
	if e.use == (Use{}) && e.startSum == ([3]int128{}) {
		p.running = slices.Delete(p.running, i, i+1)
	}
}

// merge adds everything of another past.
func (p *usageHistory) merge(q *usageHistory) {
	for _, e := range q.ended {
		p.addSum(e.epoch, e.sum)
	}
	for _, e := range q.running {
		i, ok := slices.BinarySearchFunc(p.running, e.epoch, func(e runningUsage, at int64) int { return cmp.Compare(e.epoch, at) })
		if !ok {
			p.running = slices.Insert(p.running, i, runningUsage{epoch: e.epoch})
		}
		mine := &p.running[i]
		mine.use = mine.use.Add(e.use, 1)
		for r := range mine.startSum {
			mine.startSum[r] = mine.startSum[r].plus(e.startSum[r])
		}
	}
}

// averageAt is the past use at a moment: the average use, weighed by growth.
func (p *usageHistory) averageAt(now moment) Use {
	if len(p.ended) == 0 && len(p.running) == 0 {
		return Use{}
	}
	var room [epochsKept + 1][3]int128
	sums := room[:p.oldestAge(now)+1] // by age in epochs
	for i := range p.ended {
		if age := now.epoch - p.ended[i].epoch; age >= 0 && age < int64(len(sums)) {
			sums[age] = p.ended[i].sum
		}
	}
	p.addRunningSums(now, sums)
	var total [3]int128
	for age := range sums {
		for r := range total {
			total[r] = total[r].plus(sums[age][r].shiftRight(uint(age)))
		}
	}
	return Use{total[0].divFloor(now.growth), total[1].divFloor(now.growth), total[2].divFloor(now.growth)}
}

// oldestAge is the age in epochs of the first that counts.
func (p *usageHistory) oldestAge(now moment) int64 {
	first := now.epoch
	if len(p.ended) > 0 {
		first = min(first, p.ended[0].epoch)
	}
	if len(p.running) > 0 {
		first = min(first, p.running[0].epoch)
	}
	return min(now.epoch-first, epochsKept)
}

// addRunningSums adds what running jobs have used, as if it had ended at now.
func (p *usageHistory) addRunningSums(now moment, sums [][3]int128) {
	if len(p.running) == 0 {
		return
	}
	var before Use // began in an earlier epoch
	i := 0
	for ; i < len(p.running) && p.running[i].epoch < now.epoch-epochsKept; i++ {
		before = before.Add(p.running[i].use, 1)
	}
	for age := len(sums) - 1; age >= 0; age-- {
		sum, end := &sums[age], uint64(2*growthUnit)
		if age == 0 {
			end = now.growth
		}
		for r, n := range before.vector() {
			sum[r] = sum[r].plus(multiply(n, end-growthUnit))
		}
		if i < len(p.running) && p.running[i].epoch == now.epoch-int64(age) {
			began := &p.running[i]
			for r, n := range began.use.vector() {
				sum[r] = sum[r].plus(multiply(n, end)).minus(began.startSum[r])
			}
			before = before.Add(began.use, 1)
			i++
		}
	}
}

// ln2 is the natural logarithm of 2, times 2^ln2Bits. Use for a second counts
// ln2 of a second per half-life.
const (
	ln2Bits = 24
	ln2     = 11_629_080
)

// fromArchive puts a record of decayed seconds into the units of past.
func (c Config) fromArchive(u ares.Usage) (int64, [3]int128) {
	at := c.momentOf(u.At)
	half := uint64(max(c.HalfLife.Milliseconds(), 1))
	var sum [3]int128
	for r, secs := range [3]int64{u.GPUMilliSecs, u.CPUSecs, u.MemoryGBSecs * 1024} {
		// secs*1000*ln2/half is the use that lasting for ever would be worth as much.
		average := multiply(secs, 1000*ln2).divFloor(half)
		sum[r] = multiply(average, at.growth).shiftRight(ln2Bits)
	}
	return at.epoch, sum
}

// Ran adds what an ended attempt used from one time to another; sign -1 takes
// it off again.
func (l *Leaf[J]) Ran(use Use, start, end time.Time, sign int) {
	if l.tree.cfg.HalfLife <= 0 {
		return
	}
	from, to := l.tree.cfg.momentOf(start), l.tree.cfg.momentOf(end)
	for n := l.node; n != nil; n = n.parent {
		n.history.addEnded(use, from, to, int64(sign))
	}
}

// Running adds what an attempt has used since a time and goes on using; sign -1
// takes it off again, with the same start.
func (l *Leaf[J]) Running(use Use, start time.Time, sign int) {
	if l.tree.cfg.HalfLife <= 0 {
		return
	}
	from := l.tree.cfg.momentOf(start)
	for n := l.node; n != nil; n = n.parent {
		n.history.addRunning(use, from, int64(sign))
	}
}

// Archived sets what the archived jobs of the queue have used, in place of what
// was set before.
func (l *Leaf[J]) Archived(u ares.Usage) {
	if l.tree.cfg.HalfLife <= 0 {
		return
	}
	epoch, sum := l.tree.cfg.fromArchive(u)
	old := l.archived
	l.archived = endedUsage{epoch, sum}
	for r := range old.sum {
		old.sum[r] = old.sum[r].negated()
	}
	for n := l.node; n != nil; n = n.parent {
		n.history.addSum(old.epoch, old.sum)
		n.history.addSum(epoch, sum)
	}
}
