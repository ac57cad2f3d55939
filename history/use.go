package history

import (
	"cmp"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Kind is a kind of device. A price per GPU hour applies to devices of one kind.
type Kind struct {
	Model  string // model of the devices, as their node reports it
	Region string // region of the node, "" if it has none
}

// Part is the time for which a job used devices of one kind on one day in UTC.
type Part struct {
	Day string // 2026-01-31
	Kind
	// GPUMilliseconds is the time for which devices were allocated, from the placement of an attempt to its end. If a job
	// uses only a part of a device, only that part counts.
	GPUMilliseconds int64
	Jobs            int // 1 on the day the job ended, else 0
}

// Kinds is a function that returns the kind of a node's device.
type Kinds func(node, device string) Kind

// Parts computes a job's usage until now, by day and kind of device. Parts reads only the job and its run. For a run that has ended,
// Parts always returns the same result. An array's own run has no usage, because the usage of its elements is counted instead.
//
// The oldest attempts of a run may have been dropped from its record. Only their total duration is then known.
// Parts assumes that dropped attempts used the requested devices. Parts counts these attempts on the day of the
// oldest attempt that is still recorded.
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
				if k.Model == "" { // its node was removed
					k.Model = job.GPUModel
				}
				if s == 0 && d == 0 {
					last = k
				}
				held[k] += int64(sh.Milli)
			}
		}
		for k, milli := range held {
			splitByDay(a.PlacedAt, end, func(day string, ms int64) { sums[Part{Day: day, Kind: k}] += milli * ms })
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

// This function sorts the parts by day, model and region. If the job has ended, it is counted in
// the Part for the day of its end.
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

// splitByDay splits the time between two moments by day in UTC. For each day, it calls the function `fn` with the
// milliseconds on that day.
func splitByDay(from, to time.Time, fn func(day string, ms int64)) {
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
