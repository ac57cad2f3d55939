package history

import (
	"cmp"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Kind is what a price depends on.
type Kind struct {
	Model  string // of the devices, as their node says
	Region string // of the node, "" when it is in none
}

// Part is what a job has used on one day, in UTC, of devices of one kind.
type Part struct {
	Day string // 2026-01-31
	Kind
	// GPUMilliseconds is the time that devices were held, from the placement of an
	// attempt to its end; a share of a device counts as that part of one.
	GPUMilliseconds int64
	Jobs            int // 1 on the day the job ended, else 0
}

// Kinds says what a device of a node is.
type Kinds func(node, device string) Kind

// Parts works out what a job has used by now from its run alone, by day and
// kind. It is the same whenever it is asked for a run that has ended. An array's
// own run uses nothing: its elements do.
//
// Of attempts that the run no longer keeps only their length is known: they
// count with what was asked for, on the day of the first attempt that is kept.
func Parts(job *ares.Job, run *ares.Run, kinds Kinds, now time.Time) []Part {
	if job.IsArray() {
		return nil
	}
	sums := map[Part]int64{} // thousandths of devices times milliseconds
	last := Kind{}
	for i := range run.Attempts {
		a := &run.Attempts[i]
		end := a.EndedAt
		if !a.Ended() {
			end = now
		}
		held := map[Kind]int64{}
		for s := range a.Seats {
			for d, sh := range a.Seats[s].Shares {
				k := kinds(a.Seats[s].Node, sh.Device)
				if k.Model == "" { // its node is gone
					k.Model = job.GPUModel
				}
				if s == 0 && d == 0 {
					last = k
				}
				held[k] += int64(sh.Milli)
			}
		}
		for k, milli := range held {
			spread(a.PlacedAt, end, func(day string, ms int64) { sums[Part{Day: day, Kind: k}] += milli * ms })
		}
	}
	if run.Ran > 0 {
		day := job.AcceptedAt
		if len(run.Attempts) > 0 {
			day = run.Attempts[0].PlacedAt
		}
		asked := job.Asks()
		k := Part{Day: dayOf(day), Kind: Kind{Model: job.GPUModel, Region: last.Region}}
		sums[k] += int64(asked.GPUs*1000+asked.GPUMilli) * run.Ran.Milliseconds()
	}
	return ordered(sums, run, last)
}

// ordered makes a list of the sums, with the job's end counted.
func ordered(sums map[Part]int64, run *ares.Run, last Kind) []Part {
	if run.Phase.Final() {
		sums[Part{Day: dayOf(run.FinishedAt), Kind: last}] += 0
	}
	out := make([]Part, 0, len(sums))
	for p, sum := range sums {
		p.GPUMilliseconds = (sum + 500) / 1000
		if run.Phase.Final() && p.Kind == last && p.Day == dayOf(run.FinishedAt) {
			p.Jobs = 1
		}
		if p.GPUMilliseconds > 0 || p.Jobs > 0 {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Part) int {
		return cmp.Or(strings.Compare(a.Day, b.Day), strings.Compare(a.Model, b.Model), strings.Compare(a.Region, b.Region))
	})
	return out
}

// spread calls fn with the milliseconds of each day, in UTC, from one time to
// another.
func spread(from, to time.Time, fn func(day string, ms int64)) {
	if from.IsZero() {
		return
	}
	from, to = from.UTC(), to.UTC()
	for from.Before(to) {
		year, month, day := from.Date()
		end := time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		if to.Before(end) {
			end = to
		}
		fn(dayOf(from), end.Sub(from).Milliseconds())
		from = end
	}
}

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }
