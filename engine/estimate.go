package engine

import (
	"math"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"

	ares "github.com/ares-scheduler/ares"
)

// quantile says by which prediction ends are foreseen.
type quantile uint8

const (
	p50 quantile = iota // as many end before as after
	p90                 // nine of ten end before
	p10                 // one of ten ends before
	quantiles
)

// Times are in nanoseconds since 1970 here: there are many to compare.
const (
	alreadyOver = math.MinInt64 // it may be over now
	noEnd       = math.MaxInt64 // nobody knows when
)

// expectedEnd is when the attempt is foreseen to end, which a seat belongs to. It
// changes by events, and when it has passed and the attempt is still there.
func (e *entry) expectedEnd(a *ares.Attempt, now time.Time, by quantile) int64 {
	if a.Ended() || e.run.Stop != nil {
		return alreadyOver
	}
	half, late := e.runtimeEstimate()
	done := e.done(now)
	if a.StartedAt.IsZero() { // on its way
		done += max(now.Sub(a.PlacedAt), 0)
	}
	if half == forever {
		return noEnd
	}
	var left time.Duration
	switch by {
	case p10:
		if left = e.p10Runtime() - done; left <= 0 {
			return alreadyOver
		}
	case p90:
		left = remainingAfter(late, late, done)
	case p50, quantiles:
		left = remainingAfter(half, late, done)
	}
	return now.Add(left).UnixNano()
}

// isOverdue says whether the job has run for longer than was foreseen.
func (e *entry) isOverdue(now time.Time) bool {
	_, late := e.runtimeEstimate()
	return late <= e.done(now)
}

// p10Runtime is how long the job runs at least, as far as is known: a tenth end
// before, if runtimes scatter as much below the middle as above. A limit says
// nothing of the kind, and neither does a guess.
func (e *entry) p10Runtime() time.Duration {
	f := e.forecast
	if f == nil || f.Samples == 0 || f.P90 <= 0 {
		return 0
	}
	half, late := int64(f.P50/time.Second), int64(max(f.P50, f.P90)/time.Second)
	if late == 0 || half > math.MaxInt32 {
		return 0
	}
	return time.Duration(half*half/late) * time.Second
}

// expectedRuntime is how long a job runs that has not started, by a lens.
func (e *entry) expectedRuntime(by quantile) time.Duration {
	half, late := e.runtimeEstimate()
	switch by {
	case p90:
		return late
	case p10:
		if half != forever {
			return e.p10Runtime()
		}
	case p50, quantiles:
	}
	return half
}

// estimateSource is what the end of a seat was foreseen by.
type estimateSource uint8

const (
	fromForecast estimateSource = iota // runs like it that ended, or it is ending already
	fromLimit                          // the limit its user gave it
	fromGuess                          // nothing like it was ever seen: part of its limit, or of a day
	estimateSources
)

// runtimeSource is what says how long the job runs at most.
func (e *entry) runtimeSource() estimateSource {
	limit := e.job.MaxRuntime()
	switch _, late := e.runtimeEstimate(); {
	case e.forecast != nil && e.forecast.Samples > 0:
		return fromForecast
	case limit > 0 && late >= limit:
		return fromLimit
	}
	return fromGuess
}

// attemptOf is the attempt that a seat is of.
func attemptOf(r *ares.Run, seat *ares.Seat) *ares.Attempt {
	for i := len(r.Attempts) - 1; i > 0; i-- {
		for k := range r.Attempts[i].Seats {
			if &r.Attempts[i].Seats[k].Seat == seat {
				return &r.Attempts[i]
			}
		}
	}
	return &r.Attempts[0]
}

// setForecast takes over how long a job is thought to run, nil when that is taken
// back. One of a job that nobody speaks of is dropped with the batch.
func (j *jobTable) setForecast(job ares.JobID, p *ares.RuntimePredicted) {
	e := j.entry(job)
	j.estimated -= e.estimates()
	e.forecast = p
	j.estimated += e.estimates()
	if e.run != nil { // when it ends is foreseen for its nodes
		for i := range e.run.Attempts {
			for k := range e.run.Attempts[i].Seats {
				if h := &e.run.Attempts[i].Seats[k]; !h.State.Free() {
					j.cluster.MarkDirty(j.cluster.Node(h.Node))
				}
			}
		}
	}
	if !e.changed {
		e.changed = true
		j.changedEntries = append(j.changedEntries, e)
	}
}

// estimates is 1 for a job of which it is known how long it runs.
func (e *entry) estimates() int {
	if e.job != nil && (e.forecast != nil || e.job.MaxRuntimeMinutes > 0) {
		return 1
	}
	return 0
}

// forever stands for a time so far off that nobody waits for it.
const forever = time.Duration(math.MaxInt64)

// runtimeEstimate is how long the job is thought to run in all: as many end before half
// as after, and most before late. Without a forecast the limit its user gave it
// stands for both, and without that either it may run for ever.
func (e *entry) runtimeEstimate() (half, late time.Duration) {
	if f := e.forecast; f != nil {
		return f.P50, max(f.P50, f.P90)
	}
	if limit := e.job.MaxRuntimeMinutes; limit > 0 {
		return time.Duration(limit) * time.Minute, time.Duration(limit) * time.Minute
	}
	return forever, forever
}

// done is how much of its runtime the job has behind it, by now.
func (e *entry) done(now time.Time) time.Duration {
	if e.run == nil {
		return 0
	}
	return e.run.Done(e.job, now)
}

// remaining is how long the job is still thought to run: of a prediction that it has
// outlived already, twice as long as before, and again.
func (e *entry) remaining(now time.Time) (half, late time.Duration) {
	half, late = e.runtimeEstimate()
	done := e.done(now)
	return remainingAfter(half, late, done), remainingAfter(late, late, done)
}

func remainingAfter(want, next, done time.Duration) time.Duration {
	if want <= done {
		want = max(next, time.Second)
	}
	for want <= done {
		want *= 2
	}
	if want == forever {
		return forever
	}
	return want - done
}

// gpuMilli is the devices the job asks for, in thousandths.
func (e *entry) gpuMilli() int64 {
	w := e.shape.request
	return int64(e.shape.members) * int64(max(w.Gpus*cluster.WholeMilli, w.Milli))
}

// expectedStay is how long the job may hold its place, of ten like it nine; never when
// nobody knows. Its limit ends every attempt. A guess from no runs is no
// knowledge: people plan by windows.
func (e *entry) expectedStay(now time.Time) time.Duration {
	limit := e.job.MaxRuntime()
	f := e.forecast
	switch {
	case f != nil && f.Samples > 0:
		late := max(f.P50, f.P90)
		if late = remainingAfter(late, late, e.done(now)); limit > 0 {
			late = min(late, limit)
		}
		return late
	case limit > 0:
		return limit
	}
	return forever
}

// waited is for how long the job has waited, since it was accepted or since it
// last ran.
func (e *entry) waited(now time.Time) time.Duration {
	since := e.job.AcceptedAt
	if e.run != nil {
		if last := e.run.Last(); last != nil {
			since = laterOf(since, last.EndedAt)
		}
	}
	return now.Sub(since)
}

// endsBy is when the job will have ended in nine of ten cases, if it starts now.
func (e *entry) endsBy(now time.Time) int64 {
	if _, late := e.remaining(now); late != forever {
		return now.Add(late).UnixNano()
	}
	return noEnd
}
