package enginetest

import (
	"fmt"
	"math"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// attemptRanks returns the attempt and the ranks that a command applies to. The default is the last attempt
// (attempt=N selects another) with all its ranks (rank=N selects one).
func attemptRanks(w *Cluster, in *arguments) (id ares.JobID, f ares.Fence, ranks []int, err error) {
	id = in.job()
	run, ok := w.State.Run(id)
	number, rank := in.number("attempt", 0), in.number("rank", -1)
	if !ok {
		return id, 0, nil, fmt.Errorf("there is no job %s", id)
	}
	for _, a := range run.Attempts {
		if number != 0 && a.Number != number {
			continue
		}
		f, ranks = a.Fence, ranks[:0]
		for _, h := range a.Seats {
			if rank < 0 || h.Rank == rank {
				ranks = append(ranks, h.Rank)
			}
		}
	}
	if len(ranks) == 0 {
		return id, 0, nil, fmt.Errorf("there is no such attempt or rank")
	}
	return id, f, ranks, nil
}

// changeRanks applies a transition for each rank that a command applies to.
func changeRanks(w *Cluster, in *arguments, change func(j *ares.Job, r *ares.Run, f ares.Fence, rank int) error) (string, error) {
	id, fence, ranks, err := attemptRanks(w, in)
	if err != nil {
		return "", err
	}
	for _, rank := range ranks {
		err := w.UpdateRun(id, func(j *ares.Job, r *ares.Run) error { return change(j, r, fence, rank) })
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

// doClaim claims seats.
func doClaim(w *Cluster, in *arguments) (string, error) {
	return changeRanks(w, in, func(j *ares.Job, r *ares.Run, f ares.Fence, rank int) error {
		node := ""
		for _, a := range r.Attempts {
			for _, h := range a.Seats {
				if a.Fence == f && h.Rank == rank {
					node = h.Node
				}
			}
		}
		return r.Claim(j, f, rank, node, w.Now)
	})
}

// doFinish reports that ranks have ended.
func doFinish(w *Cluster, in *arguments) (string, error) {
	res := ares.RankResult{ExitCode: in.number("exit", 0), StartedAt: w.Now, EndedAt: w.Now}
	res.Outcome, res.Reason = ares.OutcomeSucceeded, "exit code 0"
	if res.ExitCode != 0 {
		res.Outcome, res.Reason = ares.OutcomeFailed, fmt.Sprintf("exit code %d", res.ExitCode)
	}
	if o := in.text("outcome", ""); o != "" {
		res.Outcome, res.Reason = ares.Outcome(o), o
	}
	return changeRanks(w, in, func(j *ares.Job, r *ares.Run, f ares.Fence, rank int) error {
		return r.Finish(j, f, rank, res, w.Now)
	})
}

// doRelease releases seats.
func doRelease(w *Cluster, in *arguments) (string, error) {
	return changeRanks(w, in, func(_ *ares.Job, r *ares.Run, f ares.Fence, rank int) error { return r.Release(f, rank) })
}

// doDecline declines seats.
func doDecline(w *Cluster, in *arguments) (string, error) {
	return changeRanks(w, in, func(j *ares.Job, r *ares.Run, f ares.Fence, rank int) error { return r.Decline(j, f, rank, w.Now) })
}

// doCheckpoint reports that a job has saved its progress.
func doCheckpoint(w *Cluster, in *arguments) (string, error) {
	return "", w.UpdateRun(in.job(), func(_ *ares.Job, r *ares.Run) error { return r.Checkpointed(r.Fence(), w.Now) })
}

// doVoidNode voids every unsettled seat of a node, as the Reaper does when a lost node does not reconnect.
func doVoidNode(w *Cluster, in *arguments) (string, error) {
	return "", w.VoidNode(in.first())
}

// VoidNode voids every unsettled seat of a node.
func (w *Cluster) VoidNode(node string) error {
	for _, id := range w.jobIDs() {
		err := w.UpdateRun(id, func(j *ares.Job, r *ares.Run) error {
			for _, a := range r.Clone().Attempts {
				for _, h := range a.Seats {
					if h.Node != node || h.State.Settled() {
						continue
					}
					if err := r.Void(j, a.Fence, h.Rank, w.Now); err != nil {
						return err
					}
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

// doCleanNode frees those seats on a node whose attempts have ended.
func doCleanNode(w *Cluster, in *arguments) (string, error) {
	return "", w.CleanNode(in.first())
}

// CleanNode frees those seats on a node whose attempts have ended. It acts as if the node had reported that none of
// their processes are left.
func (w *Cluster) CleanNode(node string) error {
	for _, id := range w.jobIDs() {
		err := w.UpdateRun(id, func(_ *ares.Job, r *ares.Run) error {
			r.Clear(node, nil, math.MaxInt64)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// jobIDs returns the IDs of all jobs.
func (w *Cluster) jobIDs() []ares.JobID {
	var ids []ares.JobID
	for job := range w.State.Jobs() {
		ids = append(ids, job.ID)
	}
	return ids
}

// doStop asks a job to stop. The command's name (cancel, preempt or drain) is the reason for the stop.
func doStop(w *Cluster, in *arguments) (string, error) {
	stop := ares.Stop{Why: ares.StopWhy(in.command), By: "ann", At: w.Now}
	return "", w.UpdateRun(in.job(), func(_ *ares.Job, r *ares.Run) error { return r.RequestStop(stop) })
}

// doShow prints the run of a job.
func doShow(w *Cluster, in *arguments) (string, error) {
	run, ok := w.State.Run(in.job())
	if !ok {
		return "", fmt.Errorf("there is no job %s", in.first())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s", in.first(), run.Phase)
	if run.Next > 0 {
		fmt.Fprintf(&b, ", %d elements made", run.Next)
	}
	if run.Stop != nil {
		fmt.Fprintf(&b, ", asked to stop (%s)", run.Stop.Why)
	}
	if !run.NotBefore.IsZero() {
		fmt.Fprintf(&b, ", due in %s", run.NotBefore.Sub(w.Now).Round(time.Millisecond))
	}
	b.WriteString("\n")
	for _, a := range run.Attempts {
		fmt.Fprintf(&b, "  attempt %d:", a.Number)
		for _, h := range a.Seats {
			fmt.Fprintf(&b, " %s on %s", h.State, h.Node)
		}
		if a.Ended() {
			fmt.Fprintf(&b, " (%s)", a.Outcome)
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}
