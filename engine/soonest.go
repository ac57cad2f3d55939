package engine

import (
	"iter"
	"math/bits"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Limits on the search for a reservation, so that a decision stays short however
// many wait: in so many domains a gang is tried at the time when enough members
// have room there, and if its other rules are met nowhere, when there is room
// for two, four and eight times as many. The soonest time is narrowed down in so
// many steps.
const (
	triedSpans  = 4
	triedTwice  = 3
	triedInHalf = 5
)

// soonest is the place that the job will have as soon as those have left who are
// foreseen to. What is taken of it stays taken.
func (t *try) soonest(e *entry, members int, ban uint64, now time.Time) (reservation, bool) {
	s, sh := t.state, e.shape
	if s.foretold+len(s.yard.stopping) == 0 {
		return reservation{}, false // nobody's end is foreseen
	}
	w := s.without(sh.want, ban)
	reach, ok := s.reach(sh, w)
	if !ok || s.overLeaf(w) {
		return reservation{}, false
	}
	level := ares.Level("")
	if sh.members > 1 {
		level = sh.wish.required
		if level.Rank() > ares.LevelNode.Rank() {
			level = ares.LevelNode
		}
	}
	m := mark(len(t.taken))
	o := s.opening(w, now, t.by)
	spans := s.spans(w, o, reach, level, sh.least, now, t.by)
	for _, sp := range spans {
		if r, fits := t.at(sp, e, w, members, ban, now); fits {
			return r, true
		}
		t.undo(m)
	}
	if len(spans) == 0 || sh.members == 1 {
		return reservation{}, false
	}
	// Enough room, and yet no place: the rules of the topology want it elsewhere.
	for k := range triedTwice {
		lo, hi := spans[0].lo, spans[0].hi
		o, reach = s.opening(w, now, t.by), s.reachAgain(sh, w)
		wide := span{lo, hi, s.enough(w, o, reach, lo, hi, sh.least<<(k+1), endless, now, t.by)}
		if wide.at == endless {
			break
		}
		if r, fits := t.at(wide, e, w, members, ban, now); fits {
			return t.narrowed(m, r, span{lo, hi, spans[0].at}, wide, e, w, members, ban, now), true
		}
		t.undo(m)
	}
	return reservation{}, false
}

// reachAgain is reach of a shape that had some.
func (s *State) reachAgain(sh *shape, w *want) *set {
	reach, _ := s.reach(sh, w)
	return reach
}

// narrowed looks for an earlier time between one at which the job does not fit
// and one at which it does.
func (t *try) narrowed(m mark, r reservation, not, fits span, e *entry, w *want, members int, ban uint64, now time.Time) reservation {
	s := t.state
	t.undo(m)
	o, reach := s.opening(w, now, t.by), s.reachAgain(e.shape, w)
	var times []int64
	for at := reach.next(fits.lo); at >= 0 && at < fits.hi; at = reach.next(at + 1) {
		for _, d := range s.departing(s.nodes[at], now, t.by).list {
			if o.first[at] <= fits.at && d.at > not.at && d.at < fits.at {
				times = append(times, d.at)
			}
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	lo, hi := -1, len(times)
	for range triedInHalf {
		if lo+1 >= hi {
			break
		}
		mid := (lo + hi) / 2
		if at, ok := t.at(span{fits.lo, fits.hi, times[mid]}, e, w, members, ban, now); ok {
			r, hi = at, mid
		} else {
			lo = mid
		}
		t.undo(m)
	}
	return r
}

// at is the job's place on the nodes of a span when those have left who are
// foreseen to leave by then.
func (t *try) at(sp span, e *entry, w *want, members int, ban uint64, now time.Time) (reservation, bool) {
	s := t.state
	from := len(t.taken)
	reach := s.reachAgain(e.shape, w)
	o := w.opens[t.by]
	bound := sp.at + 1
	for at := range o.before(&bound, reach, sp.lo, sp.hi) {
		n := s.nodes[at]
		list := s.departing(n, now, t.by).list
		for i := range list {
			if list[i].at > sp.at {
				break
			}
			t.vacateSeat(n, list[i].seat)
		}
		s.move(n)
	}
	given := len(t.taken)
	today := s.calendar
	if len(today.windows) > 0 { // which nodes administrators keep, by then
		s.dated(later(today.at, time.Unix(0, max(sp.at, now.UnixNano()))))
		s.stays(e)
	}
	p, ok := t.place(e.shape, members, ban, e)
	s.calendar = today
	if !ok {
		return reservation{}, false
	}
	r := reservation{
		entry: e, leaf: e.shape.leaf, at: max(sp.at, now.UnixNano()), ends: endless,
		seats: p.Seats, merit: p.Merit, hold: t.lacking(p.Seats, t.taken[from:given]),
	}
	if runs := e.runs(t.by); runs != never {
		r.ends = r.at + int64(max(runs-e.done(now), 0))
	}
	t.limit(&r, sp.at, now)
	return r, true
}

// limit says until when those must have ended who start before a reservation.
// Its slack is counted from when it could begin if nobody had come since a place
// is kept for it: so those who come now and those who will come delay it by that
// much together.
func (t *try) limit(r *reservation, at int64, now time.Time) {
	e := r.entry
	qualified := now.Add(t.reserving.After - e.waited(now)).UnixNano()
	could := int64(anyMoment)
	var last *node
	for i := range r.seats {
		n := t.state.byID[r.seats[i].Node]
		if n == last {
			continue
		}
		last = n
		for _, d := range n.departs[t.by].list {
			if d.at > at {
				break
			}
			if d.from < qualified {
				could = max(could, d.at)
			}
			r.by[d.source]++
			if d.overdue {
				r.late++
			}
		}
	}
	r.limit = r.at
	if could != anyMoment && (t.reserving.SlackPercent > 0 || t.reserving.SlackLeast > 0) {
		wait := time.Duration(could-now.UnixNano()) + e.waited(now)
		r.limit = max(r.at, could+int64(t.reserving.slack(wait)))
	}
}

// vacateSeat gives up one seat on a node. The node is to be moved afterwards.
func (t *try) vacateSeat(n *node, seat *ares.Seat) {
	for k := range seat.Shares {
		if at := n.spot(&seat.Shares[k]); at >= 0 {
			t.take(taking{node: n, device: at, milli: -seat.Shares[k].Milli})
		}
	}
	t.take(taking{node: n, device: restOfLeaving, cpus: -seat.CPUs, memory: -seat.Memory, numa: seat.NUMA, kind: seatKind(seat)})
}

// standby is a place for a job of which nobody knows when it will be free: where
// the least has to come free yet. What is free of it is kept, and what comes
// free stays so; since nobody else is put there, less and less is lacking, and
// at last the job starts.
func (t *try) standby(e *entry, members int, ban uint64, now time.Time) (reservation, bool) {
	s, sh := t.state, e.shape
	w := s.without(sh.want, ban)
	reach, ok := s.reach(sh, w)
	if !ok || s.overLeaf(w) {
		return reservation{}, false
	}
	m := mark(len(t.taken))
	old := now.Add(-max(oldest, 4*e.waited(now))).UnixNano()
	for _, cut := range [2]int64{old, anyMoment} {
		for k := range triedTwice {
			nodes := s.nearest(sh, w, reach, sh.least<<k, cut)
			for _, n := range nodes {
				for _, sit := range n.sitters {
					t.vacateSeat(n, sit.seat)
				}
				s.move(n)
			}
			p, fits := t.place(sh, members, ban, e)
			t.undo(m)
			if fits {
				return reservation{entry: e, leaf: sh.leaf, hard: true, at: endless, ends: endless, seats: p.Seats, merit: p.Merit, hold: t.partly(p.Seats, w)}, true
			}
			reach = s.reachAgain(sh, w)
		}
	}
	return reservation{}, false
}

// oldest is how long somebody has run of whom nobody knows when it will end, to
// be taken for one that never does, as long as there are others to wait for.
const oldest = 24 * time.Hour

// nearest is the nodes of one domain that the shape may use where the least has
// to come free for so many members, not counting those where one runs since
// before a time.
func (s *State) nearest(sh *shape, w *want, reach *set, members int, cut int64) []*node {
	level := ares.Level("")
	if sh.members > 1 {
		level = sh.wish.required
		if level.Rank() > ares.LevelNode.Rank() {
			level = ares.LevelNode
		}
	}
	var best []*node
	least := -1
	s.lacks.clear(len(s.nodes))
	for lo := 0; lo < len(s.nodes); {
		hi := len(s.nodes)
		if level != "" {
			_, hi = s.places.Span(lo, level)
		}
		var nodes []*node
		sum, room := 0, 0
		for at, much := range s.lacking(w, reach, lo, hi) {
			if more := s.nodes[at].roomWhen(w, cut); more > 0 {
				nodes = append(nodes, s.nodes[at])
				sum, room = sum+much, room+more
			}
			if room >= members {
				break
			}
		}
		if room >= sh.least && (least < 0 || sum < least) {
			best, least = nodes, sum
		}
		lo = hi
	}
	return best
}

// lacks is how many devices have to come free on each node for one member of a
// want. It is found out for 64 nodes at a time, when they are asked for.
type lacks struct {
	much  []int8 // by position; -1 where none may go
	least []int8 // of each 64: at least; -1 while nobody has asked
	found set    // of these 64
}

func (l *lacks) clear(nodes int) {
	l.much = slices.Grow(l.much[:0], nodes)[:nodes]
	l.least = slices.Grow(l.least[:0], (nodes+63)/64)[:(nodes+63)/64]
	for k := range l.least {
		l.least[k] = -1
	}
	l.found.resize(len(l.least))
}

// lacking yields the open nodes from lo up to hi with what they lack, those that
// lack the least first. There are few devices in a node: sorting would take longer.
func (s *State) lacking(w *want, reach *set, lo, hi int) iter.Seq2[int, int] {
	return func(yield func(at, much int) bool) {
		l := &s.lacks
		for much := range min(max(w.gpus, 1), MaxDevices) + 1 {
			for k := lo / 64; 64*k < hi; k++ {
				if l.least[k] < 0 {
					l.least[k] = s.crestAt(k).lack(w)
				}
				if int(l.least[k]) > much {
					continue
				}
				if !l.found.has(k) {
					l.found.add(k)
					s.findLacks(k, w, reach)
				}
				for at := max(64*k, lo); at < min(64*k+64, hi); at++ {
					if int(l.much[at]) == much && !yield(at, much) {
						return
					}
				}
			}
		}
	}
}

// findLacks finds out what the k-th 64 nodes lack. Nearly always the gists say so:
// where a fleet is large the walk must not touch each node itself.
func (s *State) findLacks(k int, w *want, reach *set) {
	last, mask := int32(-1), uint64(0)
	for at := 64 * k; at < min(64*k+64, len(s.nodes)); at++ {
		g, sp := &s.gists[at], &s.spare[at]
		s.lacks.much[at] = -1
		if !g.open || !reach.has(at) {
			continue
		}
		if g.profile != last {
			last, mask = g.profile, w.mask(s.profiles.all[g.profile])
		}
		much := min(max(w.gpus-bits.OnesCount64(mask&g.free), 0), MaxDevices)
		full := int(sp.cpus) < w.cpus || int(sp.memory) < w.memory || w.milli > int(g.part) && mask&g.free == 0
		if much == 0 && (full || s.nodes[at].room(w) == 0) {
			much = 1 // something else than whole devices
		}
		s.lacks.much[at] = int8(much)
	}
}

// roomWhen is how many members the node can take when all have left who do not
// run since before a time.
func (n *node) roomWhen(w *want, cut int64) int {
	free, grew := n.free, n.grew
	var gone []*ares.Seat
	for _, sit := range n.sitters {
		if sit.entry.run == nil || attemptOf(sit.entry.run, sit.seat).PlacedAt.UnixNano() >= cut {
			gone = append(gone, sit.seat)
		}
	}
	for _, seat := range gone {
		n.charge(seat, -1)
	}
	for i := range n.devices {
		if n.devices[i].taken == 0 {
			n.free |= 1 << i & n.usable
		}
	}
	room := n.room(w)
	for _, seat := range gone {
		n.charge(seat, +1)
	}
	n.free, n.grew = free, grew
	return room
}

// partly is what is free of seats, and of whole devices any that are as good: the
// members take what is free first when it is their turn.
func (t *try) partly(seats []ares.Seat, w *want) []taking {
	var out []taking
	for i := 0; i < len(seats); {
		n, members := t.state.byID[seats[i].Node], 0
		kind, from := seatKind(&seats[i]), i
		for ; i < len(seats) && seats[i].Node == n.id; i++ {
			members++
		}
		free := w.mask(n.profile) & n.free
		for k := 0; k < members*w.gpus && free != 0; k, free = k+1, free&(free-1) {
			out = append(out, taking{node: n, device: bits.TrailingZeros64(free), milli: wholeMilli})
		}
		for k := range seats[from:i] {
			for x := range seats[from+k].Shares {
				if sh := &seats[from+k].Shares[x]; w.gpus == 0 && n.spot(sh) >= 0 {
					out = append(out, taking{node: n, device: n.spot(sh), milli: sh.Milli})
				}
			}
		}
		out = append(out, taking{node: n, device: restOfSeat, cpus: members * w.cpus, memory: members * w.memory, numa: -1, kind: kind})
	}
	return out
}
