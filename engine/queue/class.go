package queue

import (
	"time"

	"github.com/ares-scheduler/ares"
)

// classBounds holds the last order key of each priority class at a given time, lowest class first.
type classBounds struct {
	lastKey    [classCount]uint64 // the last order key of the class
	lastPrefix [classCount]uint64 // the key prefix of lastKey
}

// classCount is the number of priority classes.
const classCount = 5

// classFloors holds the lowest priority of each class, lowest class first. It is computed once, because every round
// reads it.
var classFloors = func() (out [classCount]int64) {
	for i, class := range ares.Classes() {
		out[i] = int64(class.Floor())
	}
	return out
}()

// classBoundsAt returns the bounds of the classes at a given time. Instead of changing each item, ageing moves the
// bounds of the classes one step at a time.
func (c Config) classBoundsAt(now time.Time) classBounds {
	var out classBounds
	if c.BySortKey {
		for i := range out.lastKey {
			out.lastKey[i] = uint64(classCount-1-i)<<classShift | MaxSortKey
		}
		out.lastPrefix = out.lastKey
		return out
	}
	steps, base := int64(0), c.prefixBase()
	if c.AgeingStep > 0 {
		steps = c.ageingSteps(now)
	}
	for i, floor := range classFloors {
		out.lastKey[i] = notCritical | uint64(levelBias-2*(floor-steps))
	}
	out.lastKey[classCount-1] = notCritical - 1 // critical items of any level
	out.lastKey[0] = ^uint64(0)                 // there is no class below the lowest
	for i, key := range out.lastKey {
		out.lastPrefix[i] = keyPrefix(key, maxRevisionBits, base)
	}
	return out
}

// classOfKey returns the index of the priority class that contains an order key, where 0 is the lowest class.
func (b *classBounds) classOfKey(key uint64) int {
	for i := classCount - 1; i > 0; i-- {
		if key <= b.lastKey[i] {
			return i
		}
	}
	return 0
}

// headClass returns the class of the next item of a leaf queue. It derives the class from the item's key
// prefix, and reads the item itself only if the prefix was clamped.
func headClass[J any](b *classBounds, prefix uint64, leaf *LeafQueue[J]) int {
	if level := prefix >> revisionBits & maxLevelBits; level == 0 || level == maxLevelBits {
		return b.classOfKey(leaf.first().orderKey)
	}
	for i := classCount - 1; i > 0; i-- {
		if prefix <= b.lastPrefix[i] {
			return i
		}
	}
	return 0
}

// lastPrefixOf returns the last key prefix of a class. The result is 0 if the prefix was clamped and
// therefore does not determine the class.
func (b *classBounds) lastPrefixOf(class int) uint64 {
	prefix := b.lastPrefix[class]
	if level := prefix >> revisionBits & maxLevelBits; level == 0 || level == maxLevelBits {
		return 0
	}
	return prefix
}

// ClassCeiling returns the level at which a job's current class ends, and the time at which ageing moves the job to
// the next class. The zero time means that ageing never moves the job to another class.
func (c Config) ClassCeiling(priority int, accepted, now time.Time) (roof int, until time.Time) {
	if priority >= criticalFloor {
		return criticalFloor + criticalWidth, time.Time{}
	}
	aged := int64(c.AgedPriority(priority, accepted, now))
	for _, floor := range classFloors[1:] {
		if aged >= floor {
			continue
		}
		if floor < int64(criticalFloor) && c.AgeingStep > 0 {
			crossed := floor - int64(priority) + c.ageingSteps(accepted)
			until = time.UnixMilli(crossed * max(c.AgeingStep.Milliseconds(), 1)).UTC()
		}
		return int(floor), until
	}
	return criticalFloor, time.Time{}
}

// criticalWidth is the assumed width of the highest class. The highest class has no upper end, but some computations
// need one.
const criticalWidth = 1000
