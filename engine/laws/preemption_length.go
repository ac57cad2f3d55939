package laws

import (
	"fmt"
	"math"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// checkPreemptible checks the victims of jobs of their own queue and class, as the default order preempts them. Such a
// victim must allow its preemption. Every other job is preempted only by a job that is two classes higher, to reclaim
// quota, or to be moved; the law "rights" checks these reasons.
func checkPreemptible(t *checker) error {
	if t.cfg.Queue.Preempt {
		return nil // an order that was chosen for its preemptions; the law "yields" checks them
	}
	for i := range t.plan.Nominate {
		n := &t.plan.Nominate[i]
		to, _ := t.state.Job(n.Job)
		for k := range n.Nomination.Victims {
			v := &n.Nomination.Victims[k]
			job, known := t.state.Job(v.Job)
			if v.Preemption.Why != ares.PreemptByOrder || to == nil || !known {
				continue
			}
			if err := t.checkLonger(job, to); err != nil {
				return fmt.Errorf("%s is preempted for %s of the same queue: %w", job.ID, to.ID, err)
			}
		}
	}
	return nil
}

// checkLonger checks one victim of a job of its own queue and class.
func (t *checker) checkLonger(job, to *ares.Job) error {
	run, _ := t.state.Run(job.ID)
	waiting, _ := t.state.Run(to.ID)
	a, now := run.Current(), t.plan.Now
	if a == nil {
		return fmt.Errorf("it is not running")
	}
	allows := job.Checkpoint.Enabled
	if job.Preemptible != nil {
		allows = *job.Preemptible
	}
	began := a.PlacedAt
	if a.StartedAt.After(began) {
		began = a.StartedAt
	}
	switch {
	case !t.cfg.Preemption.Enabled || t.cfg.Queue.Order != config.OrderExpectedWork || t.cfg.Queue.Blocked != config.BlockedSkip:
		return fmt.Errorf("the configuration does not allow it")
	case job.Tenant != to.Tenant || job.Queue != to.Queue || ares.ClassOf(job.PriorityValue()) != ares.ClassOf(to.PriorityValue()):
		return fmt.Errorf("they are in different queues or priority classes")
	case !allows || job.Mode == ares.AtMostOnce || job.Placement().LatencySensitive:
		return fmt.Errorf("it does not allow its preemption inside its class")
	case now.Sub(waitingSince(to, &waiting, len(waiting.Attempts))) < min(time.Hour, max(t.cautiousRuntime(to)-time.Second, t.cfg.Preemption.Cooldown)):
		return fmt.Errorf("the other job has waited for less than an hour and its own expected runtime")
	case a.StartedAt.IsZero() || now.Sub(began) < max(2*time.Hour, t.cfg.Preemption.Cooldown):
		return fmt.Errorf("it has run for less than two hours or its cooldown")
	}
	lost := time.Duration(0)
	switch {
	case !job.Checkpoint.Enabled:
		lost = now.Sub(a.StartedAt)
	case a.CheckpointedAt.After(a.StartedAt):
		lost = now.Sub(a.CheckpointedAt)
	}
	own := (t.expectedRemaining(to, &waiting) + 3600) * math.Sqrt(gpuCount(to))
	its := (t.expectedRemaining(job, &run) - 4*(lost+t.cfg.Preemption.Restart).Seconds()) * math.Sqrt(gpuCount(job))
	if its < 4*own*0.99-100*math.Sqrt(gpuCount(job)) { // the engine rounds times and roots down
		return fmt.Errorf("it is not expected to need four times as much: %.0f and %.0f, in seconds times the root of the GPUs", its, own)
	}
	return nil
}

// cautiousRuntime returns the geometric mean of the median and the p90 of a job's runtime, at most its time limit.
func (t *checker) cautiousRuntime(job *ares.Job) time.Duration {
	p50, p90 := time.Hour, 24*time.Hour
	if f, ok := t.state.Forecast(job.ID); ok && f.P50 > 0 {
		p50, p90 = f.P50, max(f.P50, f.P90)
	}
	runtime := time.Duration(math.Sqrt(p50.Seconds()*p90.Seconds())) * time.Second
	if limit := job.MaxRuntime(); limit > 0 {
		runtime = min(runtime, limit)
	}
	return runtime
}

// expectedRemaining returns the expected remaining runtime of a job, in seconds: the geometric mean of its median and
// its p90, less what it has done, but at least as much as it has done.
func (t *checker) expectedRemaining(job *ares.Job, run *ares.Run) float64 {
	limit, done := math.Inf(1), run.Done(job, t.plan.Now).Seconds()
	if job.MaxRuntimeMinutes > 0 {
		limit = job.MaxRuntime().Seconds()
	}
	runtime := t.cautiousRuntime(job).Seconds()
	if a := run.Current(); a != nil && !a.StartedAt.IsZero() {
		limit -= t.plan.Now.Sub(a.StartedAt).Seconds()
	}
	return max(min(max(runtime-done, done), limit), 1)
}

// gpuCount returns the GPUs of a job, or 1 if it requests none.
func gpuCount(job *ares.Job) float64 {
	milli := max(job.Members, 1) * max(1000*job.GPUs, job.GPUMilli)
	if job.MIGProfile != "" {
		milli = max(job.Members, 1) * 1000
	}
	if milli == 0 {
		return 1
	}
	return float64(milli) / 1000
}
