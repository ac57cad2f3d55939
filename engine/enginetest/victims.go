package enginetest

import (
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// CheckVictimsNeeded checks that every victim of a nomination is needed. To check one victim, CheckVictimsNeeded
// makes a copy of the cluster. In this copy, all other victims and all stopping jobs have ended. If the
// nominated job fits on this copy, the victim was not needed. The plan must not be committed yet.
func (w *Cluster) CheckVictimsNeeded(plan ares.Plan) error {
	for i := range plan.Nominate {
		n := &plan.Nominate[i]
		for k := range n.Nomination.Victims {
			stays := n.Nomination.Victims[k].Job
			if n.Nomination.Victims[k].Preemption.Why == ares.PreemptByMove {
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

// isInNextPlan reports whether the next plan places a job. A job that fits may still wait
// because other jobs have backfill reservations.
func (w *Cluster) isInNextPlan(id ares.JobID) bool {
	plan := engine.Decide(w.State, w.Now)
	return slices.ContainsFunc(plan.Place, func(p ares.Placing) bool { return p.Job == id })
}

// applyUntil applies the nominations of a plan up to the index `at`. Then it ends every stopping job, including
// the victims of the nomination at this index. The parameter `stays` is the ID of a job that does not end. If
// `at` is greater than the index of the last nomination, the whole plan is applied.
func (w *Cluster) applyUntil(plan ares.Plan, at int, stays ares.JobID) error {
	rest := plan
	rest.Nominate = plan.Nominate[:at]
	rest.Stop = slices.DeleteFunc(slices.Clone(plan.Stop), func(s ares.Stopping) bool {
		return s.Stop.Preemption != nil && slices.ContainsFunc(plan.Nominate[min(at+1, len(plan.Nominate)):], func(n ares.Nominating) bool { return n.Job == s.Stop.Preemption.To })
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

// With fast checks, CheckVictimsNeeded is called only if the cluster has no more than maxJobsToCheckVictims jobs.
// Clusters with more jobs are not checked, because each victim requires a copy of the cluster.
const maxJobsToCheckVictims = 40

// isSmall reports whether the number of jobs does not exceed maxJobsToCheckVictims.
func (w *Cluster) isSmall() bool {
	jobs := 0
	for range w.State.Jobs() {
		if jobs++; jobs > maxJobsToCheckVictims {
			return false
		}
	}
	return true
}
