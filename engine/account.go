package engine

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// charge adds an entry's seats that are not free to the accounts of their
// nodes, its tenant and its queue, or takes them out again.
func (s *State) charge(e *entry, sign int) {
	if sign > 0 {
		e.held = s.holdings(e)
	}
	s.yardOf(e, sign)
	s.noteStops(e, sign)
	if e.run != nil {
		for i := range e.run.Attempts {
			for k := range e.run.Attempts[i].Seats {
				if h := &e.run.Attempts[i].Seats[k]; !h.State.Free() {
					n := s.node(h.Node)
					n.charge(&h.Seat, sign)
					n.seat(e, &h.Seat, sign)
					s.touch(n)
				}
			}
		}
	}
	if e.job == nil || e.shape == nil {
		return
	}
	t := e.shape.tenant
	if e.held.counts {
		e.shape.leaf.Charge(e.held.grant, sign)
		if sign > 0 {
			t.use = t.use.Add(e.held.grant.Held)
			t.enter(e)
		} else {
			t.use = t.use.Sub(e.held.grant.Held)
			t.leave(e)
		}
	}
	for i := range e.held.past {
		if p := &e.held.past[i]; p.to.IsZero() {
			e.shape.leaf.Running(p.use, p.from, sign)
		} else {
			e.shape.leaf.Ran(p.use, p.from, p.to, sign)
			t.addMonths(p, int64(sign))
		}
	}
}

// enter puts an entry among those of the tenant that hold something.
func (t *tenant) enter(e *entry) {
	t.active = append(t.active, e)
	e.activeAt = int32(len(t.active))
}

// leave takes it out.
func (t *tenant) leave(e *entry) {
	last := len(t.active) - 1
	t.active[e.activeAt-1] = t.active[last]
	t.active[e.activeAt-1].activeAt = e.activeAt
	t.active[last] = nil
	t.active, e.activeAt = t.active[:last], 0
}

// holdings works out what an entry holds and has held.
func (s *State) holdings(e *entry) holdings {
	var out holdings
	if e.run == nil || e.job == nil {
		return out
	}
	out.counts = e.holds()
	for i := range e.run.Attempts {
		a := &e.run.Attempts[i]
		var all queue.Grant
		for k := range a.Seats {
			h := &a.Seats[k]
			s.addSeat(&all, &h.Seat, e.job.GPUMemoryMB)
			// A voided seat holds its node's devices until they are clean, but it
			// must not hold its own job's next attempt off by the tenant's limit.
			if !h.State.Settled() {
				s.addSeat(&out.grant, &h.Seat, e.job.GPUMemoryMB)
			}
		}
		if !a.PlacedAt.IsZero() {
			out.past = append(out.past, stretch{all.Use, int64(all.Held.GPUs*wholeMilli + all.Held.GPUMilli), a.PlacedAt, a.EndedAt})
		}
	}
	if out.counts {
		out.grant.Held.Jobs = 1
	}
	return out
}

// addSeat adds what one seat of a job counts to a grant. gpuMemory is what the
// job asks for.
func (s *State) addSeat(g *queue.Grant, seat *ares.Seat, gpuMemory int) {
	g.Held.CPUs += seat.CPUs
	g.Held.MemoryMB += seat.Memory
	g.Held.GPUMemoryMB += gpuMemory
	g.Use.CPU += int64(seat.CPUs)
	g.Use.Memory += int64(seat.Memory)
	n := s.byID[seat.Node]
	for _, sh := range seat.Shares {
		if sh.Milli >= wholeMilli {
			g.Held.GPUs++
		} else {
			g.Held.GPUMilli += sh.Milli
		}
		if b := n.built(sh.Device); b != nil {
			g.Use.GPU += int64(sh.Milli) * b.weight / wholeMilli
			addPart(g, b.order, int64(sh.Milli))
		} else {
			g.Use.GPU += int64(sh.Milli)
			addPart(g, s.order.Model(""), int64(sh.Milli))
		}
	}
}

func addPart(g *queue.Grant, model int, milli int64) {
	at := slices.IndexFunc(g.GPUs, func(p queue.Part) bool { return p.Model == model })
	if at < 0 {
		g.GPUs = append(g.GPUs, queue.Part{Model: model, Milli: milli})
		return
	}
	g.GPUs[at].Milli += milli
}

// built is what a device of the node is, nil when the record does not list it.
func (n *node) built(id string) *build {
	if n == nil || n.profile == nil {
		return nil
	}
	for i := range n.devices {
		if n.devices[i].id == id {
			return &n.profile.devices[i]
		}
	}
	return nil
}

// recharge puts the seats on a node into the accounts anew, because its devices
// are of other models now. It is rare: it looks at every job.
func (s *State) recharge(n *node, describe func()) {
	var there []*entry
	for _, e := range s.jobs { // order-free: sorted right below
		if e.run != nil && e.sat(n.id) {
			there = append(there, e)
		}
	}
	slices.SortFunc(there, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	for _, e := range there {
		s.charge(e, -1)
	}
	describe()
	for _, e := range there {
		s.charge(e, +1)
	}
}

// sat says whether a seat of the entry is on the node, or was.
func (e *entry) sat(node string) bool {
	for i := range e.run.Attempts {
		for k := range e.run.Attempts[i].Seats {
			if e.run.Attempts[i].Seats[k].Node == node {
				return true
			}
		}
	}
	return false
}

// worth is what a machine of the profile adds to what is shared.
func (p *profile) worth() queue.Use {
	u := queue.Use{CPU: int64(p.cpus), Memory: int64(p.memory)}
	for i := range p.devices {
		u.GPU += p.devices[i].weight
	}
	return u
}

// grantOf is what a job of the shape gets with these seats. Its parts are good
// until the next call.
func (s *State) grantOf(sh *shape, seats []ares.Seat) queue.Grant {
	g := queue.Grant{GPUs: s.granted[:0]}
	for i := range seats {
		s.addSeat(&g, &seats[i], sh.one.GPUMemoryMB)
	}
	s.granted = g.GPUs
	g.Held.Jobs = 1
	return g
}

// Fold adds what a live job has used to what archived jobs of its queue have,
// as of a time: the record to write when the job itself goes. A job that used
// nothing changes nothing.
func Fold(s *State, id ares.JobID, before ares.Usage, at time.Time) ares.Usage {
	e := s.jobs[id]
	if e == nil || len(e.held.past) == 0 {
		return before
	}
	var runs []queue.Run
	for _, p := range e.held.past {
		if p.to.IsZero() { // it ends now
			p.to = at
		}
		runs = append(runs, queue.Run{Use: p.use, GPUMilli: p.milli, Start: p.from, End: p.to})
	}
	return queue.Fold(before, runs, s.cfg.HalfLife, at)
}
