package backfill

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
)

func onesCount(set uint64) int { return bits.OnesCount64(set) }

// The type `openings` holds, for each node, the time at which the node is expected to have capacity for one
// member of a request. A node's opening is computed again only if the node changed or if a job on the node
// has run longer than its estimate.
type openings struct {
	layout      int
	seenChanges int // cluster.CapacityChanges seen so far
	opensAt     []int64
	validUntil  []int64        // opensAt is valid before this time
	blocks      []openingBlock // minima over 64 nodes each
}

// openingBlock holds the earliest opening of any node in a block of 64 nodes. A search uses it to skip blocks
// that open too late.
type openingBlock struct{ opensAt, validUntil int64 }

// refreshBlock recomputes the minimum of block k.
func (o *openings) refreshBlock(k int) {
	b := openingBlock{job.NoEnd, job.NoEnd}
	for at := 64 * k; at < min(64*(k+1), len(o.opensAt)); at++ {
		b.opensAt, b.validUntil = min(b.opensAt, o.opensAt[at]), min(b.validUntil, o.validUntil[at])
	}
	o.blocks[k] = b
}

// openBefore yields the feasible nodes at positions p with lo <= p < hi whose opening is before the bound. The caller
// may lower the bound during the iteration.
func (o *openings) openBefore(bound *int64, feasible *cluster.Set, lo, hi int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for k := lo / 64; 64*k < hi; k++ {
			if o.blocks[k].opensAt >= *bound {
				continue
			}
			end := min(64*(k+1), hi)
			for at := feasible.Next(max(64*k, lo)); at >= 0 && at < end; at = feasible.Next(at + 1) {
				if o.opensAt[at] < *bound && !yield(at) {
					return
				}
			}
		}
	}
}

// maxOpenings is the maximum number of requests whose openings are cached. The limit applies to each
// runtime quantile separately.
const maxOpenings = 2 * config.MaxReserved

// refreshOpenings returns the up-to-date openings of a request.
func (b *Round) refreshOpenings(req *cluster.Request, now time.Time, by job.Quantile) *openings {
	f := b.Cluster.RefreshFeasible(req)
	o := b.openings[by][req]
	if o == nil {
		if b.openings[by] == nil {
			b.openings[by] = map[*cluster.Request]*openings{}
		}
		o = &openings{layout: -1}
		b.openings[by][req] = o
		if order := &b.openingsOrder[by]; len(*order) < maxOpenings {
			*order = append(*order, req)
		} else {
			delete(b.openings[by], (*order)[0])
			copy(*order, (*order)[1:])
			(*order)[len(*order)-1] = req
		}
	}
	refresh := func(at int) {
		n := b.Cluster.Nodes[at]
		o.opensAt[at], o.validUntil[at] = job.NoEnd, job.NoEnd
		if n.Schedulable() && f.Nodes.Has(at) {
			d := b.ReleasesOn(n, now, by)
			o.opensAt[at], o.validUntil[at] = firstOpening(n, req, d.List), d.validUntil
		}
	}
	if o.layout != b.Cluster.Layout || b.Cluster.CapacityChanges.HasGap(o.seenChanges) {
		o.layout = b.Cluster.Layout
		o.opensAt = slices.Grow(o.opensAt[:0], len(b.Cluster.Nodes))[:len(b.Cluster.Nodes)]
		o.validUntil = slices.Grow(o.validUntil[:0], len(b.Cluster.Nodes))[:len(b.Cluster.Nodes)]
		o.blocks = slices.Grow(o.blocks[:0], (len(b.Cluster.Nodes)+63)/64)[:(len(b.Cluster.Nodes)+63)/64]
		for at := range b.Cluster.Nodes {
			refresh(at)
		}
		for k := range o.blocks {
			o.refreshBlock(k)
		}
	} else {
		first := b.Cluster.CapacityChanges.Count - len(b.Cluster.CapacityChanges.Since(o.seenChanges))
		for i, at := range b.Cluster.CapacityChanges.Since(o.seenChanges) {
			if b.Cluster.LastCapacityChange[at] == first+i {
				refresh(int(at))
				o.refreshBlock(int(at) / 64)
			}
		}
		nowNano := now.UnixNano()
		for k := range o.blocks {
			if o.blocks[k].validUntil > nowNano {
				continue
			}
			for at := 64 * k; at < min(64*(k+1), len(o.validUntil)); at++ {
				if o.validUntil[at] <= nowNano {
					refresh(at)
				}
			}
			o.refreshBlock(k)
		}
	}
	o.seenChanges = b.Cluster.CapacityChanges.Count
	return o
}

