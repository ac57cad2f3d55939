package engine

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// reservation is the place that a job which found none will have at a time, by
// the foreseen ends of those who are there. It is good for one decision.
type reservation struct {
	entry *entry
	leaf  *leaf
	at    int64 // its start, endless if nobody knows
	limit int64 // who comes behind it must have ended by then
	first bool  // nobody ahead of it found no place
	hard  bool  // nobody may take what it holds, however soon he ends
	ends  int64 // when the job will have ended, endless if nobody knows
	seats []ares.Seat
	hold  []taking // what of it is free already
	held  []taking // what of that is taken now
	merit ares.Merit
	by    [sources]int // of those it waits for, how many by a forecast, a limit, a guess
	late  int          // how many of them run for longer than was foreseen
}

// keptOff is the short refusal of a job that would fit.
var keptOff = []ares.Blocker{{Kind: kindOrder, Detail: "it would delay a job ahead of it, as far as predictions tell"}}

// spared is the same of one that others' promises keep off.
var spared = []ares.Blocker{{Kind: kindQuota, Detail: WouldBorrow}}

// WouldBorrow is what is said of a job that fits, and waits for those who lent
// what it would have.
const WouldBorrow = "it would borrow what others are promised, who wait and take it back"

// refuse passes over a job that found no place: with its whole shape, or with
// everybody behind it in its queue, as configured. It says whether that is news.
func (t *try) refuse(pass *queue.Pass[*entry], e *entry, admitted bool, now time.Time) bool {
	s := t.state
	switch {
	case t.everybody:
		if admitted && t.mayReserve(e, now) {
			t.reserve(e, now)
		}
		if s.cfg.Queueing.Blocked == BlockedHold && s.independent(e) {
			pass.Hold()
		} else {
			pass.Skip()
		}
	case t.keptOff && s.cfg.Queueing.Blocked != BlockedHold:
		// Only it: others of its shape may be done sooner.
		news := e.shape.told != s.decision
		e.shape.told = s.decision
		pass.Skip()
		return news
	case s.cfg.Queueing.Blocked == BlockedHold && s.independent(e):
		pass.Hold()
	default:
		if admitted && t.mayReserve(e, now) && t.reserve(e, now) {
			t.reserved[len(t.reserved)-1].first = t.unplaced == 0
		}
		if admitted {
			t.unplaced++
		}
		pass.Refuse()
	}
	return true
}

// mayReserve says whether a place is kept for a job that found none.
func (t *try) mayReserve(e *entry, now time.Time) bool {
	r := &t.reserving
	switch {
	case len(t.reserved) >= r.First || t.sought >= 2*r.First:
		return false
	case t.state.cfg.Queueing.Blocked == BlockedReserve && !t.everybody:
		return !slices.ContainsFunc(t.reserved, func(r reservation) bool { return r.leaf == e.shape.leaf })
	}
	return e.waited(now) >= r.After
}

// waited is for how long the job has waited, since it was accepted or since it
// last ran.
func (e *entry) waited(now time.Time) time.Duration {
	since := e.job.AcceptedAt
	if e.run != nil {
		if last := e.run.Last(); last != nil {
			since = later(since, last.EndedAt)
		}
	}
	return now.Sub(since)
}

// independent says whether a job waits for no other to succeed.
func (s *State) independent(e *entry) bool {
	return !slices.ContainsFunc(e.shape.after, func(id ares.JobID) bool { return !s.met(id) })
}

// beside places a job where it delays nobody who has a reservation: anywhere if
// it is foreseen to end before those begin, and else beside what they hold.
func (t *try) beside(e *entry, members int, ban uint64, now time.Time) (p ares.Placing, ok bool) {
	ends := e.endsIn(now)
	outlasted := t.outlasted(ends)
	sh := e.shape
	if outlasted != 0 && sh.kept == t.state.sight && ends >= sh.keptFrom {
		t.keptOff = true // as another of its shape, which ends no later
		return p, false
	}
	t.holdOnly(outlasted)
	t.supposing = outlasted != 0
	p, ok = t.place(sh, members, ban, e)
	t.supposing = false
	if ok || outlasted == 0 {
		return p, ok
	}
	// Is it kept off, or is there no room in any case?
	fits := t.probes >= maxProbes
	if !fits {
		t.probes++
		t.holdOnly(0)
		m := mark(len(t.taken))
		if _, fits = t.place(sh, members, ban, e); fits {
			t.undo(m)
		}
	}
	if fits {
		t.keptOff, sh.kept, sh.keptFrom = true, t.state.sight, ends
	}
	return p, false
}

