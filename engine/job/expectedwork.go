package job

import (
	"fmt"
	"math"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
)

// With config.OrderExpectedWork, the jobs of one class of one queue start in this order:
//
//   - jobs with an urgent deadline, earliest first. A deadline is urgent from horizonSteps ageing steps before the
//     latest start with which the job meets it. A job that will probably miss its deadline gets three times the time
//     from its acceptance, up to maxExtensions times, so it falls behind jobs that can still meet theirs.
//   - by submitted priority, highest first
//   - by expected work, least first: the median of the remaining runtime, times the square root of the GPUs. On the
//     workloads for tuning, no other power of the GPUs was better, and on Philly this one was best. As far as forecasts
//     are in doubt, the differences shrink; see orderingWork.
//   - by submission
//
// Jobs of a class below normal move up to class normal while they wait, one point of priority per ageing step. So a
// stream of normal jobs does not delay them forever. No job moves to class high or critical.
//
// A job that has waited for OverdueAfter is overdue; see overdue.go.
const (
	maxExtensions = 3
	// minRuntime is the shortest runtime that counts. Among shorter runtimes, the order is by submission.
	minRuntime = time.Minute
	// unknownRuntime is assumed for a job without any estimate. The estimator of a server knows one for every job.
	unknownRuntime = time.Hour
)

// The bits of a sort key: notUrgent, then the priority within the class, then the expected work in milliseconds.
const (
	notUrgent = 1 << 59
	workBits  = 48
	maxWork   = 1<<workBits - 1
	maxWithin = 1<<11 - 1
)

// normalFloor is the lowest priority of class normal.
var normalFloor = ares.Normal.Floor()

// expectedWorkPosition returns the position of a pending job with config.OrderExpectedWork.
func (j *Table) expectedWorkPosition(e *Entry, now time.Time) position {
	now = LaterOf(now, e.Job.AcceptedAt)
	var out position
	out.priority, out.until = j.risenPriority(e, now)
	if after := j.cfg.Queue.OverdueAfter; after > 0 {
		if at := e.waitingSince().Add(after); now.Before(at) {
			out.until = EarlierOf(out.until, at)
		} else {
			out.overdue = true
		}
	}
	if !e.Job.Deadline.IsZero() {
		due, until := j.urgentDeadline(e, now)
		out.until = EarlierOf(out.until, until)
		if !due.IsZero() {
			out.sortKey = uint64(max(due.UnixMilli(), 0))
			return out
		}
	}
	within := min(out.priority-ares.ClassOf(out.priority).Floor(), maxWithin)
	out.sortKey = notUrgent | uint64(maxWithin-within)<<workBits | e.orderingWork()
	return out
}

// risenPriority returns the priority of a pending job, and the time at which its class changes. Within a class the
// priority stays as submitted.
func (j *Table) risenPriority(e *Entry, now time.Time) (priority int, until time.Time) {
	submitted := e.Job.PriorityValue()
	if submitted >= normalFloor || j.cfg.AgeingStep <= 0 {
		return submitted, time.Time{}
	}
	risen := submitted + int(now.Sub(e.Job.AcceptedAt)/j.cfg.AgeingStep)
	priority = submitted
	for _, class := range ares.Classes()[1:] {
		floor := class.Floor()
		if floor > normalFloor {
			break
		}
		if floor > risen {
			until = e.Job.AcceptedAt.Add(time.Duration(floor-submitted) * j.cfg.AgeingStep)
			break
		}
		priority = max(priority, floor)
	}
	return priority, until
}

// urgentDeadline returns the time by which a job with an urgent deadline is due, or zero if the deadline is not
// urgent. It also returns the time at which this changes.
func (j *Table) urgentDeadline(e *Entry, now time.Time) (due, until time.Time) {
	accepted, runtime := e.Job.AcceptedAt, e.runtimeForDeadline()
	allowed := e.Job.Deadline.Sub(accepted)
	for range 1 + maxExtensions {
		if allowed <= 0 || allowed > math.MaxInt64/(2*extensionFactor) {
			break
		}
		latest := accepted.Add(allowed - runtime)
		if now.Before(latest) {
			if from := latest.Add(-horizonSteps * j.cfg.AgeingStep); now.Before(from) {
				return time.Time{}, from
			}
			return accepted.Add(allowed), latest
		}
		allowed *= extensionFactor
	}
	return time.Time{}, time.Time{}
}

// expectedWork returns the expected remaining work of a job: the median of its remaining runtime in milliseconds, times
// the square root of its GPUs.
func (e *Entry) expectedWork(now time.Time) uint64 {
	runtime, _ := e.Remaining(now)
	if runtime == Forever {
		runtime = unknownRuntime
	}
	runtime = min(max(runtime, minRuntime), maxRemaining)
	return min(uint64(runtime/time.Millisecond)*uint64(e.sizeWeight())/cluster.WholeMilli, maxWork)
}

