package ares

// IsStoppedByDrain reports whether the drain of a node stops the current attempt. The drain may be forced or not.
func (r *Run) IsStoppedByDrain(j *Job, node string, force bool) bool {
	a := r.Current()
	return a != nil && r.Stop == nil && a.isLiveOn(node) && (force || !r.MustFinish(j))
}

// MustFinish reports whether the current attempt must run to its end. Such an attempt must not be stopped and run again on another node.
// Once an agent has claimed a rank of an at_most_once job, the attempt must finish, because a process may have started. Before a rank is
// claimed, no process has started, and a stop intent prevents any process from starting.
func (r *Run) MustFinish(j *Job) bool {
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

// isLiveOn reports whether the attempt still has a live rank on the node.
func (a *Attempt) isLiveOn(node string) bool {
	for i := range a.Seats {
		if h := &a.Seats[i]; h.Node == node && h.Result == nil && !h.State.Settled() {
			return true
		}
	}
	return false
}

// wasStopped reports whether an attempt ended because of a stop intent. The argument `worst` is
// the attempt's outcome. When one rank of a gang is stopped, another rank may fail before its own
// stop arrives. A rank that fails because another rank was stopped does not make the job count as
// failed.
func (a *Attempt) wasStopped(worst Outcome) bool {
	return worst == OutcomeStopped || len(a.Seats) > 1 && (worst == OutcomeFailed || worst == OutcomeSignaled)
}

// mayHaveStarted reports whether a rank may have started a process. A declined rank never started a
// process.
func (a *Attempt) mayHaveStarted() bool {
	for i := range a.Seats {
		if res := a.Seats[i].Result; res == nil || res.Reason != unclaimed {
			return true
		}
	}
	return false
}

// The constant `unclaimed` is the reason recorded for a rank that was stopped before its
// agent claimed it.
const unclaimed = "stopped before it was claimed"
