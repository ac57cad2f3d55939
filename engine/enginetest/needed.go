package enginetest

import (
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Needed wants no victim of a nomination that is not needed: when all others are
// gone, and those who are being stopped already, the job does not fit as long as
// it stays. It asks a second world in which that is so. The plan must not be
// committed yet.
func (w *World) Needed(plan ares.Plan) error {
	for i := range plan.Nominate {
		n := &plan.Nominate[i]
		for k := range n.Nomination.Victims {
			stays := n.Nomination.Victims[k].Job
			if n.Nomination.Victims[k].Yield.Why == ares.YieldMove {
				continue
			}
			f := w.Fork()
			if err := f.without(plan, i, stays); err != nil {
				return err
			}
			job, _ := f.State.Job(n.Job)
			p, refusal := engine.Place(f.State, job, w.Now)
			if refusal == nil && f.inNextPlan(n.Job) {
				return fmt.Errorf("%s is stopped for %s, which fits without that on %v", stays, n.Job, p.Seats)
			}
		}
	}
	return nil
}

// inNextPlan says whether the next plan places a job: where it would fit, others ahead
// of it may have a place kept.
func (w *World) inNextPlan(id ares.JobID) bool {
	plan := engine.Decide(w.State, w.Now)
	return slices.ContainsFunc(plan.Place, func(p ares.Placing) bool { return p.Job == id })
}

// without carries a plan out as far as before one of its nominations, and has
// everybody gone who is being stopped by then or for that one, besides one. There may
// be none at that place: then it is all carried out.
func (w *World) without(plan ares.Plan, at int, stays ares.JobID) error {
	rest := plan
	rest.Nominate = plan.Nominate[:at]
	rest.Stop = slices.DeleteFunc(slices.Clone(plan.Stop), func(s ares.Stopping) bool {
		return s.Stop.Yield != nil && slices.ContainsFunc(plan.Nominate[min(at+1, len(plan.Nominate)):], func(n ares.Nominating) bool { return n.Job == s.Stop.Yield.To })
	})
	if err := w.Write(rest); err != nil {
		return err
	}
	var gone []ares.JobID
	for job, run := range w.State.Jobs() {
		if run != nil && run.Stop != nil && run.Current() != nil && job.ID != stays {
			gone = append(gone, job.ID)
		}
	}
	for _, id := range gone {
		err := w.Change(id, func(j *ares.Job, r *ares.Run) error {
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

// smallWorld is how many jobs a world has at most in which every plan is asked
// whether its victims are needed: each of them costs a world of its own.
const smallWorld = 40

func (w *World) small() bool {
	jobs := 0
	for range w.State.Jobs() {
		if jobs++; jobs > smallWorld {
			return false
		}
	}
	return true
}
