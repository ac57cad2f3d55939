package ares

import "time"

// Seat is one member's place: a node and what it may use there.
type Seat struct {
	Node   string
	Rank   int
	Shares []Share
	CPUs   int
	Memory int // MB
	NUMA   int // node the CPUs belong to, -1 for any
}

// Share is a device, or a part of one in thousandths.
type Share struct {
	Device string
	Index  int
	Milli  int
}

// SeatState says how far a seat has come. Devices are free only in Released
// and Cleared.
type SeatState string

// The states of a seat.
const (
	SeatPlaced   SeatState = "placed"   // given by the loop
	SeatClaimed  SeatState = "claimed"  // the agent took it; a process may live
	SeatFinished SeatState = "finished" // the rank reported its end; its devices are not released yet
	SeatReleased SeatState = "released" // death verified, devices free
	SeatVoided   SeatState = "voided"   // taken back because its node's session ended
	SeatCleared  SeatState = "cleared"  // voided, and the returned node reported clean
)

// Free says whether the seat's devices may be given to another job.
func (s SeatState) Free() bool { return s == SeatReleased || s == SeatCleared }

// Settled says whether nothing of this seat can overlap with a next attempt.
func (s SeatState) Settled() bool { return s.Free() || s == SeatVoided }

// Held is a seat of an attempt with what became of it.
type Held struct {
	Seat
	State  SeatState
	Result *RankResult // once finished
}

// Attempt is one try to run a job.
type Attempt struct {
	Number    int // from 1
	Fence     Fence
	Seats     []Held
	PlacedAt  time.Time
	StartedAt time.Time // every rank claimed
	EndedAt   time.Time
	Outcome   Outcome // "" while it lasts
	Reason    string
	ExitCode  int
	Score     int // of the placement, for people
	Merit     PlacementScore
	// CheckpointedAt is when it last saved its progress, zero for never.
	CheckpointedAt time.Time
	Yield          *Preemption // of one that gave way: to whom, and what it cost
}

// Ended says whether the attempt has its outcome.
func (a *Attempt) Ended() bool { return a.Outcome != "" }

// lasted is how long the attempt ran, or has run by now.
func (a *Attempt) lasted(now time.Time) time.Duration {
	switch {
	case a.StartedAt.IsZero():
		return 0
	case a.Ended():
		return max(a.EndedAt.Sub(a.StartedAt), 0)
	}
	return max(now.Sub(a.StartedAt), 0)
}

// settled says whether no seat of the attempt can overlap with a next one.
func (a *Attempt) settled() bool {
	for i := range a.Seats {
		if !a.Seats[i].State.Settled() {
			return false
		}
	}
	return true
}

// Free says whether every device of the attempt is free again.
func (a *Attempt) Free() bool {
	for i := range a.Seats {
		if !a.Seats[i].State.Free() {
			return false
		}
	}
	return true
}

// Outcome says how a rank or an attempt ended.
type Outcome string

// The outcomes.
const (
	OutcomeSucceeded  Outcome = "succeeded"   // exit code 0
	OutcomeFailed     Outcome = "failed"      // another exit code
	OutcomeSignaled   Outcome = "signaled"    // ended by a signal Ares did not send
	OutcomeTimeout    Outcome = "timeout"     // max_runtime_minutes passed
	OutcomeSpawnError Outcome = "spawn_error" // the command could not be started
	OutcomeStopped    Outcome = "stopped"     // ended on a stop intent
	OutcomeLost       Outcome = "lost"        // its node, agent or supervisor was lost
)

// RankResult is the end of one rank as its agent saw it.
type RankResult struct {
	Outcome   Outcome
	ExitCode  int
	Signal    int
	Reason    string
	StartedAt time.Time
	EndedAt   time.Time
}
