package ares

import "time"

// Run is the mutable state of a job. A job without a stored Run is pending. A Run is changed only by its own methods. A
// Run's methods have no side effects. The store can therefore apply them in a transaction and try again after a
// conflict.
type Run struct {
	Phase       Phase
	Attempts    []Attempt     // oldest first; old ones are dropped once all their seats are free
	Placed      int           // attempts placed so far, including dropped ones
	Retries     int           // number of retries that count against the retry policy's limit
	Losses      int           // number of consecutive attempts lost to infrastructure
	Next        int           // for an array, the number of elements created so far
	Ran         time.Duration // total runtime of dropped attempts
	NotBefore   time.Time     // while retrying, the earliest time of the next placement
	Stop        *Stop
	Nominated   *Nomination // while waiting, the seats reserved for it
	Hold        *Hold       `json:",omitempty"` // the last hold or release, nil before the first; see IsHeld
	Preemptions int         `json:"Yields"`     // number of times it was preempted; the JSON name is the original one, because history uses it
	Lateness    Lateness    // deadline state recorded so far
	Transitions []Transition
	Dropped     int    // number of transitions no longer kept
	Reason      string // reason for the current phase, for people
	FinishedAt  time.Time
	Revision    int64  // revision of the record; 0 before it is stored
	Extra       []byte // fields of a newer version, kept unread

	// DroppedUsage is the GPU usage of dropped attempts. It has one entry per month, so that no usage moves to another month's bill.
	DroppedUsage []MonthUsage `json:",omitempty"`
	// Updated holds the fields of the job that were changed after it was accepted, or nil. It is never changed in place.
	Updated *JobUpdate `json:",omitempty"`
	// Notified records, for each rule of the job's notifications, which of them are settled. It may be shorter than the
	// list of rules, and is never changed in place.
	Notified []NotifyMark `json:",omitempty"`

	// Cluster is, at a hub, the cluster that owns the job, or in which it ended. It is "" while no cluster owns the job, and
	// always in a member.
	Cluster string `json:",omitempty"`
	// ExcludedClusters are, at a hub, the clusters that have another job with this job's ID. It is never changed in place.
	ExcludedClusters []string `json:",omitempty"`
	// Epoch is, at a hub, the number of the last grant that was bound.
	Epoch int64 `json:",omitempty"`
	// AsOf is, at a hub, the revision of the owner's run from which this run was copied; 0 before the first copy.
	AsOf int64 `json:",omitempty"`
	// TokenBase is added to the number of an attempt in the fencing tokens of a granted job. A restore raises it.
	TokenBase int `json:",omitempty"`
	// Unconfirmed is true from a restore of a member until the hub has confirmed that the member still has the granted job.
	// Until then the job is not started, returned or cancelled (F5).
	Unconfirmed bool `json:",omitempty"`
	// Returning says, in a member, why the job is returned to the hub as soon as its attempt has ended; "" if it is not.
	// Until then the job is not placed again. See StopToReturn.
	Returning string `json:",omitempty"`
	// ImageDigest is what the reference Spec.Image led to when the first rank claimed its seat. All ranks and later attempts use it, so
	// that a tag that moves does not mix two images in one job. It is "" before, and without an image.
	ImageDigest string `json:",omitempty"`
	// Left are, at a hub, the clusters that gave the job back lately. It is never changed in place.
	Left []LeftCluster `json:",omitempty"`
}

// MonthUsage is the GPU usage of dropped attempts in one month in UTC.
type MonthUsage struct {
	First    time.Time     // first moment of usage in the month
	GPUMilli int64         // thousandths of devices times milliseconds, from the placement of an attempt to its end
	Ran      time.Duration // part of Run.Ran that this usage includes; an attempt's runtime is in the month of its placement
}

// The history in a run is limited, so that the run's record stays small.
const (
	MaxAttemptsKept    = 8
	MaxSeatsKept       = 2048 // seats of all attempts except the current one
	MaxTransitionsKept = 32
)

// Stop is an intent to end the current attempt. A stop intent is not a phase, because the seats stay allocated until the
// processes are dead.
type Stop struct {
	Why        StopWhy
	By         string
	At         time.Time
	Grace      time.Duration
	Preemption *Preemption `json:"Yield"` // for a preemption, the preemptor and the cost
}

// StopWhy is the reason for a stop intent.
type StopWhy string

// These are the reasons to stop an attempt.
const (
	StopCancel  StopWhy = "cancel"  // a person or a program cancelled the job
	StopPreempt StopWhy = "preempt" // another job preempts it
	StopDrain   StopWhy = "drain"   // the node is being drained
	StopMember  StopWhy = "member"  // another rank of the gang failed
	StopLost    StopWhy = "lost"    // another rank of the gang was lost
	StopQueue   StopWhy = "queue"   // it waited longer than its queue timeout for its first seats; By says how long

	StopDependency StopWhy = "dependency" // a dependency of a job that never started can never be met; By says which
)

// EndsOnlyWaiting reports whether a stop for this reason ends only what has not started: a job that was never placed, and
// the elements of an array that do not exist yet.
func (w StopWhy) EndsOnlyWaiting() bool { return w == StopQueue || w == StopDependency }

