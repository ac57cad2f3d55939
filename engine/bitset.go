package engine

import (
	"math/bits"
	"slices"
)

// set is a set of node positions. A summary over its words finds the next
// member of a sparse set among many thousands of nodes in a few steps.
type set struct {
	words   []uint64
	summary []uint64 // bit w: words[w] is not empty
	count   int
}

// resize empties the set and makes it fit n positions.
func (s *set) resize(n int) {
	words := (n + 63) / 64
	s.words = zeroed(s.words, words)
	s.summary = zeroed(s.summary, (words+63)/64)
	s.count = 0
}

// zeroed returns a slice of n zeros, the given one where it is large enough.
func zeroed(w []uint64, n int) []uint64 {
	if cap(w) < n {
		return make([]uint64, n)
	}
	w = w[:n]
	clear(w)
	return w
}

func (s *set) clone() set {
	return set{slices.Clone(s.words), slices.Clone(s.summary), s.count}
}

func (s *set) has(i int) bool { return s.words[i/64]&(1<<(i%64)) != 0 }

func (s *set) add(i int) {
	if s.has(i) {
		return
	}
	s.words[i/64] |= 1 << (i % 64)
	s.summary[i/4096] |= 1 << (i / 64 % 64)
	s.count++
}

func (s *set) remove(i int) {
	if !s.has(i) {
		return
	}
	if s.words[i/64] &^= 1 << (i % 64); s.words[i/64] == 0 {
		s.summary[i/4096] &^= 1 << (i / 64 % 64)
	}
	s.count--
}

// put adds or removes.
func (s *set) put(i int, in bool) {
	if in {
		s.add(i)
	} else {
		s.remove(i)
	}
}

// next finds the first member from i on, -1 when there is none.
func (s *set) next(i int) int {
	w := i / 64
	if w >= len(s.words) {
		return -1
	}
	if rest := s.words[w] & (^uint64(0) << (i % 64)); rest != 0 {
		return 64*w + bits.TrailingZeros64(rest)
	}
	w++
	for k := w / 64; k < len(s.summary); k++ {
		rest := s.summary[k]
		if k == w/64 {
			rest &= ^uint64(0) << (w % 64)
		}
		if rest != 0 {
			w = 64*k + bits.TrailingZeros64(rest)
			return 64*w + bits.TrailingZeros64(s.words[w])
		}
	}
	return -1
}

// common visits the positions from lo up to hi that are in both sets, in order,
// until visit says true; then it says so. It is the innermost loop of a
// decision, so it goes through the words instead of asking for the next.
func (s *set) common(o *set, lo, hi int, visit func(i int) bool) bool {
	for k := lo / 4096; k < len(s.summary) && 4096*k < hi; k++ {
		for both := s.summary[k] & o.summary[k]; both != 0; both &= both - 1 {
			w := 64*k + bits.TrailingZeros64(both)
			for m := s.words[w] & o.words[w]; m != 0; m &= m - 1 {
				if i := 64*w + bits.TrailingZeros64(m); i >= lo && i < hi && visit(i) {
					return true
				}
			}
		}
	}
	return false
}

// copy makes the set the same as another.
func (s *set) copy(o *set) {
	s.words, s.summary, s.count = append(s.words[:0], o.words...), append(s.summary[:0], o.summary...), o.count
}

// meets says whether two sets of the same size have a member in common.
func (s *set) meets(o *set) bool {
	return s.common(o, 0, 64*len(s.words), func(int) bool { return true })
}

// subtract removes the members of another set.
func (s *set) subtract(o *set) {
	s.common(o, 0, 64*len(s.words), func(i int) bool {
		s.remove(i)
		return false
	})
}
