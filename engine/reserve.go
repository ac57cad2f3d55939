package engine

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/order"
)

// reservation is the place that the first job of a queue that found none will
// have at a time, by the predicted ends of those who are there. It is good for
// one decision.
type reservation struct {
	leaf *leaf
	at   time.Time
	hold []taking // what of it is free already
}

// maxReservations is how many places are kept free in one decision, one for each
// queue: what comes later in the order has to do without.
const maxReservations = 64

// keptOff is the short refusal of a job that would fit.
var keptOff = []ares.Blocker{{Kind: kindOrder, Detail: "it would delay a job ahead of it, as far as predictions tell"}}

// refuse passes over a job that found no place: with its whole shape, or with
// everybody behind it in its queue, as configured. It says whether that is news.
func (t *try) refuse(pass *order.Pass[*entry], e *entry, admitted bool, now time.Time) bool {
	s := t.state
	switch blocked := s.cfg.Queueing.Blocked; {
	case t.keptOff && blocked != BlockedHold:
		// Only it: others of its shape may be done sooner.
		news := e.shape.kept != s.decision
		e.shape.kept = s.decision
		pass.Skip()
		return news
	case blocked == BlockedHold && s.independent(e):
		pass.Hold()
	case blocked == BlockedReserve && admitted:
		t.reserve(e, now)
		pass.Refuse()
	default:
		pass.Refuse()
	}
	return true
}

// independent says whether a job waits for no other to succeed.
func (s *State) independent(e *entry) bool {
	return !slices.ContainsFunc(e.shape.after, func(id ares.JobID) bool { return !s.met(id) })
}

// beside places a job where it delays nobody who has a reservation: anywhere if
// it is thought to end before those begin, and else beside what they hold.
func (t *try) beside(e *entry, members int, ban uint64, now time.Time) (p ares.Placing, ok bool) {
	_, late := e.left(now)
	outlasts := func(r *reservation) bool { return late == never || now.Add(late).After(r.at) }
	free := !slices.ContainsFunc(t.reserved, func(r reservation) bool { return outlasts(&r) })
	if free {
		return t.place(e.shape, members, ban, e)
	}
	if e.shape.kept == t.state.decision {
		t.keptOff = true
		return p, false
	}
	m := mark(len(t.taken))
	t.supposing = true
	for i := range t.reserved {
		if r := &t.reserved[i]; outlasts(r) {
			t.hold(r)
		}
	}
	p, ok = t.place(e.shape, members, ban, e)
	t.backTo(m)
	t.supposing = false
	if ok {
		t.occupy(p.Seats)
		return p, true
	}
	if _, fits := t.place(e.shape, members, ban, e); fits {
		t.keptOff = true
		t.backTo(m)
	}
	return p, false
}

// hold takes what is left of what a reservation holds.
func (t *try) hold(r *reservation) {
	for _, k := range r.hold {
		n := k.node
		if k.device >= 0 {
			if k.milli = min(k.milli, wholeMilli-n.devices[k.device].taken); k.milli > 0 {
				t.take(k)
			}
			continue
		}
		k.cpus, k.memory = max(min(k.cpus, n.profile.cpus-n.cpus), 0), max(min(k.memory, n.record.MemoryMB-n.memory), 0)
		t.take(k)
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

// reserve finds the place of the first of its queue that found none. Those on
// the nodes that it may use leave in the order of their predicted ends until it
// fits. Whoever may stay for ever is not waited for: then nothing is reserved.
func (t *try) reserve(e *entry, now time.Time) {
	s, sh := t.state, e.shape
	if len(t.reserved) == maxReservations || slices.ContainsFunc(t.reserved, func(r reservation) bool { return r.leaf == sh.leaf }) {
		return
	}
	members, ban := s.allowed(sh, now)
	m := mark(len(t.taken))
	t.supposing = true
	w := s.without(sh.want, ban)
	for _, l := range s.leaving(sh, w, now) {
		t.vacate(l.entry)
		if !s.opens(l.entry, w) {
			continue
		}
		left := len(t.taken)
		if p, ok := t.place(sh, members, ban, e); ok {
			t.reserved = append(t.reserved, reservation{sh.leaf, l.at, t.lacking(p.Seats, t.taken[m:left])})
			break
		}
	}
	t.backTo(m)
	t.supposing = false
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

// leaver is a running job with its predicted end.
type leaver struct {
	entry *entry
	at    time.Time
}

// leaving is who runs on the nodes that members of a shape may use, by their
// predicted ends. Those who are being stopped end now.
func (s *State) leaving(sh *shape, w *want, now time.Time) []leaver {
	reach, ok := s.reach(sh, w)
	if !ok {
		return nil
	}
	var out []leaver
	for i := reach.next(0); i >= 0; i = reach.next(i + 1) {
		if !s.nodes[i].open() {
			continue
		}
		for _, sit := range s.nodes[i].sitters {
			e := sit.entry
			if e.job == nil || e.run.Current() == nil {
				continue
			}
			half, _ := e.left(now)
			switch {
			case e.run.Stop != nil:
				out = append(out, leaver{e, now})
			case half != never:
				out = append(out, leaver{e, now.Add(half)})
			}
		}
	}
	slices.SortFunc(out, func(a, b leaver) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.entry.id, b.entry.id)) })
	return slices.CompactFunc(out, func(a, b leaver) bool { return a.entry == b.entry })
}