// Transition is one step in a job's life cycle, with a text for users.
type Transition struct {
	At      time.Time
	Phase   Phase
	Attempt int
	Message string
}

// NewRun returns the run of a job that was just accepted.
func NewRun(acceptedAt time.Time) Run {
	return Run{Phase: Pending, Transitions: []Transition{{At: acceptedAt, Phase: Pending, Message: accepted}}}
}

// This constant is the message of a run's first transition.
const accepted = "accepted"

// Current returns the unfinished attempt, or nil if there is none.
func (r *Run) Current() *Attempt {
	if n := len(r.Attempts); n > 0 && !r.Attempts[n-1].Ended() {
		return &r.Attempts[n-1]
	}
	return nil
}

// Last returns the latest attempt, or nil before the first attempt.
func (r *Run) Last() *Attempt {
	if n := len(r.Attempts); n > 0 {
		return &r.Attempts[n-1]
	}
	return nil
}

// Fence returns the fence of the unfinished attempt, or 0 if there is none.
func (r *Run) Fence() Fence {
	if a := r.Current(); a != nil {
		return a.Fence
	}
	return 0
}

// Settled reports whether it is certain that all processes of earlier attempts will have ended when the next attempt
// starts. Only then may the next attempt be placed.
func (r *Run) Settled() bool {
	for i := range r.Attempts {
		if !r.Attempts[i].settled() {
			return false
		}
	}
	return true
}

// Free reports whether every device that was ever allocated to the job is free again.
func (r *Run) Free() bool {
	for i := range r.Attempts {
		if !r.Attempts[i].Free() {
			return false
		}
	}
	return true
}

// RanFor returns the total runtime of the job's attempts until now. The runtime of an attempt counts from the time at which its last
// rank started.
func (r *Run) RanFor(now time.Time) time.Duration {
	sum := r.Ran
	for i := range r.Attempts {
		sum += r.Attempts[i].ranFor(now)
	}
	return sum
}

// Done returns how much work a job has done so far. The work done includes the runtime of the current attempt. If the
// job keeps its progress, it also includes the work that earlier attempts saved. Attempts that are no longer recorded
// count as if they had saved all their work.
func (r *Run) Done(j *Job, now time.Time) time.Duration {
	sum := time.Duration(0)
	if j.Checkpoint.Enabled {
		sum = r.Ran
	}
	for i := range r.Attempts {
		switch a := &r.Attempts[i]; {
		case !a.Ended():
			sum += a.ranFor(now)
		case j.Checkpoint.Enabled:
			sum += a.SavedWork()
		}
	}
	return sum
}

// Progress is a running job's report of its progress.
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

func (a *Attempt) seat(rank int) *SeatStatus {
	for i := range a.Seats {
		if a.Seats[i].Rank == rank {
			return &a.Seats[i]
		}
	}
	return nil
}

// Clone returns a deep copy of everything that a transition may change.
func (r *Run) Clone() Run {
	c := *r
	c.Attempts = make([]Attempt, len(r.Attempts))
	for i, a := range r.Attempts {
		a.Seats = append([]SeatStatus(nil), a.Seats...)
		c.Attempts[i] = a
	}
	c.Transitions = append([]Transition(nil), r.Transitions...)
	c.DroppedUsage = append([]MonthUsage(nil), r.DroppedUsage...)
	if r.Stop != nil {
		c.Stop = new(*r.Stop)
	}
	if r.Nominated != nil {
		c.Nominated = new(*r.Nominated)
	}
	if r.Hold != nil {
		c.Hold = new(*r.Hold)
	}
	return c
}

// addDropped adds the runtime and the GPU usage of an ended attempt that is about to be dropped.
func (r *Run) addDropped(a *Attempt) {
	ran := a.ranFor(a.EndedAt)
	r.Ran += ran
	milli := int64(0)
	for i := range a.Seats {
		for _, sh := range a.Seats[i].Shares {
			milli += int64(sh.Milli)
		}
	}
	for from, to := a.PlacedAt.UTC(), a.EndedAt.UTC(); milli > 0 && !from.IsZero() && from.Before(to); {
		year, month, _ := from.Date()
		end := time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		if to.Before(end) {
			end = to
		}
		u := r.droppedIn(from)
		u.GPUMilli += milli * end.Sub(from).Milliseconds()
		u.Ran += ran
		from, ran = end, 0
	}
}

// droppedIn returns the entry of DroppedUsage for the month of the given time in UTC, and adds the entry if it is missing.
func (r *Run) droppedIn(at time.Time) *MonthUsage {
	year, month, _ := at.Date()
	for i := range r.DroppedUsage {
		u := &r.DroppedUsage[i]
		if y, m, _ := u.First.UTC().Date(); y == year && m == month {
			if at.Before(u.First) {
				u.First = at
			}
			return u
		}
	}
	r.DroppedUsage = append(r.DroppedUsage, MonthUsage{First: at})
	return &r.DroppedUsage[len(r.DroppedUsage)-1]
}

func (r *Run) pastSeats() int {
	n := 0
	for i := range r.Attempts[:len(r.Attempts)-1] {
		n += len(r.Attempts[i].Seats)
	}
	return n
}
