package engine

import (
	"fmt"
	"math/bits"
)

// filter is the part of a shape that no change of the accounts can alter: what
// a node and its devices must be like. Shapes with the same wishes share it,
// and with it the set of nodes that are so, which is found once for as long as
// no node changes.
type filter struct {
	key   string
	refs  int
	fleet int      // State.fleet as of which nodes is right, 0 for never
	nodes []uint64 // bitset over State.nodes
}

func filterKey(sh *shape) string {
	return fmt.Sprintf("%q %q %q %q %d %t", sh.selector, sh.regions, sh.kind, sh.model, sh.deviceMemory, sh.gpus > 0 || sh.milli > 0)
}

// likes says whether the node is what the shape's filter asks for.
func (n *node) likes(sh *shape) bool {
	if n.record == nil || !n.labelled(sh) || !n.within(sh) {
		return false
	}
	if sh.gpus == 0 && sh.milli == 0 {
		return true
	}
	for i := range n.devices {
		if n.devices[i].fits(sh) {
			return true
		}
	}
	return false
}

// sift returns the shape's filter with its set of nodes up to date.
func (s *State) sift(sh *shape) *filter {
	f := sh.filter
	if f.fleet == s.fleet {
		return f
	}
	f.fleet = s.fleet
	words := (len(s.nodes) + 63) / 64
	if cap(f.nodes) < words {
		f.nodes = make([]uint64, words)
	}
	f.nodes = f.nodes[:words]
	clear(f.nodes)
	for i, n := range s.nodes {
		if n.likes(sh) {
			f.nodes[i/64] |= 1 << (i % 64)
		}
	}
	return f
}

// next finds the first node of the set from i on, -1 when there is none.
func (f *filter) next(i int) int {
	for word := i / 64; word < len(f.nodes); word++ {
		set := f.nodes[word]
		if word == i/64 {
			set &= ^uint64(0) << (i % 64)
		}
		if set != 0 {
			return 64*word + bits.TrailingZeros64(set)
		}
	}
	return -1
}

// next finds the first node from i on that is in the filter's set and may have
// room, -1 when there is none. Each of the two leaps past what the other
// rules out.
func (s *State) next(f *filter, i int, want height) int {
	for i >= 0 {
		at := f.next(i)
		if at < 0 {
			return -1
		}
		if i = s.sky.next(at, want); i == at {
			return i
		}
	}
	return -1
}
