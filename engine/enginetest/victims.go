package enginetest

import (
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// CheckVictimsNeeded checks that every victim of a nomination is needed: the job does not
// fit on a fork of the cluster where all other victims, and jobs that are being
// stopped, have left. The plan must not be committed yet.
func (w *Cluster) CheckVictimsNeeded(plan ares.Plan) error {
	for i := range plan.Nominate {
		n := &plan.Nominate[i]
		for k := range n.Nomination.Victims {
			stays := n.Nomination.Victims[k].Job
			if n.Nomination.Victims[k].Yield.Why == ares.PreemptByMove {
				continue
			}
			f := w.Fork()
			if err := f.applyUntil(plan, i, stays); err != nil {
				return err
			}
			job, _ := f.State.Job(n.Job)
			p, refusal := engine.Place(f.State, job, w.Now)
			if refusal == nil && f.isInNextPlan(n.Job) {
				return fmt.Errorf("%s is stopped for %s, which fits without that on %v", stays, n.Job, p.Seats)
			}
		}
	}
	return nil
}

// isInNextPlan reports whether the next plan places a job. A job that fits may
// still wait because of backfill reservations of others.
func (w *Cluster) isInNextPlan(id ares.JobID) bool {
	plan := engine.Decide(w.State, w.Now)
	return slices.ContainsFunc(plan.Place, func(p ares.Placing) bool { return p.Job == id })
}

// applyUntil applies a plan up to its nomination at index at, and ends every
// job that is being stopped by then or for that nomination, except stays. An
// index behind the last nomination applies the whole plan.
func (w *Cluster) applyUntil(plan ares.Plan, at int, stays ares.JobID) error {
	rest := plan
	rest.Nominate = plan.Nominate[:at]
	rest.Stop = slices.DeleteFunc(slices.Clone(plan.Stop), func(s ares.Stopping) bool {
		return s.Stop.Yield != nil && slices.ContainsFunc(plan.Nominate[min(at+1, len(plan.Nominate)):], func(n ares.Nominating) bool { return n.Job == s.Stop.Yield.To })
	})
	if err := w.ApplyPlan(rest); err != nil {
		return err
	}
	var gone []ares.JobID
	for job, run := range w.State.Jobs() {
		if run != nil && run.Stop != nil && run.Current() != nil && job.ID != stays {
			gone = append(gone, job.ID)
		}
	}
	for _, id := range gone {
		err := w.UpdateRun(id, func(j *ares.Job, r *ares.Run) error {
			f := r.Fence()
			for k := range r.Last().Seats {
				h := r.Last().Seats[k]
				if h.State == ares.SeatPlaced || h.State == ares.SeatClaimed {
					if err := r.Finish(j, f, h.Rank, ares.RankResult{Outcome: ares.OutcomeStopped, EndedAt: w.Now}, w.Now); err != nil {
						return err
					}
				}
			}
			for k := range r.Last().Seats {
				if err := r.Release(f, r.Last().Seats[k].Rank); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// maxJobsToCheckVictims is the largest number of jobs for which CheckVictimsNeeded is
// called with fast checks: each victim costs a fork.
const maxJobsToCheckVictims = 40

// isSmall reports whether there are at most maxJobsToCheckVictims jobs.
func (w *Cluster) isSmall() bool {
	jobs := 0
	for range w.State.Jobs() {
		if jobs++; jobs > maxJobsToCheckVictims {
			return false
		}
	}
	return true
}
