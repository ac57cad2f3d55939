package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Explain says everything about a waiting job: what keeps it waiting, with
// counts, where it stands in line, and who holds what it could use. A job that
// is not waiting, or that the next decision may place, has no blockers.
func Explain(s *State, id ares.JobID, now time.Time) ares.Explanation {
	out := ares.Explanation{Refusal: ares.Refusal{Job: id}}
	e := s.jobs[id]
	if e == nil || e.job == nil || !e.phase().Waiting() {
		return out
	}
	s.ready()
	out.Blockers = s.blockers(e, e.shape, e.job.GPUModel, now)
	return out
}
