package engine

import (
	"cmp"
	"container/heap"
	"math/bits"
	"slices"
)

// price is by what nodes are compared while a set of victims is put together.
type price uint8

const (
	priceSpread price = iota // what a job loses, by the part of it that is on the node: right where all of it is of use
	priceWhole               // what a job loses: right where little is asked
	priceTight               // how much is stopped: right where the ceiling is near
)

// of is the price of a job that has so much on a node.
func (p price) of(v *rival, milli int64) int64 {
	lost := min(v.lost, 1<<44)
	switch p {
	case priceSpread:
		if v.milli > 0 && milli < v.milli {
			return lost / v.milli * milli
		}
	case priceTight:
		return min(v.milli, 1<<24)<<20 + min(lost/wholeMilli, 1<<20-1)
	case priceWhole:
	}
	return lost
}

// scope is a range of nodes that has to hold the whole job.
type scope struct {
	lo, hi   int
	estimate int64
}

// maxScopes is in how many domains a set of victims is tried.
const maxScopes = 8

// scopes are the domains of the required level where there could be room, those
// that seem the cheapest first, or else the whole fleet.
func (h *hunt) scopes(p price) []scope {
	s, level := h.try.state, h.sh.wish.required
	if level == "" || h.sh.members == 1 {
		return []scope{{0, len(s.nodes), 0}}
	}
	var out []scope
	for i := 0; i < len(h.grounds); {
		lo, hi := s.places.Span(h.grounds[i].node.at, level)
		from := i
		for i < len(h.grounds) && h.grounds[i].node.at < hi {
			i++
		}
		if sc := (scope{lo, hi, 0}); h.suffices(&sc, h.grounds[from:i], p) {
			out = append(out, sc)
		}
	}
	slices.SortFunc(out, func(a, b scope) int { return cmp.Or(cmp.Compare(a.estimate, b.estimate), a.lo-b.lo) })
	return out[:min(len(out), maxScopes)]
}

