package queue

import (
	"time"

	"github.com/ares-scheduler/ares"
)

// AttemptUse is the resource usage of one ended attempt of an archived job.
type AttemptUse struct {
	Resources  Resources
	GPUMilli   int64 // GPUs in thousandths, without the weight of the model; used for the budget
	Start, End time.Time
}

// ArchiveUse decays an archived usage record to a given time and adds the usage of ended attempts. It returns the new
// record. If the given time is before the record's time, ArchiveUse uses the record's time. The record's month
// becomes the month of the given time, in UTC. Only the part of each attempt that lies in that month counts as usage
// of the month.
func ArchiveUse(u ares.Usage, runs []AttemptUse, halfLife time.Duration, at time.Time) ares.Usage {
	if at.Before(u.At) {
		at = u.At
	}
	cfg := Config{HalfLife: halfLife}
	sums := [3]int64{u.GPUMilliSecs, u.CPUSecs, u.MemoryGBSecs}
	if halfLife > 0 {
		now := cfg.momentOf(at)
		if !u.At.IsZero() {
			for r := range sums {
				sums[r] = decay(sums[r], cfg.momentOf(u.At), now)
			}
		}
		for _, run := range runs {
			for r, secs := range cfg.decayedSeconds(run, now) {
				sums[r] += secs
			}
		}
	} else {
		sums = [3]int64{}
	}
	u.At, u.GPUMilliSecs, u.CPUSecs, u.MemoryGBSecs = at, sums[0], sums[1], sums[2]
	begin := time.Date(at.UTC().Year(), at.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	if month := begin.Format("2006-01"); u.Month != month {
		u.Month, u.GPUSecs = month, 0
	}
	for _, run := range runs {
		from := run.Start
		if from.Before(begin) {
			from = begin
		}
		if held := run.End.Sub(from).Milliseconds(); held > 0 {
			u.GPUSecs += (run.GPUMilli*held + 500_000) / 1_000_000
		}
	}
	return u
}

// decayedSeconds returns the resource usage of an attempt in resource-seconds, decayed to the time `now`. Memory is
// in GB, as in the usage records.
func (c Config) decayedSeconds(run AttemptUse, now moment) [3]int64 {
	var p usageHistory
	p.addEnded(run.Resources, c.momentOf(run.Start), c.momentOf(run.End), 1)
	var sums [3]int128
	for _, e := range p.ended {
		if age := now.epoch - e.epoch; age >= 0 && age <= epochsKept {
			for r := range sums {
				sums[r] = sums[r].plus(e.sum[r].shiftRight(uint(age)))
			}
		}
	}
	// An average usage of n corresponds to n*half/ln2 resource-seconds. The average is computed with extra binary
	// digits, because the average usage of a short attempt is far below 1.
	const digits = 20
	var out [3]int64
	for r, unit := range [3]uint64{1000, 1000, 1000 * 1024} {
		average := sums[r].divFloor(now.growth >> digits)
		half := uint64(c.HalfLife.Milliseconds()) << (ln2Bits - digits)
		out[r] = multiply(average, half).divRound(ln2 * unit)
	}
	return out
}

// ln2 is the natural logarithm of 2, multiplied by 2^ln2Bits. If an amount n is used for a short time t,
// the past usage grows by n*ln2*t/HalfLife.
const (
	ln2Bits = 24
	ln2     = 11_629_080
)

// fromArchive converts a record of decayed resource-seconds. The results are the epoch of the record's
// time, and the sum of past usage in that epoch.
func (c Config) fromArchive(u ares.Usage) (int64, [3]int128) {
	at := c.momentOf(u.At)
	half := uint64(max(c.HalfLife.Milliseconds(), 1))
	var sum [3]int128
	for r, secs := range [3]int64{u.GPUMilliSecs, u.CPUSecs, u.MemoryGBSecs * 1024} {
		// A constant usage of secs*1000*ln2/half would give the same past usage.
		average := multiply(secs, 1000*ln2).divFloor(half)
		sum[r] = multiply(average, at.growth).shiftRight(ln2Bits)
	}
	return at.epoch, sum
}

// SetArchived sets the past usage of the queue's archived jobs. SetArchived replaces the previous value.
func (l *LeafQueue[J]) SetArchived(u ares.Usage) {
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
