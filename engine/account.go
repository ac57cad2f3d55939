package engine

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// chargeJob adds an entry's seats that are not free to the accounts of their
// nodes, its tenant and its queue, or takes them out again.
func (j *jobTable) chargeJob(e *entry, sign int) {
	if sign > 0 {
		e.held = j.holdingsOf(e)
	}
	j.indexRunning(e, sign)
	j.indexStops(e, sign)
	if e.run != nil {
		for i := range e.run.Attempts {
			for k := range e.run.Attempts[i].Seats {
				if h := &e.run.Attempts[i].Seats[k]; !h.State.Free() {
					n := j.cluster.node(h.Node)
					n.charge(&h.Seat, sign)
					n.countOccupant(e, &h.Seat, sign)
					j.cluster.markDirty(n)
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
			t.addActive(e)
		} else {
			t.use = t.use.Sub(e.held.grant.Held)
			t.removeActive(e)
		}
	}
	for i := range e.held.past {
		if p := &e.held.past[i]; p.to.IsZero() {
			e.shape.leaf.Running(p.use, p.from, sign)
		} else {
			e.shape.leaf.Ran(p.use, p.from, p.to, sign)
			t.addMonthlyUse(p, int64(sign))
		}
	}
}

// addActive puts an entry among those of the tenant that hold something.
func (t *tenant) addActive(e *entry) {
	t.active = append(t.active, e)
	e.activeAt = int32(len(t.active))
}

// removeActive takes it out.
func (t *tenant) removeActive(e *entry) {
	last := len(t.active) - 1
	t.active[e.activeAt-1] = t.active[last]
	t.active[e.activeAt-1].activeAt = e.activeAt
	t.active[last] = nil
	t.active, e.activeAt = t.active[:last], 0
}

// holdingsOf works out what an entry holds and has held.
func (j *jobTable) holdingsOf(e *entry) holdings {
	var out holdings
	if e.run == nil || e.job == nil {
		return out
	}
	out.counts = e.countsAsRunning()
	for i := range e.run.Attempts {
		a := &e.run.Attempts[i]
		var all queue.Grant
		for k := range a.Seats {
			h := &a.Seats[k]
			j.addSeatToGrant(&all, &h.Seat, e.job.GPUMemoryMB)
			// A voided seat holds its node's devices until they are clean, but it
			// must not hold its own job's next attempt off by the tenant's limit.
			if !h.State.Settled() {
				j.addSeatToGrant(&out.grant, &h.Seat, e.job.GPUMemoryMB)
			}
		}
		if !a.PlacedAt.IsZero() {
			out.past = append(out.past, usagePeriod{all.Use, int64(all.Held.GPUs*WholeMilli + all.Held.GPUMilli), a.PlacedAt, a.EndedAt})
		}
	}
	if out.counts {
		out.grant.Held.Jobs = 1
	}
	return out
}

// addSeatToGrant adds what one seat of a job counts to a grant. gpuMemory is what the
// job asks for.
func (j *jobTable) addSeatToGrant(g *queue.Grant, seat *ares.Seat, gpuMemory int) {
	g.Held.CPUs += seat.CPUs
	g.Held.MemoryMB += seat.Memory
	g.Held.GPUMemoryMB += gpuMemory
	g.Use.CPU += int64(seat.CPUs)
	g.Use.Memory += int64(seat.Memory)
	n := j.cluster.nodesByID[seat.Node]
	for _, sh := range seat.Shares {
		if sh.Milli >= WholeMilli {
			g.Held.GPUs++
		} else {
			g.Held.GPUMilli += sh.Milli
		}
		if b := n.deviceSpecOf(sh.Device); b != nil {
			g.Use.GPU += int64(sh.Milli) * b.weight / WholeMilli
			addModelPart(g, b.modelIndex, int64(sh.Milli))
		} else {
			g.Use.GPU += int64(sh.Milli)
			addModelPart(g, j.queues.Model(""), int64(sh.Milli))
		}
	}
}

func addModelPart(g *queue.Grant, model int, milli int64) {
	at := slices.IndexFunc(g.GPUs, func(p queue.Part) bool { return p.Model == model })
	if at < 0 {
		g.GPUs = append(g.GPUs, queue.Part{Model: model, Milli: milli})
		return
	}
	g.GPUs[at].Milli += milli
}

// deviceSpecOf is what a device of the node is, nil when the record does not list it.
func (n *node) deviceSpecOf(id string) *deviceSpec {
	if n == nil || n.typ == nil {
		return nil
	}
	for i := range n.devices {
		if n.devices[i].id == id {
			return &n.typ.devices[i]
		}
	}
	return nil
}

// rechargeNode puts the seats on a node into the accounts anew, because its devices
// are of other models now. It is rare: it looks at every job.
func (j *jobTable) rechargeNode(n *node, describe func()) {
	var there []*entry
	for _, e := range j.entryByID { // order-free: sorted right below
		if e.run != nil && e.usedNode(n.id) {
			there = append(there, e)
		}
	}
	slices.SortFunc(there, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	for _, e := range there {
		j.chargeJob(e, -1)
	}
	describe()
	for _, e := range there {
		j.chargeJob(e, +1)
	}
}

// usedNode says whether a seat of the entry is on the node, or was.
func (e *entry) usedNode(node string) bool {
	for i := range e.run.Attempts {
		for k := range e.run.Attempts[i].Seats {
			if e.run.Attempts[i].Seats[k].Node == node {
				return true
			}
		}
	}
	return false
}

// capacity is what a machine of the profile adds to what is shared.
func (p *nodeType) capacity() queue.Use {
	u := queue.Use{CPU: int64(p.cpus), Memory: int64(p.memory)}
	for i := range p.devices {
		u.GPU += p.devices[i].weight
	}
	return u
}

// grantOf is what a job of the shape gets with these seats. Its parts are good
// until the next call.
func (j *jobTable) grantOf(sh *shape, seats []ares.Seat) queue.Grant {
	g := queue.Grant{GPUs: j.grantScratch[:0]}
	for i := range seats {
		j.addSeatToGrant(&g, &seats[i], sh.perMember.GPUMemoryMB)
	}
	j.grantScratch = g.GPUs
	g.Held.Jobs = 1
	return g
}

// FoldUsage adds what a live job has used to what archived jobs of its queue have,
// as of a time: the record to write when the job itself goes. A job that used
// nothing changes nothing.
func FoldUsage(s *State, id ares.JobID, before ares.Usage, at time.Time) ares.Usage {
	e := s.jobs.entryByID[id]
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
