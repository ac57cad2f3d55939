package laws

import (
	"fmt"
	"math"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// orderKey returns a job's sort key in the configured order. The job with the lowest key comes first. Depending on
// the order, the key is a time in milliseconds or a level of attained service. The time is the runtime, the
// remaining runtime, the runtime multiplied by the number of GPUs, or the deadline. A job without an estimate
// comes last.
func (t *checker) orderKey(job *ares.Job) int64 {
	run, _ := t.state.Run(job.ID)
	runtime := time.Duration(job.MaxRuntimeMinutes) * time.Minute
	if f, ok := t.state.Forecast(job.ID); ok {
		runtime = f.P50
	} else if runtime == 0 {
		runtime = 1<<63 - 1
	}
	endless := runtime == 1<<63-1
	members := int64(max(job.Members, 1))
	milli := members * int64(max(1000*job.GPUs, job.GPUMilli))
	if job.MIGProfile != "" {
		milli = members * 1000
	}
	switch t.cfg.Queue.Order {
	case config.OrderAttained:
		level := t.cfg.Queue.Attained
		if level == 0 {
			level = config.DefaultAttained
		}
		if run.RanFor(t.plan.Now).Milliseconds()*milli/1000 >= int64(level)*1000 {
			return 1
		}
	case config.OrderRemaining:
		if !endless {
			runtime = max(runtime-run.Done(job, t.plan.Now), 0)
		}
		return lastIfUnknown(runtime.Milliseconds(), endless)
	case config.OrderShortest:
		return lastIfUnknown(runtime.Milliseconds(), endless)
	case config.OrderLeastService:
		return lastIfUnknown(min(runtime.Milliseconds(), 1<<38)*min(milli, 1<<24)/1000, endless) // limits that no job reaches, to avoid overflow
	case config.OrderDeadline:
		return lastIfUnknown(job.Deadline.UnixMilli(), job.Deadline.IsZero())
	case config.OrderExpectedWork:
		return t.workRankOf(job).work
	case config.OrderAged, config.OrderFIFO:
	}
	return 0
}

// lastIfUnknown returns v, or the highest key if the runtime is unknown.
func lastIfUnknown(v int64, endless bool) int64 {
	if endless {
		return math.MaxInt64
	}
	return v
}

// checkStrictOrder checks that no job of a strict queue is placed while an earlier job of
// the queue waits only for capacity or limits.
func checkStrictOrder(t *checker, p *placement) error {
	if t.cfg.Queue.Blocked != config.BlockedHold || p.isOnNominatedSeats() {
		return nil
	}
	before := map[ares.JobID]bool{}
	for i := range t.plan.Place[:p.index] {
		before[t.plan.Place[i].Job] = true
	}
	for job, run := range t.state.Jobs() {
		same := job.Tenant == p.job.Tenant && job.Queue == p.job.Queue && job != p.job && ares.ClassOf(job.PriorityValue()) == ares.ClassOf(p.job.PriorityValue())
		if !same || before[job.ID] || job.IsArray() || !t.isPlaceable(job, run) || !t.isEarlier(job, p.job) {
			continue
		}
		if !t.hasOpenDependency(job) {
			return fmt.Errorf("the job is placed too early: %s is still waiting ahead of it in the strict queue", job.ID)
		}
	}
	return nil
}

// hasOpenDependency reports whether a job waits for other jobs, or for another start condition.
func (t *checker) hasOpenDependency(job *ares.Job) bool {
	if run, _ := t.state.Run(job.ID); t.startConditions(job, &run, run.Next) != nil {
		return true
	}
	for _, id := range job.After {
		if run, ok := t.state.Run(ares.JobID(id)); !ok || run.Phase != ares.Succeeded {
			return true
		}
	}
	return false
}
