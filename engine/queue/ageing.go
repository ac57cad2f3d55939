package queue

import (
	"time"

	"github.com/ares-scheduler/ares"
)

// The highest bit of an order key is notCritical, and the other bits are levelBias minus twice the level. The level
// of a job is its priority minus the number of ageing steps from 1970 until the job was accepted. The key contains
// twice the level. So an item with a deadline can be ordered between two levels.
const (
	notCritical = 1 << 63
	levelBias   = 1 << 62
)

// criticalFloor is the lowest critical priority. criticalFloor is computed once, because every push reads it.
var criticalFloor = ares.Critical.Floor()

// ageingSteps returns how many whole ageing steps lie between 1970 and the given time.
func (c Config) ageingSteps(at time.Time) int64 {
	ms, step := at.UnixMilli(), max(c.AgeingStep.Milliseconds(), 1)
	q := ms / step
	if ms%step < 0 {
		q--
	}
	return q
}

// agedKey returns the order key of a job from its priority and its acceptance time.
func (c Config) agedKey(priority int, accepted time.Time) uint64 {
	level := int64(priority)
	if c.AgeingStep > 0 {
		level -= c.ageingSteps(accepted)
	}
	return levelKey(2*level, priority)
}

// levelKey returns the order key for a level that the caller has multiplied by two.
func levelKey(level int64, priority int) uint64 {
	key := uint64(levelBias - level)
	if priority < criticalFloor {
		key |= notCritical
	}
	return key
}

// itemKey returns the order key of an item. It also reports whether the item's deadline determines this key.
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

// MaxSortKey is the largest sort key that an owner can set. A sort key above MaxSortKey is replaced by MaxSortKey.
const MaxSortKey = 1<<classShift - 1

// classShift is the position of the lowest class bit in an order key that is made from a sort key.
const classShift = 60

// sortedKey returns the order key of a job from its priority and the sort key that the owner set.
func sortedKey(priority int, sortKey uint64) uint64 {
	class := classCount - 1
	for int64(priority) < classFloors[class] && class > 0 {
		class--
	}
	return uint64(classCount-1-class)<<classShift | min(sortKey, MaxSortKey)
}

// priorityOfKey returns the aged priority of an item with the given order key at a given time. If a job was
// not submitted as critical, its aged priority stays below critical.
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

// AgedPriority returns the current priority of a job, after ageing since the given acceptance time.
func (c Config) AgedPriority(priority int, accepted, now time.Time) int {
	if c.BySortKey {
		return priority
	}
	return c.priorityOfKey(c.agedKey(priority, accepted), now)
}

// AgedPriority returns the priority of an item after ageing until the time `now`.
func (t *Tree[J]) AgedPriority(it *Item[J], now time.Time) int {
	return t.cfg.AgedPriority(it.Priority, it.Accepted, now)
}

// Class returns the priority class of an item at the time `now`.
func (t *Tree[J]) Class(it *Item[J], now time.Time) ares.Class {
	return ares.ClassOf(t.AgedPriority(it, now))
}
