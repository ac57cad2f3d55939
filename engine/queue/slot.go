package queue

import (
	"math"
	"math/bits"
	"slices"
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

// sortSlots sorts slots; other is scratch memory of the same length. Long lists are
// sorted by radix, from the lowest digit of the prefixes up. Jobs mostly arrive in
// the order of their revisions: then the digits of the level are enough, because a
// radix pass is stable.
func sortSlots[J any](in, other []slot[J]) {
	if len(in) > radixSortMin {
		differ, low := uint64(0), uint(revisionBits)
		for i := 1; i < len(in); i++ {
			differ |= in[i].prefix ^ in[0].prefix
			if in[i].prefix&maxRevisionBits < in[i-1].prefix&maxRevisionBits {
				low = 0
			}
		}
		// The highest bit, notCritical, is far above the others that differ. Moving
		// it right above them saves a digit.
		top := max(uint(bits.Len64(differ&^notCritical)), low)
		differ = differ&(1<<top-1) | differ>>63<<top
		from, to := in, other
		for shift := low; shift <= top; shift += digitBits {
			if differ>>shift&digitMask != 0 {
				radixPass(from, to, shift, top)
				from, to = to, from
			}
		}
		if &from[0] != &in[0] {
			copy(in, from)
		}
		sortEqualPrefixes(in)
		return
	}
	for i := 1; i < len(in); i++ {
		s, at := in[i], i
		for ; at > 0 && s.before(&in[at-1]); at-- {
			in[at] = in[at-1]
		}
		in[at] = s
	}
}

// sortEqualPrefixes sorts the groups of slots with equal prefixes, in a list that is
// sorted by prefix.
func sortEqualPrefixes[J any](in []slot[J]) {
	for i := 1; i < len(in); i++ {
		if in[i].prefix != in[i-1].prefix {
			continue
		}
		end := i + 1
		for end < len(in) && in[end].prefix == in[i].prefix {
			end++
		}
		slices.SortFunc(in[i-1:end], func(a, b slot[J]) int {
			if a.item.before(b.item) {
				return -1
			}
			return 1
		})
		i = end
	}
}

const (
	radixSortMin = 24 // up to this length, insertion is faster
	digitBits    = 8
	digitMask    = 1<<digitBits - 1
)

// radixPass sorts slots stably by one digit of a number made of their prefixes: the
// highest bit, followed by the lowest top bits.
func radixPass[J any](from, to []slot[J], shift, top uint) {
	var starts [digitMask + 2]uint32
	mask := uint64(1)<<top - 1
	for i := range from {
		key := from[i].prefix
		starts[(key&mask|key>>63<<top)>>shift&digitMask+1]++
	}
	for i := 1; i < len(starts); i++ {
		starts[i] += starts[i-1]
	}
	for i := range from {
		key := from[i].prefix
		at := &starts[(key&mask|key>>63<<top)>>shift&digitMask]
		to[*at] = from[i]
		*at++
	}
}

// searchSlots returns how many of the sorted slots precede s. It compares prefixes
// without a branch that could be mispredicted, and reads items only when a prefix
// equals that of s.
func searchSlots[J any](in []slot[J], s *slot[J]) int {
	at, key := 0, s.prefix
	for rest := len(in); rest > 0; {
		half := (rest + 1) >> 1
		at += half & -int(less(in[at+half-1].prefix, key))
		rest -= half
	}
	if at == len(in) || in[at].prefix != s.prefix {
		return at
	}
	hi := len(in)
	for at < hi {
		if mid := int(uint(at+hi) >> 1); in[mid].before(s) {
			at = mid + 1
		} else {
			hi = mid
		}
	}
	return at
}

// less returns 1 when a < b, and 0 otherwise, without a branch.
func less(a, b uint64) uint64 {
	_, borrow := bits.Sub64(a, b, 0)
	return borrow
}
