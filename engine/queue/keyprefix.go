package queue

import (
	"math"
	"time"

	"github.com/ares-scheduler/ares"
)

// slot is an item with the prefix of its order. A search compares prefixes, which
// lie in a row in memory, and rarely reads an item.
type slot[J any] struct {
	prefix uint64 // Invariant: keyPrefix of the item
	item   *Item[J]
}

// A key prefix is the order of a leaf queue cut down to 64 bits: the bit
// notCritical, twice the level (inverted, so that higher is earlier), and the
// revision, or for an item with a deadline the milliseconds of its due time within
// the ageing step. Values that do not fit are clamped. Clamping never swaps two
// items, and items with equal prefixes are compared themselves.
const (
	levelBits       = 31
	revisionBits    = 32
	maxLevelBits    = 1<<levelBits - 1
	maxRevisionBits = 1<<revisionBits - 1
)

// prefixBase returns the inverted level that prefixes count from. They cover 85
// years from 2020 with a step of ten seconds, and 30 years with one of a second.
func (c Config) prefixBase() int64 {
	if c.BySortKey {
		return fullKeyBase
	}
	if c.AgeingStep <= 0 {
		return -2 * ares.MaxPriority
	}
	return 2 * (c.ageingSteps(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)) - ares.MaxPriority)
}

// fullKeyBase is the base of prefixes that are the order keys themselves.
const fullKeyBase = math.MinInt64

// slotOf returns the slot of an item that waits or is about to.
func (t *Tree[J]) slotOf(it *Item[J]) slot[J] {
	within := it.Revision
	if it.boosted {
		within = t.cfg.stepOffset(it.Due)
	}
	return slot[J]{keyPrefix(it.orderKey, within, t.prefixBase), it}
}

// stepOffset returns the milliseconds from the beginning of an ageing step to a
// time in it.
func (c Config) stepOffset(at time.Time) int64 {
	return at.UnixMilli() - c.ageingSteps(at)*max(c.AgeingStep.Milliseconds(), 1)
}

// keyPrefix returns the prefix of an order key and what orders items within a level.
func keyPrefix(key uint64, within, base int64) uint64 {
	if base == fullKeyBase {
		return key
	}
	level := int64(key&^notCritical) - levelBias - base // inverted
	return key&notCritical | uint64(min(max(level, 0), maxLevelBits))<<revisionBits | uint64(min(max(within, 0), maxRevisionBits))
}

// before reports whether a slot precedes another one of its leaf queue.
func (a *slot[J]) before(b *slot[J]) bool {
	return a.prefix < b.prefix || a.prefix == b.prefix && a.item.before(b.item)
}

// isWithin reports whether the order key of the slot's item is at most the given
// one, the last of a class, whose prefix is given too. It reads the item only when
// its prefix was clamped.
func (a *slot[J]) isWithin(lastKey, lastPrefix uint64) bool {
	if level := a.prefix >> revisionBits & maxLevelBits; level == 0 || level == maxLevelBits {
		return a.item.orderKey <= lastKey
	}
	return a.prefix <= lastPrefix
}
