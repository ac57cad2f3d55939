package laws

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// SkippedJobs returns, for each placement of a plan, the jobs that precede it and
// are not placed before it. None of them must have fit at that point; a caller
// that adds the placements to a state one by one can check this.
func SkippedJobs(s *engine.State, p *ares.Plan) [][]ares.JobID {
	t := newChecker(s, p)
	var waiting []*ares.Job
	for job, run := range s.Jobs() {
		if t.isPlaceable(job, run) {
			waiting = append(waiting, job)
		}
	}
	out := make([][]ares.JobID, len(p.Place))
	done := map[ares.JobID]bool{}
	for i := range p.Place {
		pl, err := t.nextPlacement(i)
		if err != nil {
			return out
		}
		for _, job := range waiting {
			if !pl.isOnNominatedSeats() && job != pl.job && !done[job.ID] && t.precedes(job, pl.job) != "" {
				out[i] = append(out[i], job.ID)
			}
		}
		done[pl.job.ID] = true
		t.addPlacement(pl)
	}
	return out
}

// isPlaceable reports whether this plan could place a job if there were
// capacity.
func (t *checker) isPlaceable(job *ares.Job, run *ares.Run) bool {
	if run == nil {
		return true
	}
	if run.Stop != nil || !run.Settled() || run.Phase.Final() {
		return false
	}
	if job.ArrayOf != "" {
		if array, ok := t.state.Run(job.ArrayOf); ok && array.Stop != nil {
			return false
		}
	}
	if job.IsArray() {
		return run.Next < job.Array.Count && t.unfinishedElements(job, run.Next) < job.Array.Parallelism
	}
	return run.Phase == ares.Pending
}
