package engine

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// kindPreemption is the kind of what says why nobody gives way to a job, or that
// somebody does.
const kindPreemption = "preemption"

// Kinds of blockers.
const (
	kindQuota      = "quota"
	kindBudget     = "budget"
	kindNodes      = "nodes"
	kindCapacity   = "capacity"
	kindDelay      = "delay"
	kindDependency = "dependency"
	kindArray      = "array"
	kindNear       = "affinity"
	kindOrder      = "order"
	kindReserved   = "reservation"
)

// waits says whether something of the job waits: it, or elements not yet made.
func (e *entry) waits() bool { return e.job != nil && (e.phase().Waiting() || e.hasUnmadeElements()) }

// BorrowBlockedText is what is said of a job that fits, and waits for those who lent
// what it would have.
const BorrowBlockedText = "it would borrow what others are promised, who wait and take it back"

// delayBlockers says what in the job's own past keeps it waiting.
func (e *entry) delayBlockers(now time.Time) []ares.Blocker {
	var out []ares.Blocker
	if e.queue == inDelayed && now.Before(e.delayUntil) {
		out = append(out, ares.Blocker{Kind: kindDelay, Detail: fmt.Sprintf(
			"%s until %s (in %s)", e.run.Phase, e.delayUntil.UTC().Format(time.RFC3339), e.delayUntil.Sub(now).Round(time.Millisecond))})
	}
	live, first := 0, ""
	for i := range e.run.Attempts {
		a := &e.run.Attempts[i]
		for k := range a.Seats {
			if h := &a.Seats[k]; !h.State.Settled() {
				if live++; live == 1 {
					first = fmt.Sprintf("rank %d of attempt %d on node %s is %s and may still hold a live process", h.Rank, a.Number, h.Node, h.State)
				}
			}
		}
	}
	if live > 1 {
		first += fmt.Sprintf(", and %d more seats", live-1)
	}
	if live > 0 {
		out = append(out, ares.Blocker{Kind: kindDelay, Detail: first})
	}
	return out
}

// noRoomBlocker is the short refusal of a job that found no place.
func noRoomBlocker(sh *shape) ares.Blocker {
	each := sh.request.Text()
	detail := fmt.Sprintf("no room for %d members together (%s each)", sh.minMembers, each)
	switch {
	case sh.members == 1:
		detail = fmt.Sprintf("no node has room (%s)", each)
	case sh.onOneNode():
		detail = fmt.Sprintf("no node has room for all %d members (%s each)", sh.minMembers, each)
	}
	return ares.Blocker{Kind: kindCapacity, Detail: detail}
}
