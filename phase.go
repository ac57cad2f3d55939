package ares

import "slices"

// Phase says where a job stands in its life.
type Phase string

// The phases of a job. Succeeded, Failed, Cancelled and Lost are final.
const (
	Pending   Phase = "pending"   // accepted, waiting for a place
	Scheduled Phase = "scheduled" // seats given, not yet claimed by every rank
	Running   Phase = "running"   // every rank has claimed its seat
	Retrying  Phase = "retrying"  // backing off after a failure, then pending
	Preempted Phase = "preempted" // gave way to another, then pending
	Succeeded Phase = "succeeded" // every rank ended with exit code 0
	Failed    Phase = "failed"    // ended for good with a failure
	Cancelled Phase = "cancelled" // ended because somebody asked for it
	Lost      Phase = "lost"      // in at-most-once mode: its node was lost, or the store restored
)

// moves is the one table of moves. A phase without a row is final.
var moves = map[Phase][]Phase{
	Pending:   {Scheduled, Running, Cancelled, Failed, Lost}, // running at once: only an array, with its first element
	Scheduled: {Running, Pending, Retrying, Preempted, Succeeded, Failed, Cancelled, Lost},
	Running:   {Succeeded, Failed, Cancelled, Retrying, Preempted, Pending, Lost},
	Retrying:  {Pending, Cancelled, Failed, Lost},
	Preempted: {Pending, Cancelled, Failed, Lost},
}

// Phases lists every phase in the order of a job's life.
func Phases() []Phase {
	return []Phase{Pending, Scheduled, Running, Retrying, Preempted, Succeeded, Failed, Cancelled, Lost}
}

// Final says whether a job in this phase never changes again.
func (p Phase) Final() bool { return p == Succeeded || p == Failed || p == Cancelled || p == Lost }

// Active says whether an attempt is under way in this phase.
func (p Phase) Active() bool { return p == Scheduled || p == Running }

// Waiting says whether the job waits to be placed, now or after a delay.
func (p Phase) Waiting() bool { return p == Pending || p == Retrying || p == Preempted }

// MayBecome says whether the table of moves allows p to become next.
func (p Phase) MayBecome(next Phase) bool { return slices.Contains(moves[p], next) }

// ParsePhase reads a phase as people write it in filters. "completed" is
// another spelling of succeeded.
func ParsePhase(s string) (Phase, error) {
	if s == "completed" {
		return Succeeded, nil
	}
	if slices.Contains(Phases(), Phase(s)) {
		return Phase(s), nil
	}
	return "", Errorf(Invalid, "state %q is unknown: use one of %v", s, Phases()).At("state")
}
