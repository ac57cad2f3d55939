package ares

import "time"

// Nomination keeps seats for a waiting job while those who sit there give way.
// It is part of the job's run, put there together with what stops them, so that
// a next leader goes on where this one was: nobody else is given the seats, and
// nobody else is stopped.
type Nomination struct {
	Seats   []Seat
	Why     PreemptionBasis
	Victims []Victim
	At      time.Time
	// Until is when it is given up if the seats are not free by then.
	Until time.Time
}

// Victim is one attempt that gives way.
type Victim struct {
	Job   JobID
	Fence Fence // of the attempt: a later one of the job is left alone
	Yield Preemption
}

// Preemption is the reckoning of one job that gives way to another.
type Preemption struct {
	To     JobID
	Tenant string // of To
	Why    PreemptionBasis
	// Milli is what it gives up, in thousandths of devices, and Lost what that
	// costs, in thousandths of GPU-seconds: its work since its last checkpoint,
	// and the restart, which is Restart of it.
	Milli, Lost, Restart int64
	// Asked is what To asked for, in thousandths of devices.
	Asked int64
}

// PreemptionBasis is the right by which one job stops another.
type PreemptionBasis string

// The rights.
const (
	PreemptByClass PreemptionBasis = "class" // its class is higher by two or more
	PreemptByQuota PreemptionBasis = "quota" // its tenant takes back what it had lent
	PreemptByOrder PreemptionBasis = "order" // it comes before it in the configured order of their queue
	PreemptByMove  PreemptionBasis = "move"  // the other has another place, and both run then
)

// Asker is who wants the stop, for people of a tenant: they are not told the
// names of other tenants' jobs.
func (s *Stop) Asker(tenant string) string {
	switch y := s.Yield; {
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

// GPUSeconds writes thousandths of GPU-seconds as GPU-seconds.
func (y *Preemption) GPUSeconds() float64 { return float64(y.Lost) / 1000 }

// Nominate keeps seats for a waiting job.
func (r *Run) Nominate(n Nomination) error {
	if r.Phase != Pending || r.Stop != nil || !r.Settled() {
		return Errorf(Conflict, "the job is %s: no seats can be kept for it", r.Phase)
	}
	r.Nominated = &n
	r.note(n.At, nominatedMessage(&n))
	return nil
}

// Withdraw gives up the seats that were kept for the job, for a reason.
func (r *Run) Withdraw(why string, now time.Time) error {
	if r.Nominated == nil {
		return Errorf(Conflict, "no seats are kept for the job")
	}
	r.Nominated = nil
	r.note(now, "the seats kept for it are given up: "+why)
	return nil
}

// checkpointed is what people read of a checkpoint.
const checkpointed = "checkpointed"

// Checkpointed notes that the attempt of a fence has saved its progress. Of
// checkpoints in a row only the last is among the transitions: a job that makes
// many must not push everything else out.
func (r *Run) Checkpointed(f Fence, at time.Time) error {
	a := r.Current()
	if a == nil || f == 0 || a.Fence != f {
		return Errorf(Fenced, "fence %d is not current (it is %d, the job is %s)", f, r.Fence(), r.Phase)
	}
	if !at.After(a.CheckpointedAt) || at.Before(a.PlacedAt) {
		return nil // told before, or a file that is older than the attempt
	}
	a.CheckpointedAt = at
	if n := len(r.Transitions); n > 0 && r.Transitions[n-1].Message == checkpointed && r.Transitions[n-1].Attempt == r.Placed {
		r.Transitions, r.Dropped = r.Transitions[:n-1], r.Dropped+1
	}
	r.note(at, checkpointed)
	return nil
}

// Checkpoint is when the job last saved its progress in an attempt that is
// known, zero for never.
func (r *Run) Checkpoint() time.Time {
	var last time.Time
	for i := range r.Attempts {
		if at := r.Attempts[i].CheckpointedAt; at.After(last) {
			last = at
		}
	}
	return last
}

// reckoned is what the attempt's giving way has cost in the end: it may have
// saved its progress after it was asked to stop, and it has worked on till now.
func (a *Attempt) reckoned(y *Preemption, now time.Time) *Preemption {
	if y == nil {
		return nil
	}
	out := *y
	out.Lost = out.Restart
	if kept := a.Kept(); !kept.IsZero() {
		out.Lost += y.Milli * max(now.Sub(kept), 0).Milliseconds() / 1000
	}
	return &out
}

// Kept is until when the attempt's progress is safe: its last checkpoint, or
// its start. It is zero before it has started.
func (a *Attempt) Kept() time.Time {
	if a.CheckpointedAt.After(a.StartedAt) {
		return a.CheckpointedAt
	}
	return a.StartedAt
}

// Saved is how much of an ended attempt's work the next one goes on from, in a
// job that keeps its progress: up to its last checkpoint. One that never spoke of
// any has saved everything if it was asked to stop, and nothing if it failed or
// was lost.
func (a *Attempt) Saved() time.Duration {
	switch {
	case a.StartedAt.IsZero():
		return 0
	case a.CheckpointedAt.After(a.StartedAt):
		return a.Kept().Sub(a.StartedAt)
	case a.Outcome == OutcomeStopped:
		return a.lasted(a.EndedAt)
	}
	return 0
}
