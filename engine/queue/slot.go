package queue

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
)

// A `slot` is an item together with its key prefix. A search compares prefixes, which are adjacent in memory, and
// rarely has to read an item.
type slot[J any] struct {
	prefix uint64 // Invariant: keyPrefix of the item
	item   *Item[J]
}

// A key prefix summarizes an item's position in the order of its leaf queue in 64 bits. The prefix consists of the
// bit notCritical, twice the level (inverted, so that a higher level comes earlier), and the revision. If the
// deadline determines the order of an item, the due time replaces the revision in the prefix. It is stored in
// milliseconds since the start of its ageing step. Values that do not fit into their bits are clamped. Clamping
// never changes the order of two items, because items with equal prefixes are compared directly.
const (
	levelBits       = 31
	revisionBits    = 32
	maxLevelBits    = 1<<levelBits - 1
	maxRevisionBits = 1<<revisionBits - 1
)

// prefixBase returns the inverted level at which the range of prefixes begins. With an ageing step of ten seconds,
// the range is 85 years long and begins in 2020. With a step of one second, it is 30 years long.
func (c Config) prefixBase() int64 {
	if c.BySortKey {
		return fullKeyBase
	}
	if c.AgeingStep <= 0 {
		return -2 * ares.MaxPriority
	}
	return 2 * (c.ageingSteps(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)) - ares.MaxPriority)
}

// fullKeyBase is a special value of the base. With this value, each prefix is the whole order key.
const fullKeyBase = math.MinInt64

// slotOf returns the slot of an item that waits or is being pushed.
func (t *Tree[J]) slotOf(it *Item[J]) slot[J] {
	within := it.Revision
	if it.boosted {
		within = t.cfg.stepOffset(it.Due)
	}
	return slot[J]{keyPrefix(it.orderKey, within, t.prefixBase), it}
}

// stepOffset returns how many milliseconds the given time is after the start of its ageing step.
func (c Config) stepOffset(at time.Time) int64 {
	return at.UnixMilli() - c.ageingSteps(at)*max(c.AgeingStep.Milliseconds(), 1)
}

// keyPrefix returns the prefix for an order key. The argument named `within` determines the order of items that
// have the same level.
func keyPrefix(key uint64, within, base int64) uint64 {
	if base == fullKeyBase {
		return key
	}
	level := int64(key&^notCritical) - levelBias - base // inverted
	return key&notCritical | uint64(min(max(level, 0), maxLevelBits))<<revisionBits | uint64(min(max(within, 0), maxRevisionBits))
}

// The method `before` reports whether slot a precedes slot b of the same leaf queue.
func (a *slot[J]) before(b *slot[J]) bool {
	return a.prefix < b.prefix || a.prefix == b.prefix && a.item.before(b.item)
}

// isWithin reports whether the order key of the slot's item is lastKey or less. lastKey must be the last order key of
// a class, and lastPrefix must be its prefix. isWithin reads the item only if the slot's prefix was clamped.
func (a *slot[J]) isWithin(lastKey, lastPrefix uint64) bool {
	if level := a.prefix >> revisionBits & maxLevelBits; level == 0 || level == maxLevelBits {
		return a.item.orderKey <= lastKey
	}
	return a.prefix <= lastPrefix
}

// sortSlots sorts slots. The slice `other` is scratch memory of the same length. Long lists are sorted by
// radix sort, starting from the lowest digit of the prefixes. Jobs mostly arrive in the order of their
// revisions. If the slots are already ordered by revision, only the level has to be sorted, because a radix
// sort is stable.
func sortSlots[J any](in, other []slot[J]) {
	if len(in) > radixSortMin {
		differ, low := uint64(0), uint(revisionBits)
		for i := 1; i < len(in); i++ {
			differ |= in[i].prefix ^ in[0].prefix
			if in[i].prefix&maxRevisionBits < in[i-1].prefix&maxRevisionBits {
				low = 0
			}
		}
		// The highest bit, notCritical, is far above the other bits in which the prefixes differ. If this bit is
		// moved to the position just above those bits, the radix sort needs one digit less.
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

// sortEqualPrefixes takes a list that is sorted by prefix, and sorts each group of slots that have equal prefixes.
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

// radixPass sorts slots stably by one digit of a number that is made from their prefixes. The number consists
// of the highest bit of the prefix, followed by its lowest bits. The argument `top` is the number of these
// lowest bits.
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

// searchSlots returns how many of the sorted slots precede s. It compares prefixes without a branch that the CPU
// could mispredict. It reads an item only if its prefix equals that of s.
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

// The function `less` returns 1 if a < b and 0 otherwise, without a branch that the CPU could mispredict.
func less(a, b uint64) uint64 {
	_, borrow := bits.Sub64(a, b, 0)
	return borrow
}
