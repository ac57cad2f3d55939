package job

import (
	"math"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"

	ares "github.com/ares-scheduler/ares"
)

// Quantile says by which prediction ends are foreseen.
type Quantile uint8

const (
	P50 Quantile = iota // as many end before as after
	P90                 // nine of ten end before
	P10                 // one of ten ends before
	Quantiles
)

// Times are in nanoseconds since 1970 here: there are many to compare.
const (
	AlreadyOver = math.MinInt64 // it may be over now
	NoEnd       = math.MaxInt64 // nobody knows when
)

// ExpectedEnd is when the attempt is foreseen to end, which a seat belongs to. It
// changes by events, and when it has passed and the attempt is still there.
func (e *Entry) ExpectedEnd(a *ares.Attempt, now time.Time, by Quantile) int64 {
	if a.Ended() || e.Run.Stop != nil {
		return AlreadyOver
	}
	half, late := e.RuntimeEstimate()
	done := e.Done(now)
	if a.StartedAt.IsZero() { // on its way
		done += max(now.Sub(a.PlacedAt), 0)
	}
	if half == Forever {
		return NoEnd
	}
	var left time.Duration
	switch by {
	case P10:
		if left = e.p10Runtime() - done; left <= 0 {
			return AlreadyOver
		}
	case P90:
		left = remainingAfter(late, late, done)
	case P50, Quantiles:
		left = remainingAfter(half, late, done)
	}
	return now.Add(left).UnixNano()
}

// IsOverdue says whether the job has run for longer than was foreseen.
func (e *Entry) IsOverdue(now time.Time) bool {
	_, late := e.RuntimeEstimate()
	return late <= e.Done(now)
}

// p10Runtime is how long the job runs at least, as far as is known: a tenth end
// before, if runtimes scatter as much below the middle as above. A limit says
// nothing of the kind, and neither does a guess.
func (e *Entry) p10Runtime() time.Duration {
	f := e.Forecast
	if f == nil || f.Samples == 0 || f.P90 <= 0 {
		return 0
	}
	half, late := int64(f.P50/time.Second), int64(max(f.P50, f.P90)/time.Second)
	if late == 0 || half > math.MaxInt32 {
		return 0
	}
	return time.Duration(half*half/late) * time.Second
}

// ExpectedRuntime is how long a job runs that has not started, by a lens.
func (e *Entry) ExpectedRuntime(by Quantile) time.Duration {
	half, late := e.RuntimeEstimate()
	switch by {
	case P90:
		return late
	case P10:
		if half != Forever {
			return e.p10Runtime()
		}
	case P50, Quantiles:
	}
	return half
}

// EstimateSource is what the end of a seat was foreseen by.
type EstimateSource uint8

const (
	FromForecast EstimateSource = iota // runs like it that ended, or it is ending already
	FromLimit                          // the limit its user gave it
	FromGuess                          // nothing like it was ever seen: part of its limit, or of a day
	EstimateSources
)

// RuntimeSource is what says how long the job runs at most.
func (e *Entry) RuntimeSource() EstimateSource {
	limit := e.Job.MaxRuntime()
	switch _, late := e.RuntimeEstimate(); {
	case e.Forecast != nil && e.Forecast.Samples > 0:
		return FromForecast
	case limit > 0 && late >= limit:
		return FromLimit
	}
	return FromGuess
}

// AttemptOf is the attempt that a seat is of.
func AttemptOf(r *ares.Run, seat *ares.Seat) *ares.Attempt {
	for i := len(r.Attempts) - 1; i > 0; i-- {
		for k := range r.Attempts[i].Seats {
			if &r.Attempts[i].Seats[k].Seat == seat {
				return &r.Attempts[i]
			}
		}
	}
	return &r.Attempts[0]
}

