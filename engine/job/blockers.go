package job

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Waits reports whether the job waits, or elements of it are still to be created.
func (e *Entry) Waits() bool { return e.Job != nil && (e.Phase().Waiting() || e.hasUnmadeElements()) }

// BorrowBlockedText is the refusal of a job that fits, but would borrow quota for which
// jobs of its lenders wait.
const BorrowBlockedText = "it would borrow quota that waiting jobs of its lenders would reclaim"

// DelayBlockers returns what in the job's own past keeps it waiting: a retry delay, or
// seats that may still hold a live process.
func (e *Entry) DelayBlockers(now time.Time) []ares.Blocker {
	var out []ares.Blocker
	if e.Queue == InDelayed && now.Before(e.DelayUntil) {
		out = append(out, ares.Blocker{Kind: ares.BlockerDelay, Detail: fmt.Sprintf(
			"%s until %s (in %s)", e.Run.Phase, e.DelayUntil.UTC().Format(time.RFC3339), e.DelayUntil.Sub(now).Round(time.Millisecond))})
	}
	live, first := 0, ""
	for i := range e.Run.Attempts {
		a := &e.Run.Attempts[i]
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
		out = append(out, ares.Blocker{Kind: ares.BlockerDelay, Detail: first})
	}
	return out
}

// NoRoomBlocker is the short refusal of a job for which no capacity was found.
func NoRoomBlocker(sh *Shape) ares.Blocker {
	each := sh.Request.Text()
	detail := fmt.Sprintf("no room for %d members together (%s each)", sh.MinMembers, each)
	switch {
	case sh.Members == 1:
		detail = fmt.Sprintf("no node has room (%s)", each)
	case sh.onOneNode():
		detail = fmt.Sprintf("no node has room for all %d members (%s each)", sh.MinMembers, each)
	}
	return ares.Blocker{Kind: ares.BlockerCapacity, Detail: detail}
}
