package ares

import "time"

// Consolidation is a proposal to move running jobs so that a waiting job fits. The engine proposes a Consolidation when enough
// capacity is free in total but is scattered over several nodes. A Consolidation lists the moves with their gain and cost. After the
// moves, the waiting job and all moved jobs run.
type Consolidation struct {
	For    JobID
	Tenant string // tenant of For
	Seats  []Seat // the seats For gets
	Moves  []Move
	// The field Wait says how much sooner the waiting job (field For) starts because of the moves. The field Foreseen is true if
	// Wait is computed from the predicted ends of other jobs. If Foreseen is false, Wait is an assumption.
	Wait     time.Duration
	Foreseen bool
	// Gain is Wait times the number of GPUs that the waiting job requests. Lost is the cost of the
	// moves. Gain and Lost are in thousandths of GPU-seconds.
	Gain, Lost int64
}

// A Move describes a running job that is stopped and restarted on other nodes or devices.
type Move struct {
	Job      JobID
	Tenant   string
	From, To []Seat
	// Milli is the job's allocation, in thousandths of a device. Lost is the cost of the move, in thousandths
	// of GPU-seconds: the job's work since its last checkpoint plus its restart.
	Milli, Lost int64
}
