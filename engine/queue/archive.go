package queue

import (
	"time"

	"github.com/ares-scheduler/ares"
)

// AttemptUse is the use of one ended attempt of an archived job.
type AttemptUse struct {
	Resources  Resources
	GPUMilli   int64 // GPUs in thousandths, without the weight of the model: for the budget
	Start, End time.Time
}

// ArchiveUse decays an archived record of past use to a time, adds runs to it, and
// returns it. A time before that of the record counts as the record's. The month of
// the record becomes the month of the time, in UTC, and counts the part of the runs
// that lies in it.
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

// decayedSeconds returns the resource-seconds of a run, decayed to now. Memory is
// in GB, as in the records.
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
	// An average use of n is worth n*half/ln2 seconds. The average gets extra binary
	// digits, because a short run is a small fraction of a unit.
	const digits = 20
	var out [3]int64
	for r, unit := range [3]uint64{1000, 1000, 1000 * 1024} {
		average := sums[r].divFloor(now.growth >> digits)
		half := uint64(c.HalfLife.Milliseconds()) << (ln2Bits - digits)
		out[r] = multiply(average, half).divRound(ln2 * unit)
	}
	return out
}

// ln2 is the natural logarithm of 2, times 2^ln2Bits. Use that lasts for a short
// time t adds ln2*t/HalfLife of itself to past use.
const (
	ln2Bits = 24
	ln2     = 11_629_080
)

// fromArchive converts a record of decayed seconds to the sum of an epoch.
func (c Config) fromArchive(u ares.Usage) (int64, [3]int128) {
	at := c.momentOf(u.At)
	half := uint64(max(c.HalfLife.Milliseconds(), 1))
	var sum [3]int128
	for r, secs := range [3]int64{u.GPUMilliSecs, u.CPUSecs, u.MemoryGBSecs * 1024} {
		// secs*1000*ln2/half is the constant use that would give the same past use.
		average := multiply(secs, 1000*ln2).divFloor(half)
		sum[r] = multiply(average, at.growth).shiftRight(ln2Bits)
	}
	return at.epoch, sum
}

// SetArchived sets the past use of the archived jobs of the queue. It replaces what
// was set before.
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
