package job

import (
	"math"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
)

// Quantile selects one of the runtime predictions. An expected end is computed from this prediction.
type Quantile uint8

const (
	P50 Quantile = iota
	P90
	P10
	Quantiles
)

// Expected ends are stored in nanoseconds since 1970, because they are compared often.
const (
	AlreadyOver = math.MinInt64 // the attempt may end at any moment
	NoEnd       = math.MaxInt64 // unknown
)

// ExpectedEnd returns the expected end of an attempt. The expected end changes when an event changes the job's
// records, and when the attempt runs past its expected end.
func (e *Entry) ExpectedEnd(a *ares.Attempt, now time.Time, by Quantile) int64 {
	if a.Ended() || e.Run.Stop != nil {
		return AlreadyOver
	}
	p50, p90 := e.RuntimeEstimate()
	done := e.Done(now)
	if a.StartedAt.IsZero() { // placed, but not started
		done += max(now.Sub(a.PlacedAt), 0)
	}
	if p50 == Forever {
		return NoEnd
	}
	var left time.Duration
	switch by {
	case P10:
		if left = e.p10Runtime() - done; left <= 0 {
			return AlreadyOver
		}
	case P90:
		left = remainingAfter(p90, p90, done)
	case P50, Quantiles:
		left = remainingAfter(p50, p90, done)
	}
	return now.Add(left).UnixNano()
}

// IsOverdue reports whether the job has run for longer than the p90 of its own earlier runs, or for longer than its time
// limit. If no run of the same job is known, a job without a limit is never overdue: runs of other jobs do not make it late.
func (e *Entry) IsOverdue(now time.Time) bool {
	if f := e.Forecast; f != nil && f.Own > 0 {
		return max(f.P50, f.P90) <= e.Done(now)
	}
	limit := e.Job.MaxRuntime()
	return limit > 0 && limit <= e.Done(now)
}

// p10Runtime returns the p10 of the runtime. It assumes that runtimes are spread below the median as widely as
// above it. The result is 0 if there are no similar runs, because a limit or a guess says nothing about the
// shortest runtime.
func (e *Entry) p10Runtime() time.Duration {
	f := e.Forecast
	if f == nil || f.Samples == 0 || f.P90 <= 0 {
		return 0
	}
	p50, p90 := int64(f.P50/time.Second), int64(max(f.P50, f.P90)/time.Second)
	if p90 == 0 || p50 > math.MaxInt32 {
		return 0
	}
	return time.Duration(p50*p50/p90) * time.Second
}

// ExpectedRuntime returns the estimated runtime of a job that has not started.
func (e *Entry) ExpectedRuntime(by Quantile) time.Duration {
	p50, p90 := e.RuntimeEstimate()
	switch by {
	case P90:
		return p90
	case P10:
		if p50 != Forever {
			return e.p10Runtime()
		}
	case P50, Quantiles:
	}
	return p50
}

// EstimateSource says on which data an expected end is based.
type EstimateSource uint8

const (
	FromForecast EstimateSource = iota // ended runs of similar jobs, or the attempt is ending already
	FromLimit                          // the runtime limit of the job
	FromGuess                          // no similar runs: an assumption for planning, which is not shown
	EstimateSources
)

// RuntimeSource returns the source of the p90 estimate of the job's runtime.
func (e *Entry) RuntimeSource() EstimateSource {
	limit := e.Job.MaxRuntime()
	switch _, p90 := e.RuntimeEstimate(); {
	case e.Forecast != nil && e.Forecast.Samples > 0:
		return FromForecast
	case limit > 0 && p90 >= limit:
		return FromLimit
	}
	return FromGuess
}

// AttemptOf returns the attempt that a seat of the run belongs to.
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

