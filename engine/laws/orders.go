package laws

import (
	"fmt"
	"math"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// measure is what the configured order goes by, less for the earlier job: in
// milliseconds, of runtime, of what is left of it or of runtime times GPUs, or
// the level of its service so far. Who is not known to end comes last.
func (t *trial) measure(job *ares.Job) int64 {
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
	case engine.OrderAttained:
		level := t.cfg.Queue.Attained
		if level == 0 {
			level = engine.DefaultAttained
		}
		if run.RanFor(t.plan.Now).Milliseconds()*milli/1000 >= int64(level)*1000 {
			return 1
		}
	case engine.OrderRemaining:
		if !endless {
			runtime = max(runtime-run.Done(job, t.plan.Now), 0)
		}
		return last(runtime.Milliseconds(), endless)
	case engine.OrderShortest:
		return last(runtime.Milliseconds(), endless)
	case engine.OrderLeastService:
		return last(min(runtime.Milliseconds(), 1<<38)*min(milli, 1<<24)/1000, endless) // nobody lives so long
	case engine.OrderDeadline:
		return last(job.Deadline.UnixMilli(), job.Deadline.IsZero())
	case engine.OrderAged, engine.OrderFIFO:
	}
	return 0
}

func last(v int64, endless bool) int64 {
	if endless {
		return math.MaxInt64
	}
	return v
}

// strict wants no job of a strict queue placed while an earlier one waits that
// nothing but the room and its limits could keep waiting.
func strict(t *trial, p *placed) error {
	if t.cfg.Queue.Blocked != engine.BlockedHold || p.kept() {
		return nil
	}
	before := map[ares.JobID]bool{}
	for i := range t.plan.Place[:p.index] {
		before[t.plan.Place[i].Job] = true
	}
	for job, run := range t.state.Jobs() {
		same := job.Tenant == p.job.Tenant && job.Queue == p.job.Queue && job != p.job && ares.ClassOf(job.PriorityValue()) == ares.ClassOf(p.job.PriorityValue())
		if !same || before[job.ID] || job.IsArray() || !t.waits(job, run) || !t.earlier(job, p.job) {
			continue
		}
		if !t.depends(job) {
			return fmt.Errorf("%s is earlier in its queue and waits", job.ID)
		}
	}
	return nil
}

// depends says whether a job waits for others to succeed.
func (t *trial) depends(job *ares.Job) bool {
	for _, id := range job.After {
		if run, ok := t.state.Run(ares.JobID(id)); !ok || run.Phase != ares.Succeeded {
			return true
		}
	}
	return false
}
