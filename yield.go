package ares

import "time"

// Nomination keeps seats for a waiting job while those who sit there give way.
// It is part of the job's run, put there together with what stops them, so that
// a next leader goes on where this one was: nobody else is given the seats, and
// nobody else is stopped.
type Nomination struct {
	Seats   []Seat
	Why     YieldWhy
	Victims []Victim
	At      time.Time
	// Until is when it is given up if the seats are not free by then.
	Until time.Time
}

// Victim is one attempt that gives way.
type Victim struct {
	Job   JobID
	Fence Fence // of the attempt: a later one of the job is left alone
	Yield Yield
}

// Yield is the reckoning of one job that gives way to another.
type Yield struct {
	To     JobID
	Tenant string // of To
	Why    YieldWhy
	// Milli is what it gives up, in thousandths of devices, and Lost what that
	// costs, in thousandths of GPU-seconds: its work since its last checkpoint,
	// and the restart.
	Milli, Lost int64
	// Asked is what To asked for, in thousandths of devices.
	Asked int64
}

// YieldWhy is the right by which one job stops another.
type YieldWhy string

// The rights.
const (
	YieldClass YieldWhy = "class" // its class is higher by two or more
	YieldQuota YieldWhy = "quota" // its tenant takes back what it had lent
	YieldOrder YieldWhy = "order" // it comes before it in the configured order of their queue
	YieldMove  YieldWhy = "move"  // the other has another place, and both run then
)

// GPUSeconds writes thousandths of GPU-seconds as GPU-seconds.
func (y *Yield) GPUSeconds() float64 { return float64(y.Lost) / 1000 }

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

// Checkpointed notes that the attempt of a fence has saved its progress.
func (r *Run) Checkpointed(f Fence, now time.Time) error {
	a := r.Current()
	if a == nil || f == 0 || a.Fence != f {
		return Errorf(Fenced, "fence %d is not current (it is %d, the job is %s)", f, r.Fence(), r.Phase)
	}
	if now.After(a.CheckpointedAt) {
		a.CheckpointedAt = now
	}
	return nil
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
