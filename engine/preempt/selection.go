package preempt

import (
	"cmp"
	"container/heap"
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
)

// costModel is by what nodes are compared while a set of victims is put together.
type costModel uint8

const (
	proportionalCost costModel = iota // what a job loses, by the part of it that is on the node: right where all of it is of use
	wholeJobCost                      // what a job loses: right where little is asked
	sizeCost                          // how much is stopped: right where the ceiling is near
)

// costOf is the price of a job that has so much on a node.
func (p costModel) costOf(v *candidateVictim, milli int64) int64 {
	lost := min(v.cost, 1<<44)
	switch p {
	case proportionalCost:
		if v.milli > 0 && milli < v.milli {
			return lost / v.milli * milli
		}
	case sizeCost:
		return min(v.milli, 1<<24)<<20 + min(lost/cluster.WholeMilli, 1<<20-1)
	case wholeJobCost:
	}
	return lost
}

// domainRange is a range of nodes that has to hold the whole job.
type domainRange struct {
	lo, hi   int
	estimate int64
}

// maxSearchedDomains is in how many domains a set of victims is tried.
const maxSearchedDomains = 8

// domainsToSearch are the domains of the required level where there could be room, those
// that seem the cheapest first, or else the whole fleet.
func (h *victimSearch) domainsToSearch(p costModel) []domainRange {
	level := h.sh.Wish.Required
	if level == "" || h.sh.Members == 1 {
		return []domainRange{{0, len(h.round.Cluster.Nodes), 0}}
	}
	var out []domainRange
	for i := 0; i < len(h.candidates); {
		lo, hi := h.round.Cluster.Domains.EnclosingDomain(h.candidates[i].node.Pos, level)
		from := i
		for i < len(h.candidates) && h.candidates[i].node.Pos < hi {
			i++
		}
		if sc := (domainRange{lo, hi, 0}); h.canClear(&sc, h.candidates[from:i], p) {
			out = append(out, sc)
		}
	}
	slices.SortFunc(out, func(a, b domainRange) int { return cmp.Or(cmp.Compare(a.estimate, b.estimate), a.lo-b.lo) })
	return out[:min(len(out), maxSearchedDomains)]
}

// canClear says whether there is room in a domain if all of its grounds are
// cleared, and estimates what it takes.
func (h *victimSearch) canClear(sc *domainRange, grounds []candidateNode, p costModel) bool {
	lack := h.sh.MinMembers
	for i := sc.lo; i < sc.hi; i++ {
		lack -= int(h.room[i])
	}
	var bounds []int64
	for i := range grounds {
		g := &grounds[i]
		for _, v := range h.victimsAt(g, p) {
			v.victim.chosen = false
		}
		more := g.node.RoomWithout(h.request, SeatsOf(h.victimsAt(g, p))) - int(h.room[g.node.Pos])
		bound, ok := h.lowerBound(g, p)
		for k := 0; ok && k < more; k++ {
			bounds = append(bounds, bound)
		}
	}
	if len(bounds) < lack {
		return false
	}
	slices.Sort(bounds)
	for _, b := range bounds[:max(lack, 0)] {
		sc.estimate += b
	}
	return true
}

// nodeCost is a ground in line to be cleared for one more member.
type nodeCost struct {
	candidate int
	cost      int64 // of a member, or no more than that
	exact     bool
}

type nodeCostQueue []nodeCost

