package ares

import "time"

// Event is one change in the store. Exactly one of the pointers is set, or
// Gone names what was deleted.
type Event struct {
	Revision int64
	Job      *Job
	Run      *RunEvent
	Node     *Node
	Session  *Session
	Cordon   *Cordon
	Tenant   *Tenant
	Queue    *Queue
	Topology *Topology
	Usage    *Usage
	Progress *ProgressEvent
	Forecast *RuntimePredicted
	Score    *NodeScore
	Gone     Gone

	Reservation *Reservation
	Policy      *Policy
}

// RunEvent is the new state of a job's run.
type RunEvent struct {
	Job JobID
	Run Run
	// Seen is, in a snapshot of a state, when that had learned of a delay that
	// a clock ahead of its own wrote; zero elsewhere. Who goes on from the
	// snapshot counts the delay from then too.
	Seen time.Time
}

// ProgressEvent is what a running job last said of itself.
type ProgressEvent struct {
	Job      JobID
	Progress Progress
}

// RuntimePredicted is how long a run of a job is thought to last, from its first
// start, without pauses. It goes with its job.
type RuntimePredicted struct {
	Job      JobID
	P50, P90 time.Duration // as many end before as after; nine of ten end before
	Basis    string        // what it was drawn from, for people
	Samples  int           // runs it rests on; 0 when it is a guess from none
}

// Kind names what a Gone event is about.
type Kind string

// The kinds of records that can go.
const (
	KindJob      Kind = "job" // archived: spec and run are no longer live
	KindRun      Kind = "run"
	KindNode     Kind = "node"
	KindSession  Kind = "session"
	KindCordon   Kind = "cordon"
	KindTenant   Kind = "tenant"
	KindProgress Kind = "progress"
	KindForecast Kind = "forecast"
	KindQueue    Kind = "queue" // its ID is tenant/name
	KindTopology Kind = "topology"
	KindUsage    Kind = "usage" // its ID is tenant/queue
	KindScore    Kind = "score" // of a node

	KindReservation Kind = "reservation"
	KindPolicy      Kind = "policy" // its ID is that of PolicyID
)

// Gone names a deleted record.
type Gone struct {
	Kind Kind
	ID   string
}

// Batch is everything one revision changed; it is applied whole. Reset means
// that what was known before is void: the batch is a full snapshot.
type Batch struct {
	Revision int64
	Reset    bool
	Events   []Event
	// At is when whoever applies it learned of it, by its own clock; zero for
	// who has none. What other clocks wrote can be held against it.
	At time.Time
}
