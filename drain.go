package ares

import "time"

// Drain asks the attempt under way to end because a node it has a seat on is
// drained, and says whether anything was asked. An attempt that is being stopped
// already is left alone, and so is one that Endures.
func (r *Run) Drain(j *Job, c *Cordon, now time.Time) bool {
	return c.Drain && r.Leaves(j, c.Node, c.Force) && r.RequestStop(Stop{Why: StopDrain, By: c.By, At: now}) == nil
}

// Leaves says whether a drain of a node, with force or without, asks the attempt
// under way to end.
func (r *Run) Leaves(j *Job, node string, force bool) bool {
	a := r.Current()
	return a != nil && r.Stop == nil && a.livesOn(node) && (force || !r.Endures(j))
}

// Endures says whether the attempt under way must not be stopped to be run
// elsewhere: the job is at_most_once and a rank was claimed, so that it may have
// begun. Before that nothing has run, and a stop intent keeps it so.
func (r *Run) Endures(j *Job) bool {
	a := r.Current()
	if a == nil || j.Mode != AtMostOnce {
		return false
	}
	for i := range a.Seats {
		if a.Seats[i].State != SeatPlaced {
			return true
		}
	}
	return false
}

// livesOn says whether a rank of the attempt that has not ended is on the node.
func (a *Attempt) livesOn(node string) bool {
	for i := range a.Seats {
		if h := &a.Seats[i]; h.Node == node && h.Result == nil && !h.State.Settled() {
			return true
		}
	}
	return false
}

// wasStopped says whether an attempt of that outcome ended because it was asked
// to. In a gang a rank may fail in the moment before its own stop arrives,
// because another rank is gone; that is not the job's fault.
func (a *Attempt) wasStopped(worst Outcome) bool {
	return worst == OutcomeStopped || len(a.Seats) > 1 && (worst == OutcomeFailed || worst == OutcomeSignaled)
}

// drained ends an attempt that a drain has stopped.
func (r *Run) drained(j *Job, a *Attempt, by string, now time.Time) error {
	if j.Mode == AtMostOnce && a.begun() {
		return r.move(Lost, now, "its node was drained by "+by+" with force; at_most_once jobs are not run again")
	}
	return r.move(Pending, now, "its node is drained by "+by)
}

// begun says whether a rank may have started a process. One that was declined
// never did.
func (a *Attempt) begun() bool {
	for i := range a.Seats {
		if res := a.Seats[i].Result; res == nil || res.Reason != unclaimed {
			return true
		}
	}
	return false
}

// unclaimed is the reason of a rank that was stopped before its agent took it.
const unclaimed = "stopped before it was claimed"