// endsIn is when the job will have ended in nine of ten cases, if it starts now.
func (e *entry) endsIn(now time.Time) int64 {
	if _, late := e.left(now); late != never {
		return now.Add(late).UnixNano()
	}
	return endless
}

// maxProbes is in how many cases it is found out whether a job without a place
// is kept off: beyond that it is taken for granted.
const maxProbes = 64

// outlasted is which reservations somebody would delay that ends at a time, as
// bits.
func (t *try) outlasted(ends int64) (set uint64) {
	for i := range t.reserved {
		if r := &t.reserved[i]; r.hard || ends > r.limit {
			set |= 1 << i
		}
	}
	return set
}

// holdOnly takes what these reservations hold, and gives up what others do. It
// leaves all as it is where it is so already: most jobs outlast all or none.
func (t *try) holdOnly(which uint64) {
	if which == t.holding {
		return
	}
	for i := range t.reserved {
		r := &t.reserved[i]
		switch bit := uint64(1) << i; {
		case t.holding&^which&bit != 0:
			for _, k := range r.held {
				k.reverse()
				t.take(k)
				if k.device < 0 {
					t.state.move(k.node)
				}
			}
		case which&^t.holding&bit != 0:
			t.hold(r)
		}
	}
	t.holding = which
}

// roomOn is the room of a node for a want, if nothing were held by reservations.
func (t *try) roomOn(n *node, w *want) int {
	if t.holding == 0 || n.heldIn != t.state.decision {
		return n.room(w)
	}
	apply := func(sign int) {
		for i := range t.reserved {
			if t.holding&(1<<i) == 0 {
				continue
			}
			for k := range t.reserved[i].held {
				if h := &t.reserved[i].held[k]; h.node == n {
					h.apply(sign)
				}
			}
		}
	}
	apply(-1)
	room := n.room(w)
	apply(+1)
	return room
}

// reverse makes what is taken given.
func (k *taking) reverse() {
	k.milli, k.cpus, k.memory = -k.milli, -k.cpus, -k.memory
	switch k.device {
	case restOfSeat:
		k.device = restOfLeaving
	case restOfLeaving:
		k.device = restOfSeat
	}
}

// hold takes what is left of what a reservation holds.
func (t *try) hold(r *reservation) {
	r.held = r.held[:0]
	for _, k := range r.hold {
		n := k.node
		if k.device >= 0 {
			if k.milli = min(k.milli, wholeMilli-n.devices[k.device].taken); k.milli > 0 {
				t.take(k)
				r.held = append(r.held, k)
			}
			continue
		}
		k.cpus, k.memory = max(min(k.cpus, n.profile.cpus-n.cpus), 0), max(min(k.memory, n.record.MemoryMB-n.memory), 0)
		t.take(k)
		r.held = append(r.held, k)
		n.heldIn = t.state.decision
		t.state.move(n)
	}
}

// occupy takes seats that were found to be free.
func (t *try) occupy(seats []ares.Seat) {
	for i := range seats {
		seat := &seats[i]
		n := t.state.byID[seat.Node]
		for k := range seat.Shares {
			t.take(taking{node: n, device: n.spot(&seat.Shares[k]), milli: seat.Shares[k].Milli})
		}
		t.take(taking{node: n, device: restOfSeat, cpus: seat.CPUs, memory: seat.Memory, numa: seat.NUMA, kind: seatKind(seat)})
		t.state.move(n)
	}
}

// vacate gives up the seats of a job's attempt under way.
func (t *try) vacate(e *entry) {
	a := e.run.Current()
	for i := range a.Seats {
		h := &a.Seats[i]
		n := t.state.byID[h.Node]
		if h.State.Free() || n == nil || n.record == nil {
			continue
		}
		for k := range h.Shares {
			if at := n.spot(&h.Shares[k]); at >= 0 {
				t.take(taking{node: n, device: at, milli: -h.Shares[k].Milli})
			}
		}
		t.take(taking{node: n, device: restOfLeaving, cpus: -h.CPUs, memory: -h.Memory, numa: h.NUMA, kind: seatKind(&h.Seat)})
		t.state.move(n)
	}
}

// spot is the device of a share in the order of the profile, -1 when the node's
// record does not list it.
func (n *node) spot(sh *ares.Share) int {
	if i := sh.Index; i >= 0 && i < len(n.devices) && n.devices[i].id == sh.Device {
		return i
	}
	return slices.IndexFunc(n.devices, func(d device) bool { return d.id == sh.Device })
}

