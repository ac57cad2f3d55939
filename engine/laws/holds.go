package laws

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// CheckHolds checks the planned starts for which nodes are held. A hold leaves GPUs idle, so it is allowed only for a job
// that waits, needs two or more GPUs, and has waited for DrainAfter or longer. Its price must not be above HoldIdle of
// all GPUs for the time beyond DrainAfter. No job has more than one hold.
func CheckHolds(s *engine.State, now time.Time, starts []ares.PlannedStart) error {
	cfg, gpus := s.Config().Backfill, 0
	for n := range s.Nodes() {
		gpus += len(n.Node.Devices)
	}
	seen := map[ares.JobID]bool{}
	for i := range starts {
		p := &starts[i]
		if !p.Held {
			continue
		}
		if err := checkHold(s, now, p, gpus*cfg.HoldIdle); err != nil {
			return Violation{"holds", fmt.Errorf("nodes are held for %s: %w", p.Job, err)}
		}
		if seen[p.Job] {
			return Violation{"holds", fmt.Errorf("nodes are held for %s twice", p.Job)}
		}
		seen[p.Job] = true
	}
	return nil
}

// checkHold checks one hold. The parameter `milli` is the number of GPUs that may be idle, in thousandths.
func checkHold(s *engine.State, now time.Time, p *ares.PlannedStart, milli int) error {
	job, ok := s.Job(p.Job)
	if !ok {
		return fmt.Errorf("the job does not exist")
	}
	since := job.AcceptedAt
	if run, ok := s.Run(p.Job); ok {
		if !run.Phase.Waiting() && !job.IsArray() {
			return fmt.Errorf("the job is %s", run.Phase)
		}
		if last := run.Last(); last != nil && last.EndedAt.After(since) {
			since = last.EndedAt
		}
	}
	over := now.Sub(since) - s.Config().Backfill.DrainAfter
	switch earned := over.Seconds() * float64(milli) / 1000; {
	case max(job.Members, 1)*neededMilli(job) < 2000:
		return fmt.Errorf("%d members of the job need %d thousandths of a GPU each", max(job.Members, 1), neededMilli(job))
	case over < 0:
		return fmt.Errorf("the job has waited for %s only", now.Sub(since))
	case p.Price.Seconds() > earned+1:
		return fmt.Errorf("the price is %s of GPU time, but all GPUs together have earned only %.0f s", p.Price, earned)
	}
	return nil
}

// neededMilli returns the GPUs of one member, in thousandths. A MIG slice counts as a whole GPU.
func neededMilli(job *ares.Job) int {
	if job.MIGProfile != "" {
		return 1000
	}
	return max(1000*job.GPUs, job.GPUMilli)
}
