package laws

import (
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// PlannedStartCheck observes a sequence of plans. It checks that the first job in queue order starts by its firm
// planned start. Some events may move a planned start, and therefore reset the check: a job runs longer than
// estimated, a job is requeued or stopped, or an earlier job in the order is placed. The caller must call Reset
// for every other event that may move a planned start. So the check verifies that jobs placed by backfill do not
// delay the first job. The zero value is ready for use.
type PlannedStartCheck struct {
	// The field Met counts the planned starts that were met. The field Moved counts the planned
	// starts that an event moved.
	Met, Moved int

	job          ares.JobID               // the job with the firm planned start, "" for none
	latest       time.Time                // the latest start
	expectedEnds map[ares.JobID]time.Time // of running jobs, zero if unknown
}

// Reset drops the current planned start, because an event may have moved it.
func (k *PlannedStartCheck) Reset() {
	if k.job != "" {
		k.Moved++
	}
	k.job, k.expectedEnds = "", nil
}

// Observe checks a plan and its planned starts before the plan is written.
func (k *PlannedStartCheck) Observe(s *engine.State, p *ares.Plan, starts []ares.PlannedStart) error {
	ends, stopping := expectedEnds(s, p.Now)
	yields := len(p.Stop)+len(p.Nominate)+len(p.Withdraw) > 0 // preemptions of this plan change its planned starts
	if k.job != "" && (stopping || yields || k.hasOverrun(s, ends)) {
		k.Reset()
	}
	first := ares.PlannedStart{}
	if len(starts) > 0 && starts[0].Firm && !stopping && len(p.Place) == 0 { // otherwise the next plan has the planned start, after these placements
		first = starts[0]
	}
	if err := k.checkPromise(p, &first); err != nil {
		return Violation{"promises", err}
	}
	overtaken := len(starts) > 0 && starts[0].Job != k.job
	if overtaken || len(p.Place) == 0 && first.Job != k.job {
		k.Reset()
		k.job, k.latest = first.Job, first.Latest
	}
	k.expectedEnds = ends
	if k.job != "" && k.affectsPromise(s, p) {
		k.Reset()
	}
	return nil
}

// checkPromise checks that the planned start is still possible, or that the plan places
// the job in time.
func (k *PlannedStartCheck) checkPromise(p *ares.Plan, first *ares.PlannedStart) error {
	placed := slices.ContainsFunc(p.Place, func(pl ares.Placing) bool { return k.job == pl.Job || k.job == pl.ArrayOf })
	switch {
	case k.job == "":
	case placed && p.Now.After(k.latest):
		return fmt.Errorf("%s starts at %s, but its latest allowed start is %s", k.job, p.Now, k.latest)
	case placed:
		k.Met++
		k.job = ""
	case first.Job == k.job && first.At.After(k.latest):
		return fmt.Errorf("the planned start of %s was moved to %s, but its latest allowed start is %s", k.job, first.At, k.latest)
	}
	return nil
}

// affectsPromise reports whether a plan may move the planned start for a reason other than
// backfill.
func (k *PlannedStartCheck) affectsPromise(s *engine.State, p *ares.Plan) bool {
	if len(p.Ready)+len(p.Stop)+len(p.Nominate)+len(p.Withdraw) > 0 {
		return true
	}
	return slices.ContainsFunc(SkippedJobs(s, p), func(before []ares.JobID) bool { return !slices.Contains(before, k.job) })
}

// hasOverrun reports whether a job ran longer than estimated, or was lost and waits again.
func (k *PlannedStartCheck) hasOverrun(s *engine.State, ends map[ares.JobID]time.Time) bool {
	for id, was := range k.expectedEnds { // order-free: any match is enough
		end, runs := ends[id]
		if run, known := s.Run(id); !runs && known && run.Last() != nil {
			if run.Phase.Waiting() {
				return true
			}
			end = run.Last().EndedAt
		}
		if !was.IsZero() && end.After(was.Add(time.Second)) {
			return true
		}
	}
	return false
}

// expectedEnds returns the estimated end of each running job, or zero if the end is
// unknown. It also reports whether any job is being stopped, because a stop takes an
// unknown time.
func expectedEnds(s *engine.State, now time.Time) (ends map[ares.JobID]time.Time, stopping bool) {
	ends = map[ares.JobID]time.Time{}
	for job, run := range s.Jobs() {
		if run == nil || run.Current() == nil {
			continue
		}
		stopping = stopping || run.Stop != nil
		ends[job.ID] = time.Time{}
		if end, known := s.ExpectedEnd(job.ID, now); known {
			ends[job.ID] = end
		}
	}
	return ends, stopping
}