// reserve keeps a place for a job that found none, if one is foreseen. It is told
// of every earlier reservation: they are taken, and will end in their turn.
func (t *try) reserve(e *entry, now time.Time) bool {
	s := t.state
	t.sought++
	t.holdOnly(0)
	members, ban := s.allowed(e.shape, now)
	if members == 0 {
		return false
	}
	m := mark(len(t.taken))
	t.supposing = true
	s.stays(e) // nobody may have asked for it yet whether it has room
	t.visit(now)
	r, ok := t.soonest(e, members, ban, now)
	t.undo(m)
	if t.mayHold(e, &r, ok, now) {
		if hard, fits := t.standby(e, members, ban, now); fits {
			r, ok = hard, true
		}
		t.undo(m)
	}
	t.endVisit()
	t.supposing = false
	if ok {
		t.reserved = append(t.reserved, r)
	}
	return ok
}

// mayHold says whether what comes free is kept for the job and nobody else, however
// soon he ends: for one that has waited for long, if nothing is foreseen or if it has
// waited for longer than it has to yet: then predictions may be failing it again and
// again. It costs idle devices, so there is one such at a time.
func (t *try) mayHold(e *entry, r *reservation, foreseen bool, now time.Time) bool {
	waited, hold := e.waited(now), t.reserving.Hold
	if t.everybody || hold == 0 || slices.ContainsFunc(t.reserved, func(r reservation) bool { return r.hard }) {
		return false
	}
	return waited >= hold && (!foreseen || r.at-now.UnixNano() < int64(waited))
}

// visit takes the seats of all reservations and nominations, and foresees when those
// will have ended who have them then.
func (t *try) visit(now time.Time) {
	for i := range t.kept {
		k := &t.kept[i]
		if k.over {
			continue
		}
		ends := int64(endless)
		if runs := k.entry.runs(t.by); runs != never {
			ends = k.until.Add(max(runs-k.entry.done(now), 0)).UnixNano()
		}
		t.lift(k)
		t.lodge(k.entry, k.seats, ends)
	}
	for i := range t.reserved {
		t.lodge(t.reserved[i].entry, t.reserved[i].seats, t.reserved[i].ends)
	}
}

// lodge takes seats for somebody who will have ended at a time.
func (t *try) lodge(e *entry, seats []ares.Seat, ends int64) {
	for k := range seats {
		if n := t.state.byID[seats[k].Node]; n != nil && n.record != nil {
			n.visitors = append(n.visitors, visitor{&seats[k], ends, e.source()})
			t.occupy(seats[k : k+1])
		}
	}
}

// endVisit ends it: nothing of it is taken any more.
func (t *try) endVisit() {
	leave := func(seats []ares.Seat) {
		for k := range seats {
			if n := t.state.byID[seats[k].Node]; n != nil {
				clear(n.visitors)
				n.visitors = n.visitors[:0]
			}
		}
	}
	for i := range t.kept {
		leave(t.kept[i].seats)
	}
	for i := range t.reserved {
		leave(t.reserved[i].seats)
	}
}

// opens says whether a node that the job leaves has room for a member.
func (s *State) opens(e *entry, w *want) bool {
	a := e.run.Current()
	for i := range a.Seats {
		if n := s.byID[a.Seats[i].Node]; n != nil && n.open() && n.room(w) > 0 {
			return true
		}
	}
	return false
}

// lacking is what seats need beyond what those give who leave.
func (t *try) lacking(seats []ares.Seat, given []taking) []taking {
	given = slices.Clone(given)
	var out []taking
	for i := range seats {
		seat := &seats[i]
		n := t.state.byID[seat.Node]
		rest := taking{node: n, device: restOfSeat, cpus: seat.CPUs, memory: seat.Memory, numa: seat.NUMA, kind: seatKind(seat)}
		for k := range seat.Shares {
			part := taking{node: n, device: n.spot(&seat.Shares[k]), milli: seat.Shares[k].Milli}
			for g := range given {
				if given[g].node == n && given[g].device == part.device {
					most := min(part.milli, -given[g].milli)
					part.milli, given[g].milli = part.milli-most, given[g].milli+most
				}
			}
			if part.milli > 0 {
				out = append(out, part)
			}
		}
		for g := range given {
			if give := &given[g]; give.node == n && give.device == restOfLeaving {
				cpus, memory := min(rest.cpus, -give.cpus), min(rest.memory, -give.memory)
				rest.cpus, give.cpus = rest.cpus-cpus, give.cpus+cpus
				rest.memory, give.memory = rest.memory-memory, give.memory+memory
			}
		}
		out = append(out, rest)
	}
	return out
}
