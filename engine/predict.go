package engine

import (
	"math"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

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
					j.cluster.markDirty(j.cluster.node(h.Node))
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

// Forecast is how long a live job is thought to run; false when nobody said.
func (s *State) Forecast(id ares.JobID) (ares.RuntimePredicted, bool) {
	e := s.core.jobs.entryByID[id]
	if e == nil || e.forecast == nil {
		return ares.RuntimePredicted{}, false
	}
	return *e.forecast, true
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
	return int64(e.shape.members) * int64(max(w.gpus*WholeMilli, w.milli))
}

// orderRank is where the job stands in the configured order of its queue, inside
// its class: smaller is earlier. Only what is known decides: it changes by
// events, and for a running job with time.
func (j *jobTable) orderRank(e *entry, now time.Time) uint64 {
	half, _ := e.runtimeEstimate()
	switch j.cfg.Queue.Order {
	case OrderShortest:
		return rankOf(half)
	case OrderRemaining:
		if half != forever {
			half = max(half-e.done(now), 0)
		}
		return rankOf(half)
	case OrderLeastService:
		if half == forever {
			return queue.MaxSortKey
		}
		return uint64(min(int64(half/time.Millisecond), 1<<38)*min(e.gpuMilli(), 1<<24)) / WholeMilli
	case OrderAttained:
		if e.run != nil && j.attainedService(e, now) >= int64(j.cfg.Queue.attainedLevel())*WholeMilli {
			return 1
		}
	case OrderDeadline:
		if e.job.Deadline.IsZero() {
			return queue.MaxSortKey
		}
		return uint64(max(e.job.Deadline.UnixMilli(), 0))
	case OrderAged, OrderFIFO:
	}
	return 0
}

func rankOf(d time.Duration) uint64 {
	if d == forever {
		return queue.MaxSortKey
	}
	return uint64(max(d, 0) / time.Millisecond)
}

// attainedService is the device-time that the job has had by now, in thousandths of
// GPU-seconds.
func (j *jobTable) attainedService(e *entry, now time.Time) int64 {
	return int64(e.run.RanFor(now)/time.Millisecond) * e.gpuMilli() / 1000
}

// queueRank is the place of a waiting job in its class as the order wants it. Where
// submission decides it is written out, so that most comparisons need no more.
func (j *jobTable) queueRank(e *entry) uint64 {
	rank := j.orderRank(e, time.Time{}) // no attempt of it is under way
	switch j.cfg.Queue.Order {
	case OrderFIFO, OrderAttained:
		return rank<<56 | uint64(min(max(e.job.Revision, 0), 1<<56-1))
	case OrderAged, OrderShortest, OrderRemaining, OrderLeastService, OrderDeadline:
	}
	return min(rank, queue.MaxSortKey)
}
