package queue

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Run is what one ended attempt of an archived job used.
type Run struct {
	Use        Use
	GPUMilli   int64 // held, without the weight of the model: for the budget
	Start, End time.Time
}

// Fold brings a record of past use to a time, adds runs to it, and returns it.
// A time before the record's own counts as the record's. Its month becomes that
// of the time, in UTC, and counts what of the runs lies in it.
func Fold(u ares.Usage, runs []Run, halfLife time.Duration, at time.Time) ares.Usage {
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

// decay is what an amount of one moment is worth at a later one.
func decay(amount int64, then, now moment) int64 {
	age := now.epoch - then.epoch
	if age < 0 {
		return amount
	}
	if age > epochsKept {
		return 0
	}
	return multiply(amount, then.growth).shiftRight(uint(age)).divRound(now.growth)
}

// decayedSeconds is what a run used by the second, decayed to now. The memory is in
// GB, as records have it.
func (c Config) decayedSeconds(run Run, now moment) [3]int64 {
	var p usageHistory
	p.addEnded(run.Use, c.momentOf(run.Start), c.momentOf(run.End), 1)
	var sums [3]int128
	for _, e := range p.ended {
		if age := now.epoch - e.epoch; age >= 0 && age <= epochsKept {
			for r := range sums {
				sums[r] = sums[r].plus(e.sum[r].shiftRight(uint(age)))
			}
		}
	}
	// An average use of n is worth n*half/ln2 seconds. The average has to have
	// binary digits of its own: a short run is a small part of a unit.
	const digits = 20
	var out [3]int64
	for r, unit := range [3]uint64{1000, 1000, 1000 * 1024} {
		average := sums[r].divFloor(now.growth >> digits)
		half := uint64(c.HalfLife.Milliseconds()) << (ln2Bits - digits)
		out[r] = multiply(average, half).divRound(ln2 * unit)
	}
	return out
}