func (q *nodeCostQueue) Len() int { return len(*q) }
func (q *nodeCostQueue) Less(i, j int) bool {
	a, b := &(*q)[i], &(*q)[j]
	return cmp.Or(cmp.Compare(a.cost, b.cost), a.candidate-b.candidate) < 0
}
func (q *nodeCostQueue) Swap(i, j int) { (*q)[i], (*q)[j] = (*q)[j], (*q)[i] }
func (q *nodeCostQueue) Push(x any)    { *q = append(*q, x.(nodeCost)) }
func (q *nodeCostQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// selectVictims puts together a set that makes room for the least the job can start
// with inside a range of nodes. They have left when it says true.
func (h *victimSearch) selectVictims(in domainRange, p costModel) bool {
	total := h.resetSelection(in)
	q := (*nodeCostQueue)(&h.queue)
	*q = (*q)[:0]
	for i := range h.candidates {
		if at := h.candidates[i].node.Pos; at >= in.lo && at < in.hi {
			if bound, ok := h.lowerBound(&h.candidates[i], p); ok {
				*q = append(*q, nodeCost{i, bound, false})
			}
		}
	}
	heap.Init(q)
	for total < h.sh.MinMembers {
		if len(*q) == 0 {
			return false
		}
		next := heap.Pop(q).(nodeCost)
		g := &h.candidates[next.candidate]
		if !next.exact || g.changes != g.node.Changes {
			if price, ok := h.cheapestEviction(g, p, h.sh.MinMembers-total); ok {
				heap.Push(q, nodeCost{next.candidate, price, true})
			}
			continue
		}
		if !h.evictFrom(g) {
			continue
		}
		total = h.updateRoom(in, total, p)
	}
	return true
}

// resetSelection begins a new set, and counts the members that fit already.
func (h *victimSearch) resetSelection(in domainRange) (total int) {
	h.round.Txn.Undo(h.base)
	h.evicted = h.evicted[:0]
	for i := range h.candidateSeats {
		h.candidateSeats[i].victim.chosen = false
	}
	for i := range h.debts {
		h.debts[i].left = h.debts[i].Milli
	}
	h.roomLeft = append(h.roomLeft[:0], h.room...)
	for i := in.lo; i < in.hi; i++ {
		total += int(h.room[i])
	}
	for i := range h.candidates {
		h.candidates[i].changes = -1
	}
	return total
}

// evictFrom takes those from a ground who were found to be the cheapest there. It is
// false when they do not owe enough together.
func (h *victimSearch) evictFrom(g *candidateNode) bool {
	from := len(h.evicted)
	for _, l := range g.evict {
		v := l.victim
		if !h.reclaim(v) {
			for _, back := range h.evicted[from:] {
				back.chosen = false
				for _, p := range back.debtParts {
					h.debts[p.debt].left += p.milli
				}
			}
			h.evicted = h.evicted[:from]
			return false
		}
		v.chosen = true
		h.evicted = append(h.evicted, v)
	}
	for _, v := range h.evicted[from:] {
		h.round.Place.ReleaseJob(v.entry)
	}
	h.evictedFrom = from
	return true
}

// updateRoom counts the members that fit after some have left, and puts the nodes
// they left in line again: those may be cheaper now.
func (h *victimSearch) updateRoom(in domainRange, total int, p costModel) int {
	q := (*nodeCostQueue)(&h.queue)
	for _, v := range h.evicted[h.evictedFrom:] {
		a := v.entry.Run.Current()
		for i := range a.Seats {
			n := h.round.Cluster.NodesByID[a.Seats[i].Node]
			if n == nil || n.Pos < in.lo || n.Pos >= in.hi || h.candidateAt[n.Pos] == 0 {
				continue
			}
			room := int32(n.RoomFor(h.request))
			total += int(room - h.roomLeft[n.Pos])
			h.roomLeft[n.Pos] = room
			at := int(h.candidateAt[n.Pos]) - 1
			if bound, ok := h.lowerBound(&h.candidates[at], p); ok {
				heap.Push(q, nodeCost{at, bound, false})
			}
		}
	}
	return total
}

// partialCost is what somebody has on a ground, and its price.
type partialCost struct{ cost, milli int64 }

// lowerBound is what clearing a ground for one more member costs at least: of whole
// devices as many as lack, from those where they cost the least, as if jobs could
// go in parts. It is false when nobody is left there.
func (h *victimSearch) lowerBound(g *candidateNode, p costModel) (int64, bool) {
	n, w := g.node, h.request
	parts, least := h.parts[:0], int64(1<<62)
	for i := g.from; i < g.to; i++ {
		sp := &h.candidateSeats[i]
		if sp.victim.chosen || !h.stillBorrowed(sp.victim) {
			continue
		}
		price := p.costOf(sp.victim, sp.milli)
		least = min(least, price)
		parts = append(parts, partialCost{price, sp.milli})
	}
	h.parts = parts
	if len(parts) == 0 || w.GPUs == 0 {
		return least, len(parts) > 0
	}
	free := bits.OnesCount64(w.DeviceMask(n.Type) & n.Free)
	lack := int64(w.GPUs-free%w.GPUs) * cluster.WholeMilli
	if free/w.GPUs > n.CPUMemSlots(w.CPUs, w.Memory) {
		return least, true // it is not devices that lack
	}
	slices.SortFunc(parts, func(a, b partialCost) int {
		return cmp.Compare(a.cost<<8/max(a.milli, 1), b.cost<<8/max(b.milli, 1))
	})
	sum := int64(0)
	for _, part := range parts {
		switch {
		case part.milli == 0:
		case part.milli < lack:
			sum, lack = sum+part.cost, lack-part.milli
		default:
			return max(least, sum+part.cost/part.milli*lack), true
		}
	}
	return 0, false // not even all of them are enough
}

// maxNodeVictims is how many who could leave a node are looked at, the cheapest.
const maxNodeVictims = 64

// victimsAt are those who could leave a ground, each with all its seats there, the
// cheapest first.
func (h *victimSearch) victimsAt(g *candidateNode, p costModel) []NodeVictim {
	var out []NodeVictim
	for i := g.from; i < g.to; i++ {
		sp := &h.candidateSeats[i]
		if sp.victim.chosen || !h.stillBorrowed(sp.victim) {
			continue
		}
		at := slices.IndexFunc(out, func(o NodeVictim) bool { return o.Entry == sp.victim.entry })
		if at < 0 {
			at = len(out)
			out = append(out, NodeVictim{Entry: sp.victim.entry, victim: sp.victim})
		}
		out[at].Seats = append(out[at].Seats, sp.seat)
		out[at].Milli += int(sp.milli)
	}
	slices.SortFunc(out, func(a, b NodeVictim) int {
		return cmp.Or(cmp.Compare(p.costOf(a.victim, int64(a.Milli)), p.costOf(b.victim, int64(b.Milli))), byCost(a.victim, b.victim))
	})
	return out[:min(len(out), maxNodeVictims)]
}

// cheapestEviction finds the cheapest way to make room for one more member on a ground: one
// who is enough alone, or several, by price or by what each costs for a device.
// It answers with the price of a member.
func (h *victimSearch) cheapestEviction(g *candidateNode, p costModel, lack int) (int64, bool) {
	n, w := g.node, h.request
	all := h.victimsAt(g, p)
	room, best := n.RoomFor(w), int64(1<<62)
	g.changes, g.evict, g.gain = n.Changes, nil, 0
	consider := func(leave []NodeVictim, price int64) {
		gain := n.RoomWithout(w, SeatsOf(leave)) - room
		if gain = min(gain, lack); gain > 0 && price/int64(gain) < best {
			best, g.evict, g.gain = price/int64(gain), slices.Clone(leave), gain
		}
	}
	for i := range all {
		consider(all[i:i+1], p.costOf(all[i].victim, int64(all[i].Milli)))
	}
	if len(all) > 1 {
		h.evictSeveral(n, all, p, room, consider)
		slices.SortStableFunc(all, func(a, b NodeVictim) int {
			x, y := p.costOf(a.victim, int64(a.Milli)), p.costOf(b.victim, int64(b.Milli))
			return cmp.Compare(x<<8/int64(max(a.Milli, 1)), y<<8/int64(max(b.Milli, 1)))
		})
		h.evictSeveral(n, all, p, room, consider)
	}
	return best, g.evict != nil
}

// evictSeveral lets guests go in their order until there is room for one more, and
// then does without those who are not needed after all, the last first.
func (h *victimSearch) evictSeveral(n *cluster.Node, all []NodeVictim, p costModel, room int, consider func([]NodeVictim, int64)) {
	lo, hi := 1, len(all) // fewer than lo are not enough, hi are
	if n.RoomWithout(h.request, SeatsOf(all)) <= room {
		return
	}
	for lo < hi {
		if mid := (lo + hi) / 2; n.RoomWithout(h.request, SeatsOf(all[:mid])) > room {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	leave := slices.Clone(all[:hi])
	for i := len(leave) - 2; i >= 0; i-- { // the last is needed: without it there was no room
		if rest := slices.Delete(slices.Clone(leave), i, i+1); n.RoomWithout(h.request, SeatsOf(rest)) > room {
			leave = rest
		}
	}
	price := int64(0)
	for _, l := range leave {
		price += p.costOf(l.victim, int64(l.Milli))
	}
	consider(leave, price)
}
