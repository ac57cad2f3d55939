package ares

import (
	"slices"
	"strings"
)

// Phase is the state of a job in its life cycle.
type Phase string

// These are the phases of a job. Succeeded, Failed, Cancelled, Lost and Returned are final. A job in phase Returned has not
// ended: its hub may have granted it to another cluster.
const (
	Pending   Phase = "pending"   // accepted, waiting to be placed
	Scheduled Phase = "scheduled" // seats allocated, but not yet claimed by every rank
	Running   Phase = "running"   // every rank has claimed its seat
	Retrying  Phase = "retrying"  // waiting for a delay after a failure; then pending
	Preempted Phase = "preempted" // stopped in favour of another job; then pending
	Succeeded Phase = "succeeded" // every rank ended with exit code 0
	Failed    Phase = "failed"    // ended with a failure and is not retried
	Cancelled Phase = "cancelled" // ended because somebody cancelled it
	Lost      Phase = "lost"      // an at_most_once job whose node was lost, or that may have run when the store was restored
	Returned  Phase = "returned"  // a granted job that this cluster gave back to its hub; never at a hub
)

// allowedTransitions lists the allowed transitions between phases. No other table defines them. A
// phase without a row in the table is final.
var allowedTransitions = map[Phase][]Phase{
	Pending:   {Scheduled, Running, Cancelled, Failed, Lost, Returned}, // only an array runs immediately, with its first element
	Scheduled: {Running, Pending, Retrying, Preempted, Succeeded, Failed, Cancelled, Lost},
	Running:   {Succeeded, Failed, Cancelled, Retrying, Preempted, Pending, Lost},
	Retrying:  {Pending, Cancelled, Failed, Lost, Returned},
	Preempted: {Pending, Cancelled, Failed, Lost, Returned},
}

// Phases lists every phase in the order of a job's life.
func Phases() []Phase {
	return []Phase{Pending, Scheduled, Running, Retrying, Preempted, Succeeded, Failed, Cancelled, Lost, Returned}
}

// Final reports whether the phase is final. A job in a final phase never changes again.
func (p Phase) Final() bool {
	return p == Succeeded || p == Failed || p == Cancelled || p == Lost || p == Returned
}

// Active reports whether an attempt is in progress in this phase.
func (p Phase) Active() bool { return p == Scheduled || p == Running }

// Waiting reports whether a job in this phase waits to be placed, either now or after a retry
// delay.
func (p Phase) Waiting() bool { return p == Pending || p == Retrying || p == Preempted }

// MayBecome reports whether a job may change from the phase p to the phase next.
func (p Phase) MayBecome(next Phase) bool { return slices.Contains(allowedTransitions[p], next) }

// ParsePhase reads a phase as users write it in filters. "completed" means succeeded.
func ParsePhase(s string) (Phase, error) {
	if s == "completed" {
		return Succeeded, nil
	}
	if slices.Contains(Phases(), Phase(s)) {
		return Phase(s), nil
	}
	return "", Errorf(Invalid, "state %q is unknown: use one of %s", Clip(s), joinNames(Phases())).At("state")
}

// joinNames writes the values that a text may have as a list for users, such as "pending, running".
func joinNames[S ~string](names []S) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ", ")
}
