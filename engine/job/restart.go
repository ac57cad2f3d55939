package job

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// holdDuration is how long capacity is held for a job after it stopped for a migration
// or because its gang lost a node. Jobs ahead of it in the order do not take the
// capacity in that time.
const holdDuration = 2 * time.Minute

// IsRestarting reports whether the last attempt of a gang ends or ended because of its
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

// KeepRanksInPlace gives every rank a seat on its node of the last attempt, where the
// seats include one; the other ranks get the rest in the order of the nodes. So a rank
// finds again what it kept on the disks of its node.
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

// AwaitsRestart reports whether a gang that lost a node is about to end or waits for its
// restart.
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

// updateRestarting adds an entry to the restarting gangs, or removes it.
func (j *Table) updateRestarting(e *Entry) {
	at, known := slices.BinarySearchFunc(j.Restarting, e, func(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) })
	switch belongs := e.AwaitsRestart(); {
	case belongs && !known:
		j.Restarting = slices.Insert(j.Restarting, at, e)
	case belongs:
		j.Restarting[at] = e // a job of this ID may have been deleted and created again
	case known && j.Restarting[at] == e:
		j.Restarting = slices.Delete(j.Restarting, at, at+1)
	}
}

// HeldUntil returns until when capacity is held for a job that has stopped, and whether
// it still is. A clock that is far off holds nothing.
func (e *Entry) HeldUntil(now time.Time) (time.Time, bool) {
	ended := e.Run.Last().EndedAt
	return ended.Add(holdDuration), now.Sub(ended).Abs() < holdDuration
}

// HoldsSeats reports whether capacity is held for a gang that lost a node: until its
// last rank has ended, and for holdDuration after that.
func (e *Entry) HoldsSeats(now time.Time) bool {
	if e.IsRestarting() {
		return true
	}
	_, held := e.HeldUntil(now)
	return held
}

// AnySeatsHeld reports whether capacity is held for a restarting gang or a migrating
// job.
func (j *Table) AnySeatsHeld(now time.Time) bool {
	return j.MigrationPending(now) || slices.ContainsFunc(j.Restarting, func(e *Entry) bool { return e.HoldsSeats(now) })
}
