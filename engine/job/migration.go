package job

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

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
