package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Explain describes a waiting job: its blockers with counts, its position in the queue, its ETA, the jobs that hold
// devices it could use, and its remedies. Remedies are the smallest changes that put the job into the next plan. A job
// that does not wait, or that the next plan places, has no blockers and no remedies.
func Explain(s *State, id ares.JobID, now time.Time) ares.Explanation {
	return s.explain.Explain(id, now)
}

// Refusal returns only the blockers of a waiting job.
func Refusal(s *State, id ares.JobID, now time.Time) ares.Refusal { return s.explain.Refusal(id, now) }

// Place places one job as if no other job were waiting. The job need not be in the state. Place returns the job's
// seats, or all its blockers if the job does not fit. The state does not change.
func Place(s *State, job *ares.Job, now time.Time) (ares.Placing, *ares.Refusal) {
	return s.explain.Place(job, now)
}

// WhatIf simulates the submission of a job. WhatIf returns the placement that the next plan would make for the
// job, or the explanation that Explain would give. The parameter p is the predicted runtime of the job, or nil if
// there is no prediction. For a job that is already in the state, WhatIf returns the same result as Place.
func WhatIf(s *State, job *ares.Job, p *ares.RuntimePredicted, now time.Time) (ares.Placing, *ares.Explanation) {
	return s.explain.WhatIf(job, p, now)
}
