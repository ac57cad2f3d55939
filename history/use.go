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
// Parts always returns the same result. An array's own run has no usage, because the usage of its elements is counted instead. At a
// hub, which has no elements, an array that has ended has the usage of all of them.
//
// The oldest attempts of a run may have been dropped from its record. Only their usage in each month is then known. Parts counts it on
// the first day of that usage in the month, and assumes devices of the same kind as in the latest attempt. So a month's sum
// does not change when an attempt is dropped, and the bills of all months add up to the job's usage.
func Parts(job *ares.Job, run *ares.Run, kinds Kinds, now time.Time) []Part {
	if job.IsArray() && run.Cluster == "" {
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
	addDropped(sums, job, run, Kind{Model: cmp.Or(last.Model, job.GPUModel), Region: last.Region})
	return ordered(sums, run, last)
}

// addDropped adds the usage of dropped attempts. Earlier versions recorded only the runtime of dropped attempts, without its months.
// Such usage is counted with the requested devices on the day of acceptance. That day is never in a later month than the usage, so no
// usage is billed a second time.
func addDropped(sums map[Part]int64, job *ares.Job, run *ares.Run, k Kind) {
	rest := run.Ran
	for _, u := range run.DroppedUsage {
		sums[Part{Day: dayOf(u.First), Kind: k}] += u.GPUMilli
		rest -= u.Ran
	}
	if rest > 0 {
		asked := job.Asks()
		sums[Part{Day: dayOf(job.AcceptedAt), Kind: k}] += int64(asked.GPUs*1000+asked.GPUMilli) * rest.Milliseconds()
	}
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