// domainOpening describes a domain: its range of node positions, and the time at which it has capacity
// for enough members.
type domainOpening struct {
	lo, hi int
	at     int64
}

// domainOpenings returns up to maxDomainsTried domains of a topology level, earliest opening first. The opening of
// a domain is the time at which the domain has capacity for the given number of members. If no level is given, the
// whole cluster is one domain.
func (b *Round) domainOpenings(req *cluster.Request, o *openings, feasible *cluster.Set, level ares.Level, members int, now time.Time, by job.Quantile) []domainOpening {
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
		if at := b.timeWithCapacity(req, o, feasible, lo, hi, members, bound, now, by); at < bound {
			pos, _ := slices.BinarySearchFunc(out, at+1, func(domain domainOpening, at int64) int {
				if domain.at < at {
					return -1
				}
				return 1
			})
			out = slices.Insert(out, pos, domainOpening{lo, hi, at})
			out = out[:min(len(out), maxDomainsTried)]
		}
		lo = hi
	}
	return out
}

// timeWithCapacity returns the time at which the nodes at positions p with lo <= p < hi have capacity for the
// given number of members. If the nodes do not have this capacity before the bound, the result is job.NoEnd.
func (b *Round) timeWithCapacity(req *cluster.Request, o *openings, feasible *cluster.Set, lo, hi, members int, bound int64, now time.Time, by job.Quantile) int64 {
	// If a job has k members, all of them fit as soon as k nodes have capacity for one member each.
	first := b.openTimes[:0]
	limit := bound
	for at := range o.openBefore(&limit, feasible, lo, hi) {
		if first = pushSmallest(first, o.opensAt[at], members); len(first) == members {
			limit = first[0]
		}
	}
	b.openTimes = first
	if len(first) == 0 {
		return job.NoEnd
	}
	if len(first) == members {
		if bound = min(bound, first[0]+1); members == 1 {
			return first[0]
		}
	}
	steps := b.increases[:0]
	for at := range o.openBefore(&bound, feasible, lo, hi) {
		steps = capacityIncreases(b.Cluster.Nodes[at], req, b.ReleasesOn(b.Cluster.Nodes[at], now, by).List, bound, members, steps)
	}
	b.increases = steps
	slices.SortFunc(steps, func(x, y capacityIncrease) int { return cmp.Compare(x.at, y.at) })
	sum := 0
	for _, st := range steps {
		if sum += st.more; sum >= members {
			return st.at
		}
	}
	return job.NoEnd
}

// capacityIncrease is a time at which a node gains capacity for more members.
type capacityIncrease struct {
	at   int64
	more int
}

// capacityIncreases appends the times at which the node gains capacity. Only times before the bound are appended.
func capacityIncreases(n *cluster.Node, req *cluster.Request, list []expectedRelease, bound int64, most int, to []capacityIncrease) []capacityIncrease {
	capacity := min(n.RoomFor(req), most)
	if capacity > 0 {
		to = append(to, capacityIncrease{job.AlreadyOver, capacity})
	}
	for k := range list {
		if list[k].at >= bound || capacity >= most {
			break
		}
		if k+1 < len(list) && list[k+1].at == list[k].at {
			continue
		}
		if r := min(capacityAfter(n, req, list, k+1), most); r > capacity {
			to = append(to, capacityIncrease{list[k].at, r - capacity})
			capacity = r
		}
	}
	return to
}

// pushSmallest adds a time to a heap. The heap keeps only a limited number of times, namely the
// smallest ones. The largest of these is on top.
func pushSmallest(heap []int64, t int64, most int) []int64 {
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
