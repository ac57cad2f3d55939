package ares

import "time"

// Seat is the allocation of one rank. A Seat names a node and the resources that the rank may use on
// it.
type Seat struct {
	Node   string
	Rank   int
	Shares []Share
	CPUs   int
	// CPUMilli are thousandths of a core in addition to CPUs.
	CPUMilli int `json:",omitzero"`
	Memory   int // MB
	NUMA     int // NUMA node of the CPUs, -1 for any
}

// Share is the part of one device that a seat uses, in thousandths of the device.
type Share struct {
	Device string
	Index  int
	Milli  int
}

// SeatState is the step that a seat has reached between its placement and its release. A seat's
// devices are free only in the states Released and Cleared.
type SeatState string

// These are the states of a seat.
const (
	SeatPlaced   SeatState = "placed"   // allocated by the scheduling loop
	SeatClaimed  SeatState = "claimed"  // claimed by the agent; a process may be alive
	SeatFinished SeatState = "finished" // the rank reported its end; its devices are not released yet
	SeatReleased SeatState = "released" // the end of all processes is verified, the devices are free
	SeatVoided   SeatState = "voided"   // revoked because its node's session ended
	SeatCleared  SeatState = "cleared"  // voided, and the returned node reported that no process is left
)

// Free reports whether the seat's devices may be allocated to another job.
func (s SeatState) Free() bool { return s == SeatReleased || s == SeatCleared }

// Settled reports whether it is certain that all processes of this seat will have ended when the
// next attempt starts.
func (s SeatState) Settled() bool { return s.Free() || s == SeatVoided }

// SeatStatus is a seat of an attempt with its state and result.
type SeatStatus struct {
	Seat
	State  SeatState
	Result *RankResult // set once finished
}

// Attempt is one try to run a job.
type Attempt struct {
	Number         int // counted from 1
	Fence          Fence
	Seats          []SeatStatus
	PlacedAt       time.Time
	StartedAt      time.Time // time at which every rank had claimed its seat
	EndedAt        time.Time
	Outcome        Outcome // "" until it ends
	Reason         string
	ExitCode       int
	Score          int            // score of the placement, for people
	PlacementScore PlacementScore `json:"Merit"` // the JSON name is the original one, because history uses it
	// CheckpointedAt is when the attempt last saved its progress, or zero if it never did.
	CheckpointedAt time.Time
	Preemption     *Preemption `json:"Yield"` // for a preempted attempt, the preemptor and the cost
	// Cluster is, at a hub, the cluster in which the attempt ran. Its nodes and its fence are those of that cluster.
	Cluster string `json:",omitempty"`
}

// Ended reports whether the attempt has an outcome.
func (a *Attempt) Ended() bool { return a.Outcome != "" }

// ranFor returns how long an ended attempt ran, or how long a running attempt has run until now.
func (a *Attempt) ranFor(now time.Time) time.Duration {
	switch {
	case a.StartedAt.IsZero():
		return 0
	case a.Ended():
		return max(a.EndedAt.Sub(a.StartedAt), 0)
	}
	return max(now.Sub(a.StartedAt), 0)
}

// The method `settled` reports whether it is certain that all processes of the attempt will have
// ended when the next attempt starts.
func (a *Attempt) settled() bool {
	for i := range a.Seats {
		if !a.Seats[i].State.Settled() {
			return false
		}
	}
	return true
}

// Free reports whether every device of the attempt is free again.
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
	OutcomeStopped    Outcome = "stopped"     // ended because of a stop intent
	OutcomeLost       Outcome = "lost"        // its node, agent or supervisor was lost
)

// RankResult says how one rank ended, as reported by its agent.
type RankResult struct {
	Outcome   Outcome
	ExitCode  int
	Signal    int
	Reason    string
	StartedAt time.Time
	EndedAt   time.Time
}
