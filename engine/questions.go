package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Explain describes a waiting job: its blockers with counts, its position in the
// queue, its ETA, the jobs that hold devices it could use, and its remedies, which
// are the smallest changes that put it into the next plan. A job that does not wait,
// or that the next plan places, has no blockers and no remedies.
func Explain(s *State, id ares.JobID, now time.Time) ares.Explanation {
	return s.explain.Explain(id, now)
}

// Refusal returns only the blockers of a waiting job.
func Refusal(s *State, id ares.JobID, now time.Time) ares.Refusal { return s.explain.Refusal(id, now) }

// Place places one job, whether the state knows it or not, as if no other job were
// waiting: it returns the seats, or all blockers. Nothing changes in the state.
func Place(s *State, job *ares.Job, now time.Time) (ares.Placing, *ares.Refusal) {
	return s.explain.Place(job, now)
}

// WhatIf simulates the submission of a job: it returns the placing that the next plan
// would make, or the explanation that Explain would give. p is the predicted runtime
// of the job, nil if there is none. For a job that the state knows WhatIf answers as
// Place does.
func WhatIf(s *State, job *ares.Job, p *ares.RuntimePredicted, now time.Time) (ares.Placing, *ares.Explanation) {
	return s.explain.WhatIf(job, p, now)
}
