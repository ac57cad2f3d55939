package ares

import "time"

// Nomination reserves seats for a waiting job while the jobs that use those devices are preempted.
// A Nomination is stored in the job's run in the same transaction as the stop intents of the
// victims. A new leader can therefore continue the preemption without giving the seats to another
// job or stopping further jobs.
type Nomination struct {
	Seats   []Seat
	Why     PreemptionBasis
	Victims []Victim
	At      time.Time
	// Until is a deadline. If the seats are not free by then, the nomination is withdrawn.
	Until time.Time
}

// Victim is one attempt that is being preempted.
type Victim struct {
	Job        JobID
	Fence      Fence      // fence of the attempt, so that a later attempt of the job is not stopped
	Preemption Preemption `json:"Yield"` // the JSON name is the original one, because history uses it
}

// A Preemption records which job preempted the victim, which rule allowed the preemption, and what it cost.
type Preemption struct {
	To     JobID
	Tenant string // tenant of To
	Why    PreemptionBasis
	// Milli is the number of GPUs that the victim loses, in thousandths of a device. Lost is the cost of the preemption, in thousandths
	// of GPU-seconds. Lost is the work since the last checkpoint plus the cost of the restart.
	// Restart is the cost of the restart alone.
	Milli, Lost, Restart int64
	// Asked is the number of devices that the preemptor (field To) requests, in thousandths of a
	// device.
	Asked int64
}

// PreemptionBasis is the rule that allows one job to preempt another.
type PreemptionBasis string

// These are the rules that can allow a preemption.
const (
	PreemptByClass PreemptionBasis = "class" // the preemptor's class is at least two classes higher
	PreemptByQuota PreemptionBasis = "quota" // the preemptor's tenant reclaims borrowed quota
	PreemptByOrder PreemptionBasis = "order" // the preemptor comes first in the configured order of their queue
	PreemptByMove  PreemptionBasis = "move"  // the victim fits on other nodes, so that both jobs run
)

// RequestedBy names the requester of the stop for a reader who belongs to the given tenant. RequestedBy hides the IDs of other
// tenants' jobs.
func (s *Stop) RequestedBy(tenant string) string {
	switch y := s.Preemption; {
	case y == nil:
		return s.By
	case y.Tenant == tenant:
		return "job " + string(y.To) + " (" + string(y.Why) + ")"
	case tenant == "":
		return "another job (" + string(y.Why) + ")"
	default:
		return "a job of another tenant (" + string(y.Why) + ")"
	}
}

// GPUSeconds converts the cost in the field Lost to GPU-seconds.
func (y *Preemption) GPUSeconds() float64 { return float64(y.Lost) / 1000 }

// This constant is the event text of a checkpoint.
const checkpointed = "checkpointed"

// Checkpoint returns the time at which the job last saved its progress. It reads only the recorded
// attempts, and returns zero if none of them saved its progress.
func (r *Run) Checkpoint() time.Time {
	var last time.Time
	for i := range r.Attempts {
		if at := r.Attempts[i].CheckpointedAt; at.After(last) {
			last = at
		}
	}
	return last
}

// preemptionCost is the final cost of the attempt's preemption. The cost is computed again at the end. The attempt kept
// running after the stop request and may have saved its progress.
func (a *Attempt) preemptionCost(y *Preemption, now time.Time) *Preemption {
	if y == nil {
		return nil
	}
	out := *y
	out.Lost = out.Restart
	if kept := a.SavedUntil(); !kept.IsZero() {
		out.Lost += y.Milli * max(now.Sub(kept), 0).Milliseconds() / 1000
	}
	return &out
}

// SavedUntil is the time up to which the attempt's progress is saved. SavedUntil is the attempt's last checkpoint or, without one, its
// start. SavedUntil is zero before the attempt has started.
func (a *Attempt) SavedUntil() time.Time {
	if a.CheckpointedAt.After(a.StartedAt) {
		return a.CheckpointedAt
	}
	return a.StartedAt
}

// If the job keeps its progress, SavedWork is the part of an ended attempt's work that the next attempt need not
// repeat. The saved work is the work until the last checkpoint. If no checkpoint was reported, the way in which the
// attempt ended decides. An attempt that was asked to stop counts as having saved everything. An attempt that failed or
// was lost counts as having saved nothing.
func (a *Attempt) SavedWork() time.Duration {
	switch {
	case a.StartedAt.IsZero():
		return 0
	case a.CheckpointedAt.After(a.StartedAt):
		return a.SavedUntil().Sub(a.StartedAt)
	case a.Outcome == OutcomeStopped:
		return a.ranFor(a.EndedAt)
	}
	return 0
}
