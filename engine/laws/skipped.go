package laws

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Passed lists, for each placing of a plan, the jobs that precede it and were
// not placed before it: each of them must have found no place at that point.
// Whoever can put the placings into a state one by one can see whether it did.
func Passed(s *engine.State, p *ares.Plan) [][]ares.JobID {
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

// isPlaceable says whether a job could be placed by this plan if there were room.
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
