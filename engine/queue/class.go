package queue

import (
	"time"

	"github.com/ares-scheduler/ares"
)

// classBounds says where each class ends at one time, the lowest class first.
type classBounds struct {
	lastKey    [classCount]uint64 // the last order key of the class
	lastPrefix [classCount]uint64 // the key prefix of lastKey
}

// classCount is the number of priority classes.
const classCount = 5

// classFloors is the lowest priority of each class, the lowest class first. It is
// computed once because every round reads it.
var classFloors = func() (out [classCount]int64) {
	for i, class := range ares.Classes() {
		out[i] = int64(class.Floor())
	}
	return out
}()

// classBoundsAt returns the bounds of the classes at a time. Ageing moves them all
// by one step at a time, so that no item has to be touched.
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
	out.lastKey[classCount-1] = notCritical - 1 // critical, at any level
	out.lastKey[0] = ^uint64(0)                 // no class is below the lowest
	for i, key := range out.lastKey {
		out.lastPrefix[i] = keyPrefix(key, maxRevisionBits, base)
	}
	return out
}

// classOfKey returns the class of an order key, 0 for the lowest.
func (b *classBounds) classOfKey(key uint64) int {
	for i := classCount - 1; i > 0; i-- {
		if key <= b.lastKey[i] {
			return i
		}
	}
	return 0
}

// headClass returns the class of the next item of a leaf queue from its key prefix.
// It reads the item only when the prefix was clamped.
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

// lastPrefixOf returns the last key prefix of a class, or 0 when it was clamped and
// a prefix does not tell the class.
func (b *classBounds) lastPrefixOf(class int) uint64 {
	prefix := b.lastPrefix[class]
	if level := prefix >> revisionBits & maxLevelBits; level == 0 || level == maxLevelBits {
		return 0
	}
	return prefix
}

// ClassCeiling returns where the class ends that a job is in at now, and when ageing takes
// the job out of it; the zero time means never.
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

// criticalWidth is the width of the highest class where its end matters: it has no
// class above it.
const criticalWidth = 1000
