package ares

import "time"

// Consolidation is a waiting job that there is room for in all, but in no one
// place, with the running jobs that would be moved for it, and what that gains
// and costs. After it all of them run.
type Consolidation struct {
	For    JobID
	Tenant string // of For
	Seats  []Seat // that it has then
	Moves  []Move
	// Wait is how much sooner it starts, and Foreseen whether that is known from
	// when others are predicted to end. Where nothing is, it is an assumption.
	Wait     time.Duration
	Foreseen bool
	// Gain is Wait times the GPUs it asks for, and Lost what the moves cost, both
	// in thousandths of GPU-seconds.
	Gain, Lost int64
}

// Move is a running job that is stopped and goes on in another place.
type Move struct {
	Job      JobID
	Tenant   string
	From, To []Seat
	// Milli is what it holds, in thousandths of devices, and Lost its work since
	// its last checkpoint and its restart, in thousandths of GPU-seconds.
	Milli, Lost int64
}
