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

// startConditions returns an error if a start condition of a job is not met. The argument `element` is the index of the
// placed element of an array. The conditions are read from the records alone, without the index that the engine keeps.
func (t *checker) startConditions(job *ares.Job, run *ares.Run, element int) error {
	if run.IsHeld(job) {
		return fmt.Errorf("the job is held")
	}
	c := job.Start
	if c == nil {
		return nil
	}
	first := run.Placed == 0 && run.Next == 0
	if first && c.Begin.After(t.plan.Now) {
		return fmt.Errorf("the job begins at %s", c.Begin)
	}
	for _, d := range c.Dependencies {
		id := d.Job
		switch {
		case d.Type == ares.AfterCorr:
			id = ares.ElementID(d.Job, element)
		case !first:
			continue
		case d.Type == ares.Singleton:
			if other := t.earlierOfName(job); other != "" {
				return fmt.Errorf("the job is a singleton, but %s has the same name and user, and has not ended", other)
			}
			continue
		}
		before, known := t.state.Run(id)
		if known && d.Type.State(before.Phase, before.HasStarted()) != ares.DependencyMet || !known && d.Type != ares.AfterAny && d.Type != ares.AfterStart {
			return fmt.Errorf("the dependency %s is not met: %s is %q", d, id, before.Phase)
		}
	}
	return nil
}

// earlierOfName returns an unfinished job that was accepted before the given one and has the same name and user, or "".
func (t *checker) earlierOfName(job *ares.Job) ares.JobID {
	for other, run := range t.state.Jobs() {
		if other.Tenant == job.Tenant && other.Owner == job.Owner && other.Name == job.Name && other.ArrayOf == "" && (run == nil || !run.Phase.Final()) && other.Revision < job.Revision {
			return other.ID
		}
	}
	return ""
}
