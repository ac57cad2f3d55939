package ares

import "time"

// Event is one change in the store. An Event either sets exactly one of its pointers, or names a
// deleted record in Gone.
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
	Protect  *Protection
	Gone     Gone

	Reservation *Reservation
	Policy      *Policy
	Grant       *Grant // only at a hub

	// Record is the stored record of a new job, so that a recording need not encode the job again. It is nil if the job has an
	// environment, which recordings leave out, and if the event does not come from a watch.
	Record []byte
}

// RunEvent is the new state of a job's run.
type RunEvent struct {
	Job JobID
	Run Run
	// Seen is set only in a snapshot of the engine's state. A delay may have been written by a
	// clock that is ahead of the state's own clock. For such a delay, Seen is the time at which
	// the state received it. After a restore from the snapshot, the delay is counted from Seen.
	Seen time.Time
}

// ProgressEvent is the latest progress report of a running job.
type ProgressEvent struct {
	Job      JobID
	Progress Progress
}

// Protection marks a running job that must not be preempted. A program that drives the engine from another system
// uses it for rules of that system which the engine does not know, such as a PodDisruptionBudget. A Protection is never
// stored: the store has no such record, so a server's engine never receives one. It ends with the job, or with a Gone
// of KindProtection.
type Protection struct {
	Job JobID
	// Why says what protects the job. It is shown to every tenant whose job would otherwise preempt this one.
	Why string
}

// Kind is the kind of a deleted record.
type Kind string

// These are the kinds of records that can be deleted.
const (
	KindJob      Kind = "job" // the job was archived, so its spec and run are no longer live
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
	KindScore    Kind = "score" // its ID is the node's ID

	KindReservation Kind = "reservation"
	KindPolicy      Kind = "policy"     // its ID is what PolicyID returns
	KindGrant       Kind = "grant"      // its ID is the job's ID; only at a hub
	KindProtection  Kind = "protection" // its ID is the job's ID; never in the store
)

// Gone identifies a deleted record.
type Gone struct {
	Kind Kind
	ID   string
}

// Batch contains all changes of one revision. They are applied together. If Reset is true, the batch is a full
// snapshot and replaces the whole state.
type Batch struct {
	Revision int64
	Reset    bool
	Events   []Event
	// Lost are the rights that were deleted. They are no part of the engine's state.
	Lost []LostRight
	// At is the time at which the engine's state received this batch, by the state's own clock. At is zero if the state has no clock.
	// Timestamps written by other clocks are compared with At.
	At time.Time
}

// LostRight is a deleted service token, or a deleted role binding of a subject.
type LostRight struct {
	Token   string // the token's name, or "" for a binding
	Subject string
	Binding Binding
}
