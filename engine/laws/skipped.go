package laws

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// SkippedJobs returns a list of jobs for each placement. These jobs are earlier in the order than the
// placed job, but they are not placed before it. The plan breaks the order if one of these jobs would have
// fit at the time of the placement. To check this, a caller can add the placements to a second state one
// by one.
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
		turn := t.turnOf(pl)
		for _, job := range waiting {
			if !pl.isOnNominatedSeats() && job != pl.job && !done[job.ID] && t.precedesTurn(job, &turn) != "" {
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
