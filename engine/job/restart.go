package job

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// holdDuration is for how long after the end of a gang by the loss of a node those who
// come before it in the order leave it what it had on the others.
const holdDuration = 2 * time.Minute

// IsRestarting says whether the last attempt of a gang ends or ended because of its
// nodes, and some of the job's seats are not settled yet.
func (e *Entry) IsRestarting() bool {
	if e.Run == nil || len(e.Run.Attempts) == 0 {
		return false
	}
	a, stop := e.Run.Last(), e.Run.Stop
	again := e.Run.Phase == ares.Pending || e.Run.Phase == ares.Retrying
	switch {
	case len(a.Seats) < 2:
		return false
	case !a.Ended() && stop != nil && (stop.Why == ares.StopLost || stop.Why == ares.StopDrain):
	case a.Ended() && again && (a.Outcome == ares.OutcomeLost || a.Outcome == ares.OutcomeStopped):
	default:
		return false
	}
	return !e.Run.Settled()
}

// KeepRanksInPlace lets every rank that can stay on its node of the last attempt; the others
// follow in the order of the nodes. What a rank keeps on its node's disks is then
// where it was.
func (e *Entry) KeepRanksInPlace(seats []ares.Seat) {
	if e == nil || e.Run == nil {
		return
	}
	last := e.Run.Last()
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

// AwaitsRestart says whether a gang lost a node, and is about to end or waits.
func (e *Entry) AwaitsRestart() bool {
	if e.IsRestarting() {
		return true
	}
	if e.Queue != InPending || e.Run == nil {
		return false
	}
	last := e.Run.Last()
	return last != nil && last.Outcome == ares.OutcomeLost && len(last.Seats) > 1
}

// updateRestarting notes whether an entry is one of the gangs that seats are kept for.
func (j *Table) updateRestarting(e *Entry) {
	at, known := slices.BinarySearchFunc(j.Restarting, e, func(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) })
	switch wants := e.AwaitsRestart(); {
	case wants && !known:
		j.Restarting = slices.Insert(j.Restarting, at, e)
	case wants:
		j.Restarting[at] = e // a job of that ID may have gone and come again
	case known && j.Restarting[at] == e:
		j.Restarting = slices.Delete(j.Restarting, at, at+1)
	}
}

// HeldUntil is until when those who come before a regrouping gang that has ended
// leave it its seats, false when they need not. A clock that is far off keeps nothing.
func (e *Entry) HeldUntil(now time.Time) (time.Time, bool) {
	ended := e.Run.Last().EndedAt
	return ended.Add(holdDuration), now.Sub(ended).Abs() < holdDuration
}

// HoldsSeats says whether seats are kept for a gang that lost a node: until the last of
// its ranks is dead, and for a while then.
func (e *Entry) HoldsSeats(now time.Time) bool {
	if e.IsRestarting() {
		return true
	}
	_, due := e.HeldUntil(now)
	return due
}

// AnySeatsHeld says whether seats are kept for some gang, or one that is being moved.
func (j *Table) AnySeatsHeld(now time.Time) bool {
	return j.MigrationPending(now) || slices.ContainsFunc(j.Restarting, func(e *Entry) bool { return e.HoldsSeats(now) })
}