// suffices says whether there is room in a domain if all of its grounds are
// cleared, and estimates what it takes.
func (h *hunt) suffices(sc *scope, grounds []ground, p price) bool {
	lack := h.sh.least
	for i := sc.lo; i < sc.hi; i++ {
		lack -= int(h.rooms[i])
	}
	var bounds []int64
	for i := range grounds {
		g := &grounds[i]
		for _, v := range h.guests(g, p) {
			v.entry.rival.gone = false
		}
		more := g.node.roomWithout(h.want, h.guests(g, p)) - int(h.rooms[g.node.at])
		bound, ok := h.bound(g, p)
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

// ticket is a ground in line to be cleared for one more member.
type ticket struct {
	ground  int
	price   int64 // of a member, or no more than that
	weighed bool
}

type tickets []ticket

func (q *tickets) Len() int { return len(*q) }
func (q *tickets) Less(i, j int) bool {
	a, b := &(*q)[i], &(*q)[j]
	return cmp.Or(cmp.Compare(a.price, b.price), a.ground-b.ground) < 0
}
func (q *tickets) Swap(i, j int) { (*q)[i], (*q)[j] = (*q)[j], (*q)[i] }
func (q *tickets) Push(x any)    { *q = append(*q, x.(ticket)) }
func (q *tickets) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// choose puts together a set that makes room for the least the job can start
// with inside a range of nodes. They have left when it says true.
func (h *hunt) choose(in scope, p price) bool {
	total := h.reset(in)
	q := (*tickets)(&h.queue)
	*q = (*q)[:0]
	for i := range h.grounds {
		if at := h.grounds[i].node.at; at >= in.lo && at < in.hi {
			if bound, ok := h.bound(&h.grounds[i], p); ok {
				*q = append(*q, ticket{i, bound, false})
			}
		}
	}
	heap.Init(q)
	for total < h.sh.least {
		if len(*q) == 0 {
			return false
		}
		next := heap.Pop(q).(ticket)
		g := &h.grounds[next.ground]
		if !next.weighed || g.moves != g.node.moves {
			if price, ok := h.weigh(g, p, h.sh.least-total); ok {
				heap.Push(q, ticket{next.ground, price, true})
			}
			continue
		}
		if !h.clear(g) {
			continue
		}
		total = h.recount(in, total, p)
	}
	return true
}

// reset begins a new set, and counts the members that fit already.
func (h *hunt) reset(in scope) (total int) {
	h.try.undo(h.base)
	h.gone = h.gone[:0]
	for i := range h.spots {
		h.spots[i].rival.gone = false
	}
	for i := range h.debts {
		h.debts[i].left = h.debts[i].Over
	}
	h.left = append(h.left[:0], h.rooms...)
	for i := in.lo; i < in.hi; i++ {
		total += int(h.rooms[i])
	}
	for i := range h.grounds {
		h.grounds[i].moves = -1
	}
	return total
}

// clear takes those from a ground who were found to be the cheapest there. It is
// false when they do not owe enough together.
func (h *hunt) clear(g *ground) bool {
	from := len(h.gone)
	for _, l := range g.leave {
		v := l.entry.rival
		if !h.collect(v) {
			for _, back := range h.gone[from:] {
				back.gone = false
				for _, p := range back.debts {
					h.debts[p.debt].left += p.milli
				}
			}
			h.gone = h.gone[:from]
			return false
		}
		v.gone = true
		h.gone = append(h.gone, v)
	}
	for _, v := range h.gone[from:] {
		h.try.vacate(v.entry)
	}
	h.fresh = from
	return true
}

// recount counts the members that fit after some have left, and puts the nodes
// they left in line again: those may be cheaper now.
func (h *hunt) recount(in scope, total int, p price) int {
	q := (*tickets)(&h.queue)
	for _, v := range h.gone[h.fresh:] {
		a := v.entry.run.Current()
		for i := range a.Seats {
			n := h.try.state.byID[a.Seats[i].Node]
			if n == nil || n.at < in.lo || n.at >= in.hi || h.at[n.at] == 0 {
				continue
			}
			room := int32(n.room(h.want))
			total += int(room - h.left[n.at])
			h.left[n.at] = room
			at := int(h.at[n.at]) - 1
			if bound, ok := h.bound(&h.grounds[at], p); ok {
				heap.Push(q, ticket{at, bound, false})
			}
		}
	}
	return total
}

// part is what somebody has on a ground, and its price.
type part struct{ price, milli int64 }

// bound is what clearing a ground for one more member costs at least: of whole
// devices as many as lack, from those where they cost the least, as if jobs could
// go in parts. It is false when nobody is left there.
func (h *hunt) bound(g *ground, p price) (int64, bool) {
	n, w := g.node, h.want
	parts, least := h.parts[:0], int64(1<<62)
	for i := g.from; i < g.to; i++ {
		sp := &h.spots[i]
		if sp.rival.gone || !h.owing(sp.rival) {
			continue
		}
		price := p.of(sp.rival, sp.milli)
		least = min(least, price)
		parts = append(parts, part{price, sp.milli})
	}
	h.parts = parts
	if len(parts) == 0 || w.gpus == 0 {
		return least, len(parts) > 0
	}
	free := bits.OnesCount64(w.mask(n.profile) & n.free)
	lack := int64(w.gpus-free%w.gpus) * wholeMilli
	if free/w.gpus > n.slots(w.cpus, w.memory) {
		return least, true // it is not devices that lack
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Compare(a.price<<8/max(a.milli, 1), b.price<<8/max(b.milli, 1))
	})
	sum := int64(0)
	for _, part := range parts {
		switch {
		case part.milli == 0:
		case part.milli < lack:
			sum, lack = sum+part.price, lack-part.milli
		default:
			return max(least, sum+part.price/part.milli*lack), true
		}
	}
	return 0, false // not even all of them are enough
}

// mostGuests is how many who could leave a node are looked at, the cheapest.
const mostGuests = 64

// guests are those who could leave a ground, each with all its seats there, the
// cheapest first.
func (h *hunt) guests(g *ground, p price) []guest {
	var out []guest
	for i := g.from; i < g.to; i++ {
		sp := &h.spots[i]
		if sp.rival.gone || !h.owing(sp.rival) {
			continue
		}
		at := slices.IndexFunc(out, func(o guest) bool { return o.entry == sp.rival.entry })
		if at < 0 {
			at = len(out)
			out = append(out, guest{entry: sp.rival.entry})
		}
		out[at].seats = append(out[at].seats, sp.seat)
		out[at].milli += int(sp.milli)
	}
	slices.SortFunc(out, func(a, b guest) int {
		return cmp.Or(cmp.Compare(p.of(a.entry.rival, int64(a.milli)), p.of(b.entry.rival, int64(b.milli))), byLoss(a.entry.rival, b.entry.rival))
	})
	return out[:min(len(out), mostGuests)]
}

// weigh finds the cheapest way to make room for one more member on a ground: one
// who is enough alone, or several, by price or by what each costs for a device.
// It answers with the price of a member.
func (h *hunt) weigh(g *ground, p price, lack int) (int64, bool) {
	n, w := g.node, h.want
	all := h.guests(g, p)
	room, best := n.room(w), int64(1<<62)
	g.moves, g.leave, g.gain = n.moves, nil, 0
	consider := func(leave []guest, price int64) {
		gain := n.roomWithout(w, leave) - room
		if gain = min(gain, lack); gain > 0 && price/int64(gain) < best {
			best, g.leave, g.gain = price/int64(gain), slices.Clone(leave), gain
		}
	}
	for i := range all {
		consider(all[i:i+1], p.of(all[i].entry.rival, int64(all[i].milli)))
	}
	if len(all) > 1 {
		h.several(n, all, p, room, consider)
		slices.SortStableFunc(all, func(a, b guest) int {
			x, y := p.of(a.entry.rival, int64(a.milli)), p.of(b.entry.rival, int64(b.milli))
			return cmp.Compare(x<<8/int64(max(a.milli, 1)), y<<8/int64(max(b.milli, 1)))
		})
		h.several(n, all, p, room, consider)
	}
	return best, g.leave != nil
}

// several lets guests go in their order until there is room for one more, and
// then does without those who are not needed after all, the last first.
func (h *hunt) several(n *node, all []guest, p price, room int, consider func([]guest, int64)) {
	lo, hi := 1, len(all) // fewer than lo are not enough, hi are
	if n.roomWithout(h.want, all) <= room {
		return
	}
	for lo < hi {
		if mid := (lo + hi) / 2; n.roomWithout(h.want, all[:mid]) > room {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	leave := slices.Clone(all[:hi])
	for i := len(leave) - 2; i >= 0; i-- { // the last is needed: without it there was no room
		if rest := slices.Delete(slices.Clone(leave), i, i+1); n.roomWithout(h.want, rest) > room {
			leave = rest
		}
	}
	price := int64(0)
	for _, l := range leave {
		price += p.of(l.entry.rival, int64(l.milli))
	}
	consider(leave, price)
}