// SetForecast sets the predicted runtime of a job, or removes the prediction if p is nil.
// The forecast of a job without records is dropped at the end of the batch.
func (j *Table) SetForecast(job ares.JobID, p *ares.RuntimePredicted) {
	e := j.Entry(job)
	j.Estimated -= e.Estimates()
	e.Forecast = p
	j.Estimated += e.Estimates()
	if e.Run != nil { // its nodes have cached its expected end
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

// If the job's runtime is predicted or limited, Estimates returns 1. If the runtime is neither
// predicted nor limited, Estimates returns 0.
func (e *Entry) Estimates() int {
	if e.Job != nil && (e.Forecast != nil || e.Job.MaxRuntimeMinutes > 0) {
		return 1
	}
	return 0
}

// Forever stands for an unknown runtime.
const Forever = time.Duration(math.MaxInt64)

// RuntimeEstimate returns the median and the p90 of the job's total runtime. Without a
// forecast, both results are the job's runtime limit. With neither a forecast nor a limit, both results are
// Forever.
func (e *Entry) RuntimeEstimate() (p50, p90 time.Duration) {
	if f := e.Forecast; f != nil {
		return f.P50, max(f.P50, f.P90)
	}
	if limit := e.Job.MaxRuntimeMinutes; limit > 0 {
		return time.Duration(limit) * time.Minute, time.Duration(limit) * time.Minute
	}
	return Forever, Forever
}

// Done returns the part of the job's runtime that is already completed at the time `now`.
func (e *Entry) Done(now time.Time) time.Duration {
	if e.Run == nil {
		return 0
	}
	return e.Run.Done(e.Job, now)
}

// Remaining returns the median and the p90 of the job's remaining runtime. When a job
// runs past its estimate, the estimate is doubled.
func (e *Entry) Remaining(now time.Time) (p50, p90 time.Duration) {
	p50, p90 = e.RuntimeEstimate()
	done := e.Done(now)
	return remainingAfter(p50, p90, done), remainingAfter(p90, p90, done)
}

// KnownRemaining returns the time after which the job will probably have ended, as far as its time limit or enough earlier
// runs of the same job tell. The result is Forever if they do not, or if the job has run for longer already.
//
// A preemption waits for the end of a job only on this evidence. Otherwise some short runs would protect a long job.
func (e *Entry) KnownRemaining(now time.Time) time.Duration {
	left, done := time.Duration(Forever), e.Done(now)
	if f := e.Forecast; f != nil && f.Own >= ares.EnoughRuns && max(f.P50, f.P90) > done {
		left = max(f.P50, f.P90) - done
	}
	if limit := e.Job.MaxRuntime(); limit > done {
		left = min(left, limit-done)
	}
	return left
}

// remainingAfter returns the remaining part of an estimated runtime. The parameter `done` is the time that the
// job has already run. If the job has run past the first estimate, the second estimate (the parameter `next`) is
// used instead. If the job has also run past the second estimate, this estimate is doubled until it is longer
// than `done`.
func remainingAfter(estimate, next, done time.Duration) time.Duration {
	if estimate <= done {
		estimate = max(next, time.Second)
	}
	for estimate <= done {
		estimate *= 2
	}
	if estimate == Forever {
		return Forever
	}
	return estimate - done
}

// gpuMilli returns the GPUs that the job requests for all members, in thousandths.
func (e *Entry) gpuMilli() int64 {
	w := e.Shape.Request
	return int64(e.Shape.Members) * int64(max(w.GPUs*cluster.WholeMilli, w.Milli))
}

// ExpectedStay returns how much longer the job will occupy its nodes, counted from now. The result is the p90
// of the job's remaining runtime. It is at most the runtime limit, because the limit ends every attempt. The
// result is Forever if neither the estimate nor the limit is known. An estimate that is not based on similar
// runs is ignored, because users rely on reservations.
func (e *Entry) ExpectedStay(now time.Time) time.Duration {
	limit := e.Job.MaxRuntime()
	f := e.Forecast
	switch {
	case f != nil && f.Samples > 0:
		p90 := max(f.P50, f.P90)
		if p90 = remainingAfter(p90, p90, e.Done(now)); limit > 0 {
			p90 = min(p90, limit)
		}
		return p90
	case limit > 0:
		return limit
	}
	return Forever
}

// Waited returns how long the job has waited since it was accepted or since its last attempt ended.
func (e *Entry) Waited(now time.Time) time.Duration {
	since := e.Job.AcceptedAt
	if e.Run != nil {
		if last := e.Run.Last(); last != nil {
			since = LaterOf(since, last.EndedAt)
		}
	}
	return now.Sub(since)
}

// EndsBy returns the p90 of the job's end, assuming that the job starts at the time `now`.
func (e *Entry) EndsBy(now time.Time) int64 {
	if _, p90 := e.Remaining(now); p90 != Forever {
		return now.Add(p90).UnixNano()
	}
	return NoEnd
}
