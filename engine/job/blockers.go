package job

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
)

// Waits reports whether the job is waiting, or is an array that still has elements to create.
func (e *Entry) Waits() bool { return e.Job != nil && (e.Phase().Waiting() || e.hasUnmadeElements()) }

// CountWaiting returns 1 for a job in a waiting phase, and 0 for another.
func (e *Entry) CountWaiting() int {
	if e.Job != nil && e.Phase().Waiting() {
		return 1
	}
	return 0
}

// BorrowBlockedText explains why a job waits although it fits: it would borrow quota that waiting jobs of the
// lending tenants need.
const BorrowBlockedText = "it would borrow quota that waiting jobs of the lending tenants would reclaim"

// DelayBlockers returns the blockers that come from the job's own past attempts. A past attempt blocks the job
// during its retry delay, or while one of its seats may still have a live process.
func (e *Entry) DelayBlockers(now time.Time) []ares.Blocker {
	var out []ares.Blocker
	if e.Queue == InDelayed && now.Before(e.DelayUntil) {
		out = append(out, ares.Blocker{Kind: ares.BlockerDelay, Detail: ares.Textf(
			"%s until %s (in %s)", e.Run.Phase, e.DelayUntil.UTC().Format(time.RFC3339), e.DelayUntil.Sub(now).Round(time.Millisecond))})
	}
	live, first := 0, ares.Text{}
	for i := range e.Run.Attempts {
		a := &e.Run.Attempts[i]
		for k := range a.Seats {
			if h := &a.Seats[k]; !h.State.Settled() {
				if live++; live == 1 {
					first = ares.Textf("rank %d of attempt %d on node %s is %s and may still hold a live process", h.Rank, a.Number, ares.NodeRef(h.Node), h.State)
				}
			}
		}
	}
	if live > 1 {
		first = ares.Textf("%s, and %d more ranks", first, live-1)
	}
	if live > 0 {
		out = append(out, ares.Blocker{Kind: ares.BlockerDelay, Detail: first})
	}
	return out
}

// NoRoomBlocker is the short reason for a job that waits because no capacity was found for it. The argument
// `manyModels` is true if the cluster has devices of several models.
func NoRoomBlocker(sh *Shape, manyModels bool) ares.Blocker {
	each, where := sh.Request.Text(), ""
	if sh.Wish.Latency && sh.Request.NUMA == cluster.NUMARequired {
		where = ", in one NUMA node as latency_sensitive requires"
	}
	detail := fmt.Sprintf("no room for %d members together (%s each%s)", sh.MinMembers, each, where)
	switch {
	case sh.Members == 1:
		detail = fmt.Sprintf("no node has room (%s%s)", each, where)
	case sh.onOneNode():
		detail = fmt.Sprintf("no node has room for all %d members (%s each%s)", sh.MinMembers, each, where)
	case manyModels && sh.Wish.OneModel:
		detail = fmt.Sprintf("no room for %d members together on one model (%s each%s)", sh.MinMembers, each, where)
	}
	return ares.Blocker{Kind: ares.BlockerCapacity, Detail: ares.PlainText(detail)}
}
