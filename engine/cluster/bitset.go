package cluster

import (
	"math/bits"
	"slices"
)

// Set is a set of node positions. A second level of bits marks the words that are not
// empty, so that the next member of a sparse set is found in a few steps.
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

// zeroed returns a slice of n zeros. It reuses w when w is large enough.
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

// Put adds position i, or removes it when in is false.
func (s *Set) Put(i int, in bool) {
	if in {
		s.Add(i)
	} else {
		s.Remove(i)
	}
}

// Next returns the first member that is not below i, -1 when there is none.
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

// Common visits the positions from lo up to, but not including, hi that are in both
// sets, in order, until visit returns true. It reports whether visit did. It walks
// the words instead of calling Next, because it is the innermost loop of a decision.
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

// Copy replaces the members of the set by those of o.
func (s *Set) Copy(o *Set) {
	s.Words, s.summary, s.Count = append(s.Words[:0], o.Words...), append(s.summary[:0], o.summary...), o.Count
}

// Meets reports whether two sets of the same size have a member in common.
func (s *Set) Meets(o *Set) bool {
	return s.Common(o, 0, 64*len(s.Words), func(int) bool { return true })
}

// Subtract removes the members of o.
func (s *Set) Subtract(o *Set) {
	s.Common(o, 0, 64*len(s.Words), func(i int) bool {
		s.Remove(i)
		return false
	})
}
