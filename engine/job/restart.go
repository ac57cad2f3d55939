package job

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// holdDuration is how long capacity is held for a job that has stopped. The job stopped for a migration, or
// because its gang lost a node. During holdDuration, no other job can use the held capacity, not even a job that
// comes earlier in the order.
const holdDuration = 2 * time.Minute

// IsRestarting reports whether a gang is restarting because a node was lost or drained. The last attempt of such a
// gang is ending or has ended, and some of its seats are not settled yet.
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

// KeepRanksInPlace keeps a rank on its node from the last attempt, if the job has a seat on that node again. So
// the rank finds the data that it stored on the node's disks. The other ranks get the remaining seats in the
// order of the nodes.
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

// AwaitsRestart reports whether a gang that lost a node will end soon, or has ended and
// waits for its restart.
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

// updateRestarting adds an entry to the list of restarting gangs, or removes it.
func (j *Table) updateRestarting(e *Entry) {
	at, known := slices.BinarySearchFunc(j.Restarting, e, func(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) })
	switch belongs := e.AwaitsRestart(); {
	case belongs && !known:
		j.Restarting = slices.Insert(j.Restarting, at, e)
	case belongs:
		j.Restarting[at] = e // a job with this ID may have been deleted and created again
	case known && j.Restarting[at] == e:
		j.Restarting = slices.Delete(j.Restarting, at, at+1)
	}
}

// HeldUntil returns the time until which capacity is held for a stopped job. It also reports whether the capacity
// is still held. If clocks differ, the recorded end of the job may be in the future. If it is more than
// holdDuration ahead, nothing is held.
func (e *Entry) HeldUntil(now time.Time) (time.Time, bool) {
	ended := e.Run.Last().EndedAt
	return ended.Add(holdDuration), now.Sub(ended).Abs() < holdDuration
}

// HoldsSeats reports whether capacity is held for a gang that lost a node. The capacity is held until the last rank
// has ended, and for holdDuration after that.
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

// isMigration reports whether a preemption is a migration. A migration stops a job so that it can run on other
// nodes.
func isMigration(y *ares.Preemption) bool { return y != nil && y.Why == ares.PreemptByMove }

// IsMigrating reports whether the job is being migrated. A migrating job is stopping for a migration, or it has
// stopped and has not been placed again yet.
func (e *Entry) IsMigrating() bool {
	if e.Job == nil || e.Run == nil {
		return false
	}
	if e.Run.Current() != nil {
		return e.Run.Stop != nil && isMigration(e.Run.Stop.Preemption)
	}
	last := e.Run.Last()
	return last != nil && isMigration(last.Preemption) && (e.Run.Phase == ares.Pending || e.Run.Phase == ares.Preempted)
}

// updateMigrating adds an entry to the list of migrating jobs, or removes it.
func (j *Table) updateMigrating(e *Entry) {
	at, known := slices.BinarySearchFunc(j.Migrating, e, func(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) })
	switch belongs := e.IsMigrating(); {
	case belongs && !known:
		j.Migrating = slices.Insert(j.Migrating, at, e)
	case belongs:
		j.Migrating[at] = e // a job with this ID may have been deleted and created again
	case known && j.Migrating[at] == e:
		j.Migrating = slices.Delete(j.Migrating, at, at+1)
	}
}

// HoldsDestination reports whether capacity is held for a migrating job. The capacity is held until the job has
// stopped, and for holdDuration after that.
func (e *Entry) HoldsDestination(now time.Time) bool {
	if e.Run.Current() != nil {
		return true
	}
	_, held := e.HeldUntil(now)
	return held
}

// MigrationPending reports whether capacity is held for any migrating job.
func (j *Table) MigrationPending(now time.Time) bool {
	return slices.ContainsFunc(j.Migrating, func(e *Entry) bool { return e.HoldsDestination(now) })
}
