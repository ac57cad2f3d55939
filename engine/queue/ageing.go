package queue

import (
	"time"

	"github.com/ares-scheduler/ares"
)

// An order key holds, from the highest bit down, the bit notCritical and the
// bias less twice the level. The level is the priority less the ageing steps that
// had passed when the job was accepted. Twice the level leaves room for items with
// a deadline, which stand between two levels.
const (
	notCritical = 1 << 63
	levelBias   = 1 << 62
)

// criticalFloor is the lowest critical priority. It is computed once because every
// push reads it.
var criticalFloor = ares.Critical.Floor()

// ageingSteps returns how many whole ageing steps passed from 1970 to a time.
func (c Config) ageingSteps(at time.Time) int64 {
	ms, step := at.UnixMilli(), max(c.AgeingStep.Milliseconds(), 1)
	q := ms / step
	if ms%step < 0 {
		q--
	}
	return q
}

// agedKey returns the order key of a priority that was accepted at a time.
func (c Config) agedKey(priority int, accepted time.Time) uint64 {
	level := int64(priority)
	if c.AgeingStep > 0 {
		level -= c.ageingSteps(accepted)
	}
	return levelKey(2*level, priority)
}

// levelKey returns the order key of twice a level.
func levelKey(level int64, priority int) uint64 {
	key := uint64(levelBias - level)
	if priority < criticalFloor {
		key |= notCritical
	}
	return key
}

// itemKey returns the order key of an item, and whether its deadline decides it.
func itemKey[J any](c Config, it *Item[J]) (key uint64, boosted bool) {
	if c.BySortKey {
		return sortedKey(it.Priority, it.SortKey), false
	}
	key = c.agedKey(it.Priority, it.Accepted)
	if it.ClassCeiling == 0 || c.AgeingStep <= 0 {
		return key, false
	}
	due := levelKey(2*(int64(it.ClassCeiling)-c.ageingSteps(it.Due))-1, it.Priority)
	return min(due, key), due < key
}

// MaxSortKey is the largest sort key that an owner can give; larger ones count as it.
const MaxSortKey = 1<<classShift - 1

// classShift is the lowest bit of the class in an order key made of a sort key.
const classShift = 60

// sortedKey returns the order key of a priority with a sort key given by the owner.
func sortedKey(priority int, sortKey uint64) uint64 {
	class := classCount - 1
	for int64(priority) < classFloors[class] && class > 0 {
		class--
	}
	return uint64(classCount-1-class)<<classShift | min(sortKey, MaxSortKey)
}

// priorityOfKey returns the aged priority of an order key at a time. A job that was
// not submitted as critical stays below critical.
func (c Config) priorityOfKey(key uint64, now time.Time) int {
	level := (int64(levelBias) - int64(key&^uint64(notCritical))) >> 1
	if c.AgeingStep > 0 {
		level += c.ageingSteps(now)
	}
	if key&notCritical != 0 {
		return int(min(level, int64(criticalFloor-1)))
	}
	return int(max(level, int64(criticalFloor)))
}

// AgedPriority returns the aged priority at now of a job that was accepted at a time with
// a priority.
func (c Config) AgedPriority(priority int, accepted, now time.Time) int {
	if c.BySortKey {
		return priority
	}
	return c.priorityOfKey(c.agedKey(priority, accepted), now)
}

// AgedPriority returns the aged priority of an item at now.
func (t *Tree[J]) AgedPriority(it *Item[J], now time.Time) int {
	return t.cfg.AgedPriority(it.Priority, it.Accepted, now)
}

// Class returns the class of an item at now.
func (t *Tree[J]) Class(it *Item[J], now time.Time) ares.Class {
	return ares.ClassOf(t.AgedPriority(it, now))
}
