package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Explain says everything about a waiting job: what keeps it waiting, with
// counts; the smallest changes that would put it into the next plan; its position
// in the queue, and which jobs hold what it could use. A job that is not waiting, or
// that the next plan places, has no blockers and needs no remedy.
func Explain(s *State, id ares.JobID, now time.Time) ares.Explanation {
	return s.explain.Explain(id, now)
}

// Refusal says what keeps a job waiting, and no more.
func Refusal(s *State, id ares.JobID, now time.Time) ares.Refusal { return s.explain.Refusal(id, now) }

// Place says for one job, known to the state or not, whether it may run now and
// where: its seats, or everything that keeps it waiting. It does what Decide does
// with each waiting job, and changes nothing.
func Place(s *State, job *ares.Job, now time.Time) (ares.Placing, *ares.Refusal) {
	return s.explain.Place(job, now)
}

// WhatIf says what would become of a job if it were submitted now: where the next
// plan would place it, or else all that Explain would say of it then. p is its
// predicted runtime, nil for none. For a live job it answers as Place.
func WhatIf(s *State, job *ares.Job, p *ares.RuntimePredicted, now time.Time) (ares.Placing, *ares.Explanation) {
	return s.explain.WhatIf(job, p, now)
}