// orderingWork returns the expected work of a pending job as far as forecasts deserve it. With a doubt of 100 % it is
// the same for all jobs that have not run yet, so these start by submission, sizes included: an order by forecasts that say
// nothing would delay some jobs at random. A job that has run before counts as it is, because its own runtime is evidence.
func (e *Entry) orderingWork() uint64 {
	work := e.expectedWork(time.Time{}) // no attempt is running, so the time does not matter
	doubt := e.Doubt()
	if doubt == 0 {
		return work
	}
	const middle = float64(unknownRuntime / time.Millisecond)
	trust := 1 - float64(doubt)/100
	return min(uint64(middle*math.Pow(float64(work)/middle, trust)), maxWork)
}

// Doubt returns the doubt with which a job's forecast counts in the order, in percent.
func (e *Entry) Doubt() int {
	if e.Forecast == nil || e.Run != nil && e.Run.Last() != nil {
		return 0
	}
	return min(max(e.Forecast.Doubt, 0), 100)
}

// waitingSince returns the time since which a pending job waits: its acceptance, or the end of its last attempt.
func (e *Entry) waitingSince() time.Time {
	since := e.Job.AcceptedAt
	if e.Run != nil {
		if last := e.Run.Last(); last != nil {
			since = LaterOf(since, last.EndedAt)
		}
	}
	return since
}

// OrderText says for users which rule gives a pending job its position in its queue.
func (j *Table) OrderText(e *Entry, now time.Time) string {
	switch j.cfg.Queue.Order {
	case config.OrderExpectedWork:
		return j.expectedWorkText(e, now)
	case config.OrderAged:
		if !e.Job.Deadline.IsZero() && !j.urgencyOf(e, now).due.IsZero() {
			return "by priority, which rises while the job waits, and by its deadline"
		}
		return "by priority, which rises while the job waits"
	case config.OrderFIFO:
		return "by class, then by submission"
	case config.OrderShortest:
		return "by class, then by expected runtime: " + e.estimateText()
	case config.OrderRemaining:
		return "by class, then by expected remaining runtime: " + e.estimateText()
	case config.OrderLeastService:
		return "by class, then by expected runtime times GPUs: " + e.estimateText()
	case config.OrderAttained:
		return "by class, then by the GPU time used so far"
	case config.OrderDeadline:
		return "by class, then by deadline"
	}
	return ""
}

// expectedWorkText is OrderText with config.OrderExpectedWork.
func (j *Table) expectedWorkText(e *Entry, now time.Time) string {
	p := j.expectedWorkPosition(e, now)
	text := fmt.Sprintf("by class (%s), then by priority, then by expected work, least first: an expected runtime of %s, %s",
		ares.ClassOf(p.priority), e.estimateText(), e.sizeText())
	if doubt := e.Doubt(); doubt >= 100 {
		text = fmt.Sprintf("by class (%s), then by priority, then by submission, because recent forecasts did not tell short jobs from long ones; the own forecast is %s", ares.ClassOf(p.priority), e.estimateText())
	} else if doubt > 0 {
		text += fmt.Sprintf("; this counts for %d %%, and the submission for the rest, because recent forecasts did not tell all short jobs from long ones", 100-doubt)
	}
	if p.sortKey&notUrgent == 0 {
		text = fmt.Sprintf("first in class %s, because its deadline is near; among such jobs by deadline", ares.ClassOf(p.priority))
	}
	if p.overdue {
		text += fmt.Sprintf("; it is overdue (it has waited for more than %s), so it also starts before all other jobs of its queue when it fits, oldest first, with up to %d %% of the GPUs that the queue uses", durationText(j.cfg.Queue.OverdueAfter), j.cfg.Queue.OverdueShare)
	}
	return text
}

// sizeText says how the size of a job counts in its expected work.
func (e *Entry) sizeText() string {
	if milli := e.gpuMilli(); milli > cluster.WholeMilli {
		return fmt.Sprintf("times the square root of its %g GPUs", float64(milli)/cluster.WholeMilli)
	}
	return "on one GPU or less"
}

// estimateText describes the runtime estimate of a job and the data it is based on.
func (e *Entry) estimateText() string {
	p50, p90 := e.RuntimeEstimate()
	switch f := e.Forecast; {
	case p50 == Forever:
		return durationText(unknownRuntime) + " (assumed, because nothing is known)"
	case f == nil:
		return durationText(p50) + " (its time limit)"
	case f.Samples == 0:
		return durationText(p50) + " (assumed, because too few similar runs are known)"
	default:
		return fmt.Sprintf("%s (the median; the p90 is %s; %s)", durationText(p50), durationText(p90), f.Basis)
	}
}

// durationText returns a duration with two units at most.
func durationText(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
