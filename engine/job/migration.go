package job

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// isMigration says whether a yield is a move.
func isMigration(y *ares.Yield) bool { return y != nil && y.Why == ares.YieldMove }

// IsMigrating says whether the job is being moved: it stops for that, or has stopped
// and has no place again yet.
func (e *Entry) IsMigrating() bool {
	if e.Job == nil || e.Run == nil {
		return false
	}
	if e.Run.Current() != nil {
		return e.Run.Stop != nil && isMigration(e.Run.Stop.Yield)
	}
	last := e.Run.Last()
	return last != nil && isMigration(last.Yield) && (e.Run.Phase == ares.Pending || e.Run.Phase == ares.Preempted)
}

// updateMigrating notes whether an entry is one of those who are being moved.
func (j *Table) updateMigrating(e *Entry) {
	at, known := slices.BinarySearchFunc(j.Migrating, e, func(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) })
	switch wants := e.IsMigrating(); {
	case wants && !known:
		j.Migrating = slices.Insert(j.Migrating, at, e)
	case wants:
		j.Migrating[at] = e // a job of that ID may have gone and come again
	case known && j.Migrating[at] == e:
		j.Migrating = slices.Delete(j.Migrating, at, at+1)
	}
}

// HoldsDestination says whether a place is kept for one that is being moved. A clock that is far
// off keeps nothing.
func (e *Entry) HoldsDestination(now time.Time) bool {
	if e.Run.Current() != nil {
		return true
	}
	_, due := e.HeldUntil(now)
	return due
}

// MigrationPending says whether somebody is being moved.
func (j *Table) MigrationPending(now time.Time) bool {
	return slices.ContainsFunc(j.Migrating, func(e *Entry) bool { return e.HoldsDestination(now) })
}
