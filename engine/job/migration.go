package job

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// isMigration reports whether a preemption is a migration: the job is stopped to run on
// other nodes.
func isMigration(y *ares.Preemption) bool { return y != nil && y.Why == ares.PreemptByMove }

// IsMigrating reports whether the job is being migrated: it is stopping for that, or has
// stopped and was not placed again.
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

// updateMigrating adds an entry to the migrating jobs, or removes it.
func (j *Table) updateMigrating(e *Entry) {
	at, known := slices.BinarySearchFunc(j.Migrating, e, func(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) })
	switch belongs := e.IsMigrating(); {
	case belongs && !known:
		j.Migrating = slices.Insert(j.Migrating, at, e)
	case belongs:
		j.Migrating[at] = e // a job of this ID may have been deleted and created again
	case known && j.Migrating[at] == e:
		j.Migrating = slices.Delete(j.Migrating, at, at+1)
	}
}

// HoldsDestination reports whether capacity is held for a migrating job: until it has
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
