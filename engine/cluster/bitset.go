package cluster

import (
	"math/bits"
	"slices"
)

// Set is a set of node positions. A second level of bits marks the 64-bit words that are not zero, so that Next
// finds the next member of a sparse set in a few steps.
type Set struct {
	Words   []uint64
	summary []uint64 // bit w is set if and only if Words[w] is not 0
	Count   int      // number of members
}

// Resize empties the set and gives it capacity for the positions 0 to n-1.
func (s *Set) Resize(n int) {
	words := (n + 63) / 64
	s.Words = zeroed(s.Words, words)
	s.summary = zeroed(s.summary, (words+63)/64)
	s.Count = 0
}

// The function `zeroed` returns a slice of n zeros. It reuses the memory of w if w is large enough.
func zeroed(w []uint64, n int) []uint64 {
	if cap(w) < n {
		return make([]uint64, n)
	}
	w = w[:n]
	clear(w)
	return w
}

func (s *Set) Clone() Set {
	return Set{slices.Clone(s.Words), slices.Clone(s.summary), s.Count}
}

func (s *Set) Has(i int) bool { return s.Words[i/64]&(1<<(i%64)) != 0 }

func (s *Set) Add(i int) {
	if s.Has(i) {
		return
	}
	s.Words[i/64] |= 1 << (i % 64)
	s.summary[i/4096] |= 1 << (i / 64 % 64)
	s.Count++
}

func (s *Set) Remove(i int) {
	if !s.Has(i) {
		return
	}
	if s.Words[i/64] &^= 1 << (i % 64); s.Words[i/64] == 0 {
		s.summary[i/4096] &^= 1 << (i / 64 % 64)
	}
	s.Count--
}

// Put adds position i to the set if the argument `in` is true. Otherwise Put removes position i.
func (s *Set) Put(i int, in bool) {
	if in {
		s.Add(i)
	} else {
		s.Remove(i)
	}
}

// Next returns the first member at position i or later, or -1 if no such member exists.
func (s *Set) Next(i int) int {
	w := i / 64
	if w >= len(s.Words) {
		return -1
	}
	if rest := s.Words[w] & (^uint64(0) << (i % 64)); rest != 0 {
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
			return 64*w + bits.TrailingZeros64(s.Words[w])
		}
	}
	return -1
}

// Common calls the function `visit` for each position p with lo <= p < hi that is in both sets. It goes in
// ascending order, and stops when `visit` returns true. Common reports whether `visit` returned true. For speed,
// Common reads whole 64-bit words instead of calling Next, because decisions spend most of their time in this
// loop.
func (s *Set) Common(o *Set, lo, hi int, visit func(i int) bool) bool {
	for k := lo / 4096; k < len(s.summary) && 4096*k < hi; k++ {
		for both := s.summary[k] & o.summary[k]; both != 0; both &= both - 1 {
			w := 64*k + bits.TrailingZeros64(both)
			for m := s.Words[w] & o.Words[w]; m != 0; m &= m - 1 {
				if i := 64*w + bits.TrailingZeros64(m); i >= lo && i < hi && visit(i) {
					return true
				}
			}
		}
	}
	return false
}

// Copy makes the set equal to the set o.
func (s *Set) Copy(o *Set) {
	s.Words, s.summary, s.Count = append(s.Words[:0], o.Words...), append(s.summary[:0], o.summary...), o.Count
}

// Meets reports whether two sets of the same size have a member in common.
func (s *Set) Meets(o *Set) bool {
	return s.Common(o, 0, 64*len(s.Words), func(int) bool { return true })
}

// Subtract removes every member of the set o from the set.
func (s *Set) Subtract(o *Set) {
	s.Common(o, 0, 64*len(s.Words), func(i int) bool {
		s.Remove(i)
		return false
	})
}
