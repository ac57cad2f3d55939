package ares

import "time"

// Run is the mutable state of a job. A job without a stored Run is pending.
// Its methods are the only way it changes; each is pure, so that the store can
// apply one inside a transaction and try again when somebody was faster.
type Run struct {
	Phase       Phase
	Attempts    []Attempt     // oldest first; old ones are dropped once free
	Placed      int           // attempts placed so far, dropped ones included
	Retries     int           // retries of the user's own used up
	Losses      int           // attempts lost to infrastructure, in a row
	Next        int           // of an array: elements made so far
	Ran         time.Duration // of attempts no longer kept
	NotBefore   time.Time     // while retrying: earliest next placement
	Stop        *Stop
	Nominated   *Nomination // while it waits: seats that are kept for it
	Yields      int         // times it gave way to another job
	Lateness    Lateness    // what was noted of its deadline
	Transitions []Transition
	Dropped     int    // transitions no longer kept
	Reason      string // of the present phase, for people
	FinishedAt  time.Time
	Revision    int64  // of the record; 0 when it is not stored yet
	Extra       []byte // fields of a newer version, carried through unread
}

// Limits on what a run remembers, so that its record stays small.
const (
	MaxAttemptsKept    = 8
	MaxSeatsKept       = 2048 // of all attempts, the present one aside
	MaxTransitionsKept = 32
)

// Stop is an intent to end the present attempt. It is not a phase: the seats
// are held until the processes are dead.
type Stop struct {
	Why   StopWhy
	By    string
	At    time.Time
	Grace time.Duration
	Yield *Preemption // of a preemption: for whom, and what it costs
}

// StopWhy is the reason of a stop intent.
type StopWhy string

// The reasons to stop an attempt.
const (
	StopCancel  StopWhy = "cancel"  // somebody asked
	StopPreempt StopWhy = "preempt" // a more urgent job needs the place
	StopDrain   StopWhy = "drain"   // the node is to be emptied
	StopMember  StopWhy = "member"  // another rank of the gang failed
	StopLost    StopWhy = "lost"    // another rank of the gang was lost
	StopQueue   StopWhy = "queue"   // it has waited for its first place as long as it would; By says how long
)

// Transition is one step of a job's life as people read it.
type Transition struct {
	At      time.Time
	Phase   Phase
	Attempt int
	Message string
}

// NewRun is the run of a job that was just accepted.
func NewRun(acceptedAt time.Time) Run {
	return Run{Phase: Pending, Transitions: []Transition{{At: acceptedAt, Phase: Pending, Message: accepted}}}
}

// accepted is the message of a run's first transition.
const accepted = "accepted"

// Current is the attempt under way, nil when there is none.
func (r *Run) Current() *Attempt {
	if n := len(r.Attempts); n > 0 && !r.Attempts[n-1].Ended() {
		return &r.Attempts[n-1]
	}
	return nil
}

// Last is the latest attempt, nil before the first.
func (r *Run) Last() *Attempt {
	if n := len(r.Attempts); n > 0 {
		return &r.Attempts[n-1]
	}
	return nil
}

// Fence is the fence of the attempt under way, 0 when there is none.
func (r *Run) Fence() Fence {
	if a := r.Current(); a != nil {
		return a.Fence
	}
	return 0
}

// Settled says whether no seat of an earlier attempt can still hold a live
// process, so that the next attempt may be placed.
func (r *Run) Settled() bool {
	for i := range r.Attempts {
		if !r.Attempts[i].settled() {
			return false
		}
	}
	return true
}

// Free says whether every device the job ever held is free again.
func (r *Run) Free() bool {
	for i := range r.Attempts {
		if !r.Attempts[i].Free() {
			return false
		}
	}
	return true
}

// RanFor is how long the job's attempts have run by now, from the start of their
// last rank on.
func (r *Run) RanFor(now time.Time) time.Duration {
	sum := r.Ran
	for i := range r.Attempts {
		sum += r.Attempts[i].lasted(now)
	}
	return sum
}

// Done is how much of its work a job has behind it by now: what its present
// attempt has run, and, if it keeps its progress, what earlier ones have saved.
// Attempts that are no longer kept are taken to have saved all they ran.
func (r *Run) Done(j *Job, now time.Time) time.Duration {
	sum := time.Duration(0)
	if j.Checkpoint.Enabled {
		sum = r.Ran
	}
	for i := range r.Attempts {
		switch a := &r.Attempts[i]; {
		case !a.Ended():
			sum += a.lasted(now)
		case j.Checkpoint.Enabled:
			sum += a.Saved()
		}
	}
	return sum
}

// Progress is what a running job says of itself.
type Progress struct {
	Percent float64
	Message string
	At      time.Time
}

func (r *Run) attempt(f Fence) *Attempt {
	for i := range r.Attempts {
		if r.Attempts[i].Fence == f {
			return &r.Attempts[i]
		}
	}
	return nil
}

func (a *Attempt) seat(rank int) *Held {
	for i := range a.Seats {
		if a.Seats[i].Rank == rank {
			return &a.Seats[i]
		}
	}
	return nil
}

// move sets the phase by the table of moves and notes it.
func (r *Run) move(to Phase, now time.Time, message string) error {
	if !r.Phase.MayBecome(to) {
		return Errorf(Conflict, "a %s job cannot become %s", r.Phase, to)
	}
	r.Phase, r.Reason = to, message
	if to.Final() {
		r.FinishedAt, r.Nominated = now, nil
	}
	r.note(now, message)
	return nil
}

func (r *Run) note(now time.Time, message string) {
	n := r.Placed
	r.Transitions = append(r.Transitions, Transition{At: now, Phase: r.Phase, Attempt: n, Message: message})
	if over := len(r.Transitions) - MaxTransitionsKept; over > 0 {
		// The first one says when the job was accepted: keep it.
		r.Transitions = append(r.Transitions[:1:1], r.Transitions[1+over:]...)
		r.Dropped += over
	}
}

// Clone returns a copy that shares nothing that a transition changes.
func (r *Run) Clone() Run {
	c := *r
	c.Attempts = make([]Attempt, len(r.Attempts))
	for i, a := range r.Attempts {
		a.Seats = append([]Held(nil), a.Seats...)
		c.Attempts[i] = a
	}
	c.Transitions = append([]Transition(nil), r.Transitions...)
	if r.Stop != nil {
		c.Stop = new(*r.Stop)
	}
	if r.Nominated != nil {
		c.Nominated = new(*r.Nominated)
	}
	return c
}
