package job

import (
	"math"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
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

// IsPredictable reports whether the p90 of the job's runtime is at most `spread` percent of its median, and enough runs
// of the same job say so. A job without a forecast is predictable if it has a time limit.
func (e *Entry) IsPredictable(spread int) bool {
	f := e.Forecast
	if f == nil {
		return e.Job.MaxRuntimeMinutes > 0
	}
	return f.Own >= predictableRuns && f.P90 <= f.P50/100*time.Duration(spread)
}

// predictableRuns is the number of runs of the same job from which on their spread says how predictable the job is.
const predictableRuns = 3

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

// WaitingSince returns the time since which the job has waited: when it was accepted, or when its last attempt ended.
func (e *Entry) WaitingSince() time.Time {
	since := e.Job.AcceptedAt
	if e.Run != nil {
		if last := e.Run.Last(); last != nil {
			since = LaterOf(since, last.EndedAt)
		}
	}
	return since
}

// Waited returns how long the job has waited since it was accepted or since its last attempt ended.
func (e *Entry) Waited(now time.Time) time.Duration { return now.Sub(e.WaitingSince()) }

// EndsBy returns the p90 of the job's end, assuming that the job starts at the time `now`.
func (e *Entry) EndsBy(now time.Time) int64 {
	if _, p90 := e.Remaining(now); p90 != Forever {
		return now.Add(p90).UnixNano()
	}
	return NoEnd
}

// These are the median and the p90 that are assumed for a job whose runtime nothing is known about. They are far apart,
// so such a job preempts others only if these have run for very long.
const (
	assumedP50 = time.Hour
	assumedP90 = 24 * time.Hour
)

// cautiousRuntime returns the geometric mean of the median and the p90 of the job's runtime. If earlier runs differ
// little, the result is close to their median. If they differ much, it is far above the median: then the median says
// little about how long a preempted job would have to wait.
func (e *Entry) cautiousRuntime() time.Duration {
	p50, p90 := assumedP50, assumedP90
	if f := e.Forecast; f != nil && f.P50 > 0 {
		p50, p90 = f.P50, max(f.P50, f.P90)
	}
	runtime := time.Duration(geometricMean(int64(p50/time.Second), int64(p90/time.Second))) * time.Second
	if limit := e.Job.MaxRuntime(); limit > 0 {
		runtime = min(runtime, limit)
	}
	return runtime
}

// ExpectedRemaining returns how much longer a job is expected to run. Runtimes of training jobs have heavy tails: the
// longer such a job has run, the longer it is expected to run. So a job that has run for half of its expected runtime or
// more is expected to run for as long again, but never past its time limit.
//
// The result is at least a second, and the same on every machine, because it is computed with integers only.
func (e *Entry) ExpectedRemaining(now time.Time) time.Duration {
	done := e.Done(now)
	left := max(e.cautiousRuntime()-done, done)
	if limit := e.Job.MaxRuntime(); limit > 0 {
		if e.Run != nil && e.Run.Current() != nil { // the limit applies to each attempt
			if started := e.Run.Current().StartedAt; !started.IsZero() {
				limit -= max(now.Sub(started), 0)
			}
		}
		left = min(left, limit)
	}
	return min(max(left, time.Second), maxRemaining)
}

// maxRemaining limits an expected runtime, so that a product with a weight fits into 64 bits.
const maxRemaining = 10 * 365 * 24 * time.Hour

// sizeWeight returns the weight of a job's size in a comparison of runtimes: the square root of its GPUs, in thousandths.
// A larger job uses more, but stopping it also helps more waiting jobs at once. A job without GPUs counts as one GPU.
func (e *Entry) sizeWeight() int64 {
	milli := e.gpuMilli()
	if milli == 0 {
		milli = cluster.WholeMilli
	}
	return int64(squareRoot(uint64(min(milli, 1<<24)) * cluster.WholeMilli))
}

// LostWork returns the time that a running job would have to repeat if it were preempted now. A job with checkpoints
// saves one when it is asked to stop, unless the checkpoints that it reported say when it saves.
func (e *Entry) LostWork(now time.Time) time.Duration {
	a := e.Run.Current()
	if a.StartedAt.IsZero() || e.Job.Checkpoint.Enabled && !a.CheckpointedAt.After(a.StartedAt) {
		return 0
	}
	if !e.Job.Checkpoint.Enabled {
		return max(now.Sub(a.StartedAt), 0)
	}
	return max(now.Sub(a.CheckpointedAt), 0)
}

// IsMuchLonger reports whether a running job is expected to need much more than a waiting job: at least
// config.LongerRatio times as much, even if the cost of its preemption is added to what the waiting job needs. The cost
// is the lost work and a restart.
func (j *Table) IsMuchLonger(v, e *Entry, now time.Time) bool {
	return j.PreemptionGain(v, now) >= e.waitingWork(now)
}

// PreemptionGain returns the largest work of a waiting job for which a running job counts as much longer.
func (j *Table) PreemptionGain(v *Entry, now time.Time) int64 {
	left, cost := v.ExpectedRemaining(now), v.LostWork(now)+j.cfg.Preemption.Restart
	return (int64(left/time.Second) - config.LongerRatio*int64(cost/time.Second)) * v.sizeWeight()
}

// waitingWork returns the work of a waiting job as PreemptionGain counts it. It counts up to twice, as far as forecasts are
// in doubt.
func (e *Entry) waitingWork(now time.Time) int64 {
	work := config.LongerRatio * int64((e.ExpectedRemaining(now)+config.LongerExtra)/time.Second) * e.sizeWeight()
	if e.Forecast != nil {
		work += work / 100 * int64(min(max(e.Forecast.Doubt, 0), 100))
	}
	return work
}

// PreemptsLongerFrom returns the time from which a waiting job may preempt much longer jobs of its queue and class. The
// result is false if the configuration does not allow it, or if no such job is running.
func (j *Table) PreemptsLongerFrom(e *Entry) (time.Time, bool) {
	if !j.cfg.PreemptsLonger() || len(j.PreemptibleRunning(e)) == 0 {
		return time.Time{}, false
	}
	return e.waitingSince().Add(min(config.LongerWait, max(e.cautiousRuntime(), j.cfg.Preemption.Cooldown))), true
}

// LongerFrom returns the time from which a running job may be preempted for a shorter one of its queue and class.
// It is false if the job has not started.
func (j *Table) LongerFrom(v *Entry) (time.Time, bool) {
	a := v.Run.Current()
	if a.StartedAt.IsZero() {
		return time.Time{}, false
	}
	return LaterOf(a.PlacedAt, a.StartedAt).Add(max(config.LongerRun, j.cfg.Preemption.Cooldown)), true
}

// geometricMean returns the geometric mean of two numbers of seconds, of which a year is the most that counts.
func geometricMean(a, b int64) int64 {
	const year = 366 * 24 * 3600
	return int64(squareRoot(uint64(min(max(a, 0), year)) * uint64(min(max(b, 0), year))))
}

// squareRoot returns the square root of a number below 2^60, rounded down.
func squareRoot(n uint64) uint64 {
	root := uint64(math.Sqrt(float64(n)))
	for root*root > n { // the floating-point root of a large number may be off by one
		root--
	}
	for (root+1)*(root+1) <= n {
		root++
	}
	return root
}
