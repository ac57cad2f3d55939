package backfill

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"

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
	until  []int64        // good before
	blocks []openingBlock // of each 64 nodes
}

// openingBlock is the soonest of 64 nodes, so that those are not looked at one by one
// of which none is soon enough.
type openingBlock struct{ first, until int64 }

// refreshBlock finds the soonest of a block again.
func (o *openings) refreshBlock(k int) {
	b := openingBlock{job.NoEnd, job.NoEnd}
	for at := 64 * k; at < min(64*(k+1), len(o.first)); at++ {
		b.first, b.until = min(b.first, o.first[at]), min(b.until, o.until[at])
	}
	o.blocks[k] = b
}

// openBefore yields the nodes of a set from lo up to hi that open before a bound,
// which may fall meanwhile.
func (o *openings) openBefore(bound *int64, reach *cluster.Set, lo, hi int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for k := lo / 64; 64*k < hi; k++ {
			if o.blocks[k].first >= *bound {
				continue
			}
			end := min(64*(k+1), hi)
			for at := reach.Next(max(64*k, lo)); at >= 0 && at < end; at = reach.Next(at + 1) {
				if o.first[at] < *bound && !yield(at) {
					return
				}
			}
		}
	}
}

// maxOpenings is for how many wants they are kept, of each lens.
const maxOpenings = 2 * config.MaxReserved

// refreshOpenings brings the openings of a want up to date.
func (b *Round) refreshOpenings(w *cluster.Request, now time.Time, by job.Quantile) *openings {
	f := b.Cluster.RefreshFeasible(w)
	o := b.openings[by][w]
	if o == nil {
		if b.openings[by] == nil {
			b.openings[by] = map[*cluster.Request]*openings{}
		}
		o = &openings{layout: -1}
		b.openings[by][w] = o
		if kept := &b.openingCaches[by]; len(*kept) < maxOpenings {
			*kept = append(*kept, w)
		} else {
			delete(b.openings[by], (*kept)[0])
			copy(*kept, (*kept)[1:])
			(*kept)[len(*kept)-1] = w
		}
	}
	look := func(at int) {
		n := b.Cluster.Nodes[at]
		o.first[at], o.until[at] = job.NoEnd, job.NoEnd
		if n.Schedulable() && f.Nodes.Has(at) {
			d := b.ReleasesOn(n, now, by)
			o.first[at], o.until[at] = opensAt(n, w, d.List), d.until
		}
	}
	if o.layout != b.Cluster.Layout || b.Cluster.CapacityChanges.HasGap(o.seen) {
		o.layout = b.Cluster.Layout
		o.first = slices.Grow(o.first[:0], len(b.Cluster.Nodes))[:len(b.Cluster.Nodes)]
		o.until = slices.Grow(o.until[:0], len(b.Cluster.Nodes))[:len(b.Cluster.Nodes)]
		o.blocks = slices.Grow(o.blocks[:0], (len(b.Cluster.Nodes)+63)/64)[:(len(b.Cluster.Nodes)+63)/64]
		for at := range b.Cluster.Nodes {
			look(at)
		}
		for k := range o.blocks {
			o.refreshBlock(k)
		}
	} else {
		first := b.Cluster.CapacityChanges.Count - len(b.Cluster.CapacityChanges.Since(o.seen))
		for i, at := range b.Cluster.CapacityChanges.Since(o.seen) {
			if b.Cluster.LastCapacityChange[at] == first+i {
				look(int(at))
				o.refreshBlock(int(at) / 64)
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
			o.refreshBlock(k)
		}
	}
	o.seen = b.Cluster.CapacityChanges.Count
	return o
}

// domainOpening is a range of nodes, and when enough members have room there.
type domainOpening struct {
	lo, hi int
	at     int64
}

// domainOpenings are the domains of a level with the times when so many members have room
// there, the soonest first, no more than a few. Without a level it is the fleet.
func (b *Round) domainOpenings(w *cluster.Request, o *openings, reach *cluster.Set, level ares.Level, members int, now time.Time, by job.Quantile) []domainOpening {
	var out []domainOpening
	for lo := 0; lo < len(b.Cluster.Nodes); {
		hi := len(b.Cluster.Nodes)
		if level != "" {
			_, hi = b.Cluster.Domains.EnclosingDomain(lo, level)
		}
		bound := int64(job.NoEnd)
		if len(out) == maxDomainsTried {
			bound = out[len(out)-1].at
		}
		if at := b.whenEnough(w, o, reach, lo, hi, members, bound, now, by); at < bound {
			spot, _ := slices.BinarySearchFunc(out, at+1, func(sp domainOpening, at int64) int {
				if sp.at < at {
					return -1
				}
				return 1
			})
			out = slices.Insert(out, spot, domainOpening{lo, hi, at})
			out = out[:min(len(out), maxDomainsTried)]
		}
		lo = hi
	}
	return out
}

// whenEnough is when so many members have room on the nodes from lo up to hi, if
// that is before a bound, and else endless.
func (b *Round) whenEnough(w *cluster.Request, o *openings, reach *cluster.Set, lo, hi, members int, bound int64, now time.Time, by job.Quantile) int64 {
	// When as many nodes have room for one, the members have it in any case.
	first := b.firstScratch[:0]
	limit := bound
	for at := range o.openBefore(&limit, reach, lo, hi) {
		if first = pushLeast(first, o.first[at], members); len(first) == members {
			limit = first[0]
		}
	}
	b.firstScratch = first
	if len(first) == 0 {
		return job.NoEnd
	}
	if len(first) == members {
		if bound = min(bound, first[0]+1); members == 1 {
			return first[0]
		}
	}
	steps := b.increaseScratch[:0]
	for at := range o.openBefore(&bound, reach, lo, hi) {
		steps = roomIncreases(b.Cluster.Nodes[at], w, b.ReleasesOn(b.Cluster.Nodes[at], now, by).List, bound, members, steps)
	}
	b.increaseScratch = steps
	slices.SortFunc(steps, func(x, y roomIncrease) int { return cmp.Compare(x.at, y.at) })
	sum := 0
	for _, st := range steps {
		if sum += st.more; sum >= members {
			return st.at
		}
	}
	return job.NoEnd
}

// roomIncrease is a time at which a node has room for more members than before.
type roomIncrease struct {
	at   int64
	more int
}

// roomIncreases adds when the node has room for more members, before a bound.
func roomIncreases(n *cluster.Node, w *cluster.Request, list []expectedRelease, bound int64, most int, to []roomIncrease) []roomIncrease {
	room := min(n.RoomFor(w), most)
	if room > 0 {
		to = append(to, roomIncrease{job.AlreadyOver, room})
	}
	for k := range list {
		if list[k].at >= bound || room >= most {
			break
		}
		if k+1 < len(list) && list[k+1].at == list[k].at {
			continue
		}
		if r := min(roomAfter(n, w, list, k+1), most); r > room {
			to = append(to, roomIncrease{list[k].at, r - room})
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
