package queue

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// past is what was used, by epochs. Every figure is a sum over runs that does
// not depend on their order or on when it was added, and its value at a time
// is a function of these sums alone: whoever saw the same runs has the same.
type past struct {
	ended   []ended   // by epoch
	running []running // by epoch
}

// ended is use times the growth it lasted for, within one epoch.
type ended struct {
	epoch int64
	sum   [3]wide
}

// running is what began in one epoch and has not ended: the use, and the use
// times the growth at its beginning.
type running struct {
	epoch int64
	use   Use
	begun [3]wide
}

func (u Use) parts() [3]int64 { return [3]int64{u.GPU, u.CPU, u.Memory} }

func (p *past) add(epoch int64, use [3]int64, grown uint64, sign int64) {
	var sum [3]wide
	for r := range sum {
		sum[r] = product(sign*use[r], grown)
	}
	p.addSum(epoch, sum)
}

func (p *past) addSum(epoch int64, sum [3]wide) {
	i, ok := slices.BinarySearchFunc(p.ended, epoch, func(e ended, at int64) int { return cmp.Compare(e.epoch, at) })
	if !ok {
		p.ended = slices.Insert(p.ended, i, ended{epoch: epoch})
	}
	e := &p.ended[i]
	for r := range e.sum {
		e.sum[r] = e.sum[r].plus(sum[r])
	}
	if e.sum == ([3]wide{}) {
		p.ended = slices.Delete(p.ended, i, i+1)
	}
}

// ran adds what was used from one moment to another, sign -1 takes it off.
func (p *past) ran(use Use, from, to moment, sign int64) {
	if to.epoch < from.epoch || to.epoch == from.epoch && to.growth <= from.growth {
		return
	}
	parts := use.parts()
	begin := from.growth
	// What lies far behind the end weighs nothing by the time it counts.
	if first := to.epoch - epochsKept; from.epoch < first {
		from.epoch, begin = first, unit
	}
	for e := from.epoch; e < to.epoch; e++ {
		p.add(e, parts, 2*unit-begin, sign)
		begin = unit
	}
	if to.growth > begin {
		p.add(to.epoch, parts, to.growth-begin, sign)
	}
}

// runs adds what has been used since a moment and still is.
func (p *past) runs(use Use, from moment, sign int64) {
	i, ok := slices.BinarySearchFunc(p.running, from.epoch, func(e running, at int64) int { return cmp.Compare(e.epoch, at) })
	if !ok {
		p.running = slices.Insert(p.running, i, running{epoch: from.epoch})
	}
	e := &p.running[i]
	e.use = e.use.Add(use, sign)
	for r, n := range use.parts() {
		e.begun[r] = e.begun[r].plus(product(sign*n, from.growth))
	}
	if e.use == (Use{}) && e.begun == ([3]wide{}) {
		p.running = slices.Delete(p.running, i, i+1)
	}
}

// merge adds everything of another past.
func (p *past) merge(q *past) {
	for _, e := range q.ended {
		p.addSum(e.epoch, e.sum)
	}
	for _, e := range q.running {
		i, ok := slices.BinarySearchFunc(p.running, e.epoch, func(e running, at int64) int { return cmp.Compare(e.epoch, at) })
		if !ok {
			p.running = slices.Insert(p.running, i, running{epoch: e.epoch})
		}
		mine := &p.running[i]
		mine.use = mine.use.Add(e.use, 1)
		for r := range mine.begun {
			mine.begun[r] = mine.begun[r].plus(e.begun[r])
		}
	}
}

// at is the past use at a moment: the average use, weighed by growth.
func (p *past) at(now moment) Use {
	if len(p.ended) == 0 && len(p.running) == 0 {
		return Use{}
	}
	var room [epochsKept + 1][3]wide
	sums := room[:p.oldest(now)+1] // by age in epochs
	for i := range p.ended {
		if age := now.epoch - p.ended[i].epoch; age >= 0 && age < int64(len(sums)) {
			sums[age] = p.ended[i].sum
		}
	}
	p.under(now, sums)
	var total [3]wide
	for age := range sums {
		for r := range total {
			total[r] = total[r].plus(sums[age][r].shifted(uint(age)))
		}
	}
	return Use{total[0].over(now.growth), total[1].over(now.growth), total[2].over(now.growth)}
}

// oldest is the age in epochs of the first that counts.
func (p *past) oldest(now moment) int64 {
	first := now.epoch
	if len(p.ended) > 0 {
		first = min(first, p.ended[0].epoch)
	}
	if len(p.running) > 0 {
		first = min(first, p.running[0].epoch)
	}
	return min(now.epoch-first, epochsKept)
}

// under adds what running jobs have used, as if it had ended at now.
func (p *past) under(now moment, sums [][3]wide) {
	if len(p.running) == 0 {
		return
	}
	var before Use // began in an earlier epoch
	i := 0
	for ; i < len(p.running) && p.running[i].epoch < now.epoch-epochsKept; i++ {
		before = before.Add(p.running[i].use, 1)
	}
	for age := len(sums) - 1; age >= 0; age-- {
		sum, end := &sums[age], uint64(2*unit)
		if age == 0 {
			end = now.growth
		}
		for r, n := range before.parts() {
			sum[r] = sum[r].plus(product(n, end-unit))
		}
		if i < len(p.running) && p.running[i].epoch == now.epoch-int64(age) {
			began := &p.running[i]
			for r, n := range began.use.parts() {
				sum[r] = sum[r].plus(product(n, end)).minus(began.begun[r])
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

// archived puts a record of decayed seconds into the units of past.
func (c Config) archived(u ares.Usage) (int64, [3]wide) {
	at := c.when(u.At)
	half := uint64(max(c.HalfLife.Milliseconds(), 1))
	var sum [3]wide
	for r, secs := range [3]int64{u.GPUMilliSecs, u.CPUSecs, u.MemoryGBSecs * 1024} {
		// secs*1000*ln2/half is the use that lasting for ever would be worth as much.
		average := product(secs, 1000*ln2).over(half)
		sum[r] = product(average, at.growth).shifted(ln2Bits)
	}
	return at.epoch, sum
}

// Ran adds what an ended attempt used from one time to another; sign -1 takes
// it off again.
func (l *Leaf[J]) Ran(use Use, start, end time.Time, sign int) {
	if l.tree.cfg.HalfLife <= 0 {
		return
	}
	from, to := l.tree.cfg.when(start), l.tree.cfg.when(end)
	for n := l.node; n != nil; n = n.parent {
		n.past.ran(use, from, to, int64(sign))
	}
}

// Running adds what an attempt has used since a time and goes on using; sign -1
// takes it off again, with the same start.
func (l *Leaf[J]) Running(use Use, start time.Time, sign int) {
	if l.tree.cfg.HalfLife <= 0 {
		return
	}
	from := l.tree.cfg.when(start)
	for n := l.node; n != nil; n = n.parent {
		n.past.runs(use, from, int64(sign))
	}
}

// Archived sets what the archived jobs of the queue have used, in place of what
// was set before.
func (l *Leaf[J]) Archived(u ares.Usage) {
	if l.tree.cfg.HalfLife <= 0 {
		return
	}
	epoch, sum := l.tree.cfg.archived(u)
	old := l.archive
	l.archive = ended{epoch, sum}
	for r := range old.sum {
		old.sum[r] = old.sum[r].negated()
	}
	for n := l.node; n != nil; n = n.parent {
		n.past.addSum(old.epoch, old.sum)
		n.past.addSum(epoch, sum)
	}
}
