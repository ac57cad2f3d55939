package engine

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// holdFor is for how long after the end of a gang by the loss of a node those who
// come before it in the order leave it what it had on the others.
const holdFor = 2 * time.Minute

// isRestarting says whether the last attempt of a gang ends or ended because of its
// nodes, and some of the job's seats are not settled yet.
func (e *entry) isRestarting() bool {
	if e.run == nil || len(e.run.Attempts) == 0 {
		return false
	}
	a, stop := e.run.Last(), e.run.Stop
	again := e.run.Phase == ares.Pending || e.run.Phase == ares.Retrying
	switch {
	case len(a.Seats) < 2:
		return false
	case !a.Ended() && stop != nil && (stop.Why == ares.StopLost || stop.Why == ares.StopDrain):
	case a.Ended() && again && (a.Outcome == ares.OutcomeLost || a.Outcome == ares.OutcomeStopped):
	default:
		return false
	}
	return !e.run.Settled()
}

// keepRanksInPlace lets every rank that can stay on its node of the last attempt; the others
// follow in the order of the nodes. What a rank keeps on its node's disks is then
// where it was.
func (e *entry) keepRanksInPlace(seats []ares.Seat) {
	if e == nil || e.run == nil {
		return
	}
	last := e.run.Last()
	if last == nil {
		return
	}
	left := slices.Clone(seats)
	taken := make([]bool, len(seats))
	for rank := range seats {
		if rank >= len(last.Seats) {
			break
		}
		was := last.Seats[rank].Node
		if at := slices.IndexFunc(left, func(s ares.Seat) bool { return s.Node == was }); at >= 0 {
			seats[rank], taken[rank] = left[at], true
			left = slices.Delete(left, at, at+1)
		}
	}
	for rank := range seats {
		if !taken[rank] {
			seats[rank], left = left[0], left[1:]
		}
		seats[rank].Rank = rank
	}
}

// awaitsRestart says whether a gang lost a node, and is about to end or waits.
func (e *entry) awaitsRestart() bool {
	if e.isRestarting() {
		return true
	}
	if e.queue != inPending || e.run == nil {
		return false
	}
	last := e.run.Last()
	return last != nil && last.Outcome == ares.OutcomeLost && len(last.Seats) > 1
}

// updateRestarting notes whether an entry is one of the gangs that seats are kept for.
func (j *jobTable) updateRestarting(e *entry) {
	at, known := slices.BinarySearchFunc(j.restarting, e, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	switch wants := e.awaitsRestart(); {
	case wants && !known:
		j.restarting = slices.Insert(j.restarting, at, e)
	case wants:
		j.restarting[at] = e // a job of that ID may have gone and come again
	case known && j.restarting[at] == e:
		j.restarting = slices.Delete(j.restarting, at, at+1)
	}
}

// heldUntil is until when those who come before a regrouping gang that has ended
// leave it its seats, false when they need not. A clock that is far off keeps nothing.
func (e *entry) heldUntil(now time.Time) (time.Time, bool) {
	ended := e.run.Last().EndedAt
	return ended.Add(holdFor), now.Sub(ended).Abs() < holdFor
}

// holdsSeats says whether seats are kept for a gang that lost a node: until the last of
// its ranks is dead, and for a while then.
func (e *entry) holdsSeats(now time.Time) bool {
	if e.isRestarting() {
		return true
	}
	_, due := e.heldUntil(now)
	return due
}

// anySeatsHeld says whether seats are kept for some gang, or one that is being moved.
func (j *jobTable) anySeatsHeld(now time.Time) bool {
	return j.migrationPending(now) || slices.ContainsFunc(j.restarting, func(e *entry) bool { return e.holdsSeats(now) })
}

// isMove says whether a yield is a move.
func isMove(y *ares.Yield) bool { return y != nil && y.Why == ares.YieldMove }

// isMigrating says whether the job is being moved: it stops for that, or has stopped
// and has no place again yet.
func (e *entry) isMigrating() bool {
	if e.job == nil || e.run == nil {
		return false
	}
	if e.run.Current() != nil {
		return e.run.Stop != nil && isMove(e.run.Stop.Yield)
	}
	last := e.run.Last()
	return last != nil && isMove(last.Yield) && (e.run.Phase == ares.Pending || e.run.Phase == ares.Preempted)
}

// updateMigrating notes whether an entry is one of those who are being moved.
func (j *jobTable) updateMigrating(e *entry) {
	at, known := slices.BinarySearchFunc(j.migrating, e, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	switch wants := e.isMigrating(); {
	case wants && !known:
		j.migrating = slices.Insert(j.migrating, at, e)
	case wants:
		j.migrating[at] = e // a job of that ID may have gone and come again
	case known && j.migrating[at] == e:
		j.migrating = slices.Delete(j.migrating, at, at+1)
	}
}

// holdsDestination says whether a place is kept for one that is being moved. A clock that is far
// off keeps nothing.
func (e *entry) holdsDestination(now time.Time) bool {
	if e.run.Current() != nil {
		return true
	}
	_, due := e.heldUntil(now)
	return due
}

// migrationPending says whether somebody is being moved.
func (j *jobTable) migrationPending(now time.Time) bool {
	return slices.ContainsFunc(j.migrating, func(e *entry) bool { return e.holdsDestination(now) })
}
