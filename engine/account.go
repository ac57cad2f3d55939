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
			t.use = t.use.Add(e.held.grant.ForLimits)
			t.addActive(e)
		} else {
			t.use = t.use.Sub(e.held.grant.ForLimits)
			t.removeActive(e)
		}
	}
	for i := range e.held.past {
		if p := &e.held.past[i]; p.to.IsZero() {
			e.shape.leaf.AddRunning(p.use, p.from, sign)
		} else {
			e.shape.leaf.AddEnded(p.use, p.from, p.to, sign)
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
		var all queue.Allocation
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
			out.past = append(out.past, usagePeriod{all.ForShare, int64(all.ForLimits.GPUs*WholeMilli + all.ForLimits.GPUMilli), a.PlacedAt, a.EndedAt})
		}
	}
	if out.counts {
		out.grant.ForLimits.Jobs = 1
	}
	return out
}

// addSeatToGrant adds what one seat of a job counts to a grant. gpuMemory is what the
// job asks for.
func (j *jobTable) addSeatToGrant(g *queue.Allocation, seat *ares.Seat, gpuMemory int) {
	g.ForLimits.CPUs += seat.CPUs
	g.ForLimits.MemoryMB += seat.Memory
	g.ForLimits.GPUMemoryMB += gpuMemory
	g.ForShare.CPU += int64(seat.CPUs)
	g.ForShare.Memory += int64(seat.Memory)
	n := j.cluster.nodesByID[seat.Node]
	for _, sh := range seat.Shares {
		if sh.Milli >= WholeMilli {
			g.ForLimits.GPUs++
		} else {
			g.ForLimits.GPUMilli += sh.Milli
		}
		if b := n.deviceSpecOf(sh.Device); b != nil {
			g.ForShare.GPU += int64(sh.Milli) * b.weight / WholeMilli
			addModelPart(g, b.modelIndex, int64(sh.Milli))
		} else {
			g.ForShare.GPU += int64(sh.Milli)
			addModelPart(g, j.queues.ModelIndex(""), int64(sh.Milli))
		}
	}
}

func addModelPart(g *queue.Allocation, model int, milli int64) {
	at := slices.IndexFunc(g.ForQuotas, func(p queue.GPUAmount) bool { return p.Model == model })
	if at < 0 {
		g.ForQuotas = append(g.ForQuotas, queue.GPUAmount{Model: model, Milli: milli})
		return
	}
	g.ForQuotas[at].Milli += milli
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
func (p *nodeType) capacity() queue.Resources {
	u := queue.Resources{CPU: int64(p.cpus), Memory: int64(p.memory)}
	for i := range p.devices {
		u.GPU += p.devices[i].weight
	}
	return u
}

// grantOf is what a job of the shape gets with these seats. Its parts are good
// until the next call.
func (j *jobTable) grantOf(sh *shape, seats []ares.Seat) queue.Allocation {
	g := queue.Allocation{ForQuotas: j.grantScratch[:0]}
	for i := range seats {
		j.addSeatToGrant(&g, &seats[i], sh.perMember.GPUMemoryMB)
	}
	j.grantScratch = g.ForQuotas
	g.ForLimits.Jobs = 1
	return g
}

// FoldUsage adds what a live job has used to what archived jobs of its queue have,
// as of a time: the record to write when the job itself goes. A job that used
// nothing changes nothing.
func FoldUsage(s *State, id ares.JobID, before ares.Usage, at time.Time) ares.Usage {
	e := s.core.jobs.entryByID[id]
	if e == nil || len(e.held.past) == 0 {
		return before
	}
	var runs []queue.AttemptUse
	for _, p := range e.held.past {
		if p.to.IsZero() { // it ends now
			p.to = at
		}
		runs = append(runs, queue.AttemptUse{Resources: p.use, GPUMilli: p.milli, Start: p.from, End: p.to})
	}
	return queue.ArchiveUse(before, runs, s.core.cfg.HalfLife, at)
}
