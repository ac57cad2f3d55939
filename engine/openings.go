package engine

import (
	"iter"
	"math/bits"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

func onesCount(set uint64) int { return bits.OnesCount64(set) }

// openings is when each node will have room for one member of a want, as far as
// is foreseen. Like a board it is brought up to date only for nodes that changed,
// and for those where somebody has outlived what was foreseen.
type openings struct {
	layout int
	seen   int // of State.shifts
	first  []int64
	until  []int64 // good before
	blocks []block // of each 64 nodes
}

// block is the soonest of 64 nodes, so that those are not looked at one by one
// of which none is soon enough.
type block struct{ first, until int64 }

// gather finds the soonest of a block again.
func (o *openings) gather(k int) {
	b := block{endless, endless}
	for at := 64 * k; at < min(64*(k+1), len(o.first)); at++ {
		b.first, b.until = min(b.first, o.first[at]), min(b.until, o.until[at])
	}
	o.blocks[k] = b
}

// before yields the nodes of a set from lo up to hi that open before a bound,
// which may fall meanwhile.
func (o *openings) before(bound *int64, reach *set, lo, hi int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for k := lo / 64; 64*k < hi; k++ {
			if o.blocks[k].first >= *bound {
				continue
			}
			end := min(64*(k+1), hi)
			for at := reach.next(max(64*k, lo)); at >= 0 && at < end; at = reach.next(at + 1) {
				if o.first[at] < *bound && !yield(at) {
					return
				}
			}
		}
	}
}

// maxOpenings is for how many wants they are kept, of each lens.
const maxOpenings = 2 * MaxReserved

// opening brings the openings of a want up to date.
func (s *State) opening(w *want, now time.Time, by lens) *openings {
	f := s.sift(w)
	o := w.opens[by]
	if o == nil {
		o = &openings{layout: -1}
		w.opens[by] = o
		if kept := &s.foreseen[by]; len(*kept) < maxOpenings {
			*kept = append(*kept, w)
		} else {
			(*kept)[0].opens[by] = nil
			copy(*kept, (*kept)[1:])
			(*kept)[len(*kept)-1] = w
		}
	}
	look := func(at int) {
		n := s.nodes[at]
		o.first[at], o.until[at] = endless, endless
		if n.open() && f.nodes.has(at) {
			d := s.departing(n, now, by)
			o.first[at], o.until[at] = n.opensAt(w, d.list), d.until
		}
	}
	if o.layout != s.layout || s.shifts.lost(o.seen) {
		o.layout = s.layout
		o.first = slices.Grow(o.first[:0], len(s.nodes))[:len(s.nodes)]
		o.until = slices.Grow(o.until[:0], len(s.nodes))[:len(s.nodes)]
		o.blocks = slices.Grow(o.blocks[:0], (len(s.nodes)+63)/64)[:(len(s.nodes)+63)/64]
		for at := range s.nodes {
			look(at)
		}
		for k := range o.blocks {
			o.gather(k)
		}
	} else {
		first := s.shifts.count - len(s.shifts.since(o.seen))
		for i, at := range s.shifts.since(o.seen) {
			if s.shifted[at] == first+i {
				look(int(at))
				o.gather(int(at) / 64)
			}
		}
		moment := now.UnixNano()
		for k := range o.blocks {
			if o.blocks[k].until > moment {
				continue
			}
			for at := 64 * k; at < min(64*(k+1), len(o.until)); at++ {
				if o.until[at] <= moment {
					look(at)
				}
			}
			o.gather(k)
		}
	}
	o.seen = s.shifts.count
	return o
}

// span is a range of nodes, and when enough members have room there.
type span struct {
	lo, hi int
	at     int64
}

// spans are the domains of a level with the times when so many members have room
// there, the soonest first, no more than a few. Without a level it is the fleet.
func (s *State) spans(w *want, o *openings, reach *set, level ares.Level, members int, now time.Time, by lens) []span {
	var out []span
	for lo := 0; lo < len(s.nodes); {
		hi := len(s.nodes)
		if level != "" {
			_, hi = s.places.Span(lo, level)
		}
		bound := int64(endless)
		if len(out) == triedSpans {
			bound = out[len(out)-1].at
		}
		if at := s.enough(w, o, reach, lo, hi, members, bound, now, by); at < bound {
			spot, _ := slices.BinarySearchFunc(out, at+1, func(sp span, at int64) int {
				if sp.at < at {
					return -1
				}
				return 1
			})
			out = slices.Insert(out, spot, span{lo, hi, at})
			out = out[:min(len(out), triedSpans)]
		}
		lo = hi
	}
	return out
}

// enough is when so many members have room on the nodes from lo up to hi, if
// that is before a bound, and else endless.
func (s *State) enough(w *want, o *openings, reach *set, lo, hi, members int, bound int64, now time.Time, by lens) int64 {
	// When as many nodes have room for one, the members have it in any case.
	first := s.firsts[:0]
	limit := bound
	for at := range o.before(&limit, reach, lo, hi) {
		if first = pushLeast(first, o.first[at], members); len(first) == members {
			limit = first[0]
		}
	}
	s.firsts = first
	if len(first) == 0 {
		return endless
	}
	if len(first) == members {
		if bound = min(bound, first[0]+1); members == 1 {
			return first[0]
		}
	}
	steps := s.steps[:0]
	for at := range o.before(&bound, reach, lo, hi) {
		steps = s.nodes[at].steps(w, s.departing(s.nodes[at], now, by).list, bound, members, steps)
	}
	s.steps = steps
	slices.SortFunc(steps, func(a, b widening) int {
		if a.at < b.at {
			return -1
		} else if a.at > b.at {
			return 1
		}
		return 0
	})
	sum := 0
	for _, st := range steps {
		if sum += st.more; sum >= members {
			return st.at
		}
	}
	return endless
}

// widening is a time at which a node has room for more members than before.
type widening struct {
	at   int64
	more int
}

// steps adds when the node has room for more members, before a bound.
func (n *node) steps(w *want, list []departure, bound int64, most int, to []widening) []widening {
	room := min(n.room(w), most)
	if room > 0 {
		to = append(to, widening{anyMoment, room})
	}
	for k := range list {
		if list[k].at >= bound || room >= most {
			break
		}
		if k+1 < len(list) && list[k+1].at == list[k].at {
			continue
		}
		if r := min(n.roomAfter(w, list, k+1), most); r > room {
			to = append(to, widening{list[k].at, r - room})
			room = r
		}
	}
	return to
}

// pushLeast keeps the least of some times in a heap with the greatest on top.
func pushLeast(heap []int64, t int64, most int) []int64 {
	if len(heap) < most {
		heap = append(heap, t)
		for i := len(heap) - 1; i > 0; {
			up := (i - 1) / 2
			if heap[up] >= heap[i] {
				break
			}
			heap[up], heap[i] = heap[i], heap[up]
			i = up
		}
		return heap
	}
	if t >= heap[0] {
		return heap
	}
	heap[0] = t
	for i := 0; ; {
		k := 2*i + 1
		if k >= len(heap) {
			return heap
		}
		if k+1 < len(heap) && heap[k+1] > heap[k] {
			k++
		}
		if heap[k] <= heap[i] {
			return heap
		}
		heap[i], heap[k] = heap[k], heap[i]
		i = k
	}
}