// SetForecast takes over how long a job is thought to run, nil when that is taken
// back. One of a job that nobody speaks of is dropped with the batch.
func (j *Table) SetForecast(job ares.JobID, p *ares.RuntimePredicted) {
	e := j.Entry(job)
	j.Estimated -= e.Estimates()
	e.Forecast = p
	j.Estimated += e.Estimates()
	if e.Run != nil { // when it ends is foreseen for its nodes
		for i := range e.Run.Attempts {
			for k := range e.Run.Attempts[i].Seats {
				if h := &e.Run.Attempts[i].Seats[k]; !h.State.Free() {
					j.cluster.MarkDirty(j.cluster.Node(h.Node))
				}
			}
		}
	}
	if !e.changed {
		e.changed = true
		j.ChangedEntries = append(j.ChangedEntries, e)
	}
}

// Estimates is 1 for a job of which it is known how long it runs.
func (e *Entry) Estimates() int {
	if e.Job != nil && (e.Forecast != nil || e.Job.MaxRuntimeMinutes > 0) {
		return 1
	}
	return 0
}

// Forever stands for a time so far off that nobody waits for it.
const Forever = time.Duration(math.MaxInt64)

// RuntimeEstimate is how long the job is thought to run in all: as many end before half
// as after, and most before late. Without a forecast the limit its user gave it
// stands for both, and without that either it may run for ever.
func (e *Entry) RuntimeEstimate() (half, late time.Duration) {
	if f := e.Forecast; f != nil {
		return f.P50, max(f.P50, f.P90)
	}
	if limit := e.Job.MaxRuntimeMinutes; limit > 0 {
		return time.Duration(limit) * time.Minute, time.Duration(limit) * time.Minute
	}
	return Forever, Forever
}

// Done is how much of its runtime the job has behind it, by now.
func (e *Entry) Done(now time.Time) time.Duration {
	if e.Run == nil {
		return 0
	}
	return e.Run.Done(e.Job, now)
}

// Remaining is how long the job is still thought to run: of a prediction that it has
// outlived already, twice as long as before, and again.
func (e *Entry) Remaining(now time.Time) (half, late time.Duration) {
	half, late = e.RuntimeEstimate()
	done := e.Done(now)
	return remainingAfter(half, late, done), remainingAfter(late, late, done)
}

func remainingAfter(want, next, done time.Duration) time.Duration {
	if want <= done {
		want = max(next, time.Second)
	}
	for want <= done {
		want *= 2
	}
	if want == Forever {
		return Forever
	}
	return want - done
}

// gpuMilli is the devices the job asks for, in thousandths.
func (e *Entry) gpuMilli() int64 {
	w := e.Shape.Request
	return int64(e.Shape.Members) * int64(max(w.GPUs*cluster.WholeMilli, w.Milli))
}

// ExpectedStay is how long the job may hold its place, of ten like it nine; never when
// nobody knows. Its limit ends every attempt. A guess from no runs is no
// knowledge: people plan by windows.
func (e *Entry) ExpectedStay(now time.Time) time.Duration {
	limit := e.Job.MaxRuntime()
	f := e.Forecast
	switch {
	case f != nil && f.Samples > 0:
		late := max(f.P50, f.P90)
		if late = remainingAfter(late, late, e.Done(now)); limit > 0 {
			late = min(late, limit)
		}
		return late
	case limit > 0:
		return limit
	}
	return Forever
}

// Waited is for how long the job has waited, since it was accepted or since it
// last ran.
func (e *Entry) Waited(now time.Time) time.Duration {
	since := e.Job.AcceptedAt
	if e.Run != nil {
		if last := e.Run.Last(); last != nil {
			since = LaterOf(since, last.EndedAt)
		}
	}
	return now.Sub(since)
}

// EndsBy is when the job will have ended in nine of ten cases, if it starts now.
func (e *Entry) EndsBy(now time.Time) int64 {
	if _, late := e.Remaining(now); late != Forever {
		return now.Add(late).UnixNano()
	}
	return NoEnd
}
