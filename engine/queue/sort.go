package queue

import (
	"math/bits"
	"slices"
)

// sortSlots puts slots in their order, with as much room beside them. It spreads
// them by one digit of their keys after the other. Jobs mostly come in the order
// of their revisions: then the digits of the level do, because spreading leaves
// alone the order of equals.
func sortSlots[J any](in, other []slot[J]) {
	if len(in) > radixSortMin {
		differ, low := uint64(0), uint(revisionBits)
		for i := 1; i < len(in); i++ {
			differ |= in[i].prefix ^ in[0].prefix
			if in[i].prefix&maxRevisionBits < in[i-1].prefix&maxRevisionBits {
				low = 0
			}
		}
		// The bit of critical ones is alone at the top. It joins the others
		// right above the last that differs, which saves a digit.
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

// sortEqualPrefixes puts slots in order whose keys are.
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
	radixSortMin = 24 // up to so many are sooner moved one by one
	digitBits    = 8
	digitMask    = 1<<digitBits - 1
)

// radixPass orders slots by one digit of the lowest top bits of their keys and the
// highest one, and leaves alone the order of those that have it in common.
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

// searchSlots returns how many of the slots are before s. It compares keys without
// a branch that could be guessed wrongly, and looks at items only when there is
// a key like its own.
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

// less is 1 when a is less than b, and 0 otherwise, without a branch.
func less(a, b uint64) uint64 {
	_, borrow := bits.Sub64(a, b, 0)
	return borrow
}
