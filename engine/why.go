package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Explain says everything about a waiting job: what keeps it waiting, with
// counts, where it stands in line, and who holds what it could use. A job that
// is not waiting, or that the next decision may place, has no blockers.
func Explain(s *State, id ares.JobID, now time.Time) ares.Explanation {
	out := ares.Explanation{Refusal: Refusal(s, id, now)}
	e := s.jobs[id]
	if e == nil || !e.waits() {
		return out
	}
	out.Queue = e.job.Queue
	return out
}

// Refusal says what keeps a job waiting, and no more.
func Refusal(s *State, id ares.JobID, now time.Time) ares.Refusal {
	out := ares.Refusal{Job: id}
	if e := s.jobs[id]; e != nil && e.waits() {
		s.ready()
		out.Blockers = s.blockers(e, e.shape, e.job.GPUModel, now)
	}
	return out
}

// waits says whether something of the job waits: it, or elements not yet made.
func (e *entry) waits() bool { return e.job != nil && (e.phase().Waiting() || e.unmade()) }
