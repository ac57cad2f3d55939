package job

import (
	"cmp"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// chargeJob adds an entry's seats that are not free to the accounts of their
// nodes, its tenant and its queue, or takes them out again.
func (j *Table) chargeJob(e *Entry, sign int) {
	if sign > 0 {
		e.Held = j.holdingsOf(e)
	}
	j.indexRunning(e, sign)
	j.indexStops(e, sign)
	if e.Run != nil {
		for i := range e.Run.Attempts {
			for k := range e.Run.Attempts[i].Seats {
				if h := &e.Run.Attempts[i].Seats[k]; !h.State.Free() {
					n := j.cluster.Node(h.Node)
					n.Charge(&h.Seat, sign)
					n.CountOccupant(e.Slot, &h.Seat, sign)
					j.cluster.MarkDirty(n)
				}
			}
		}
	}
	if e.Job == nil || e.Shape == nil {
		return
	}
	t := e.Shape.Tenant
	if e.Held.counts {
		e.Shape.Leaf.Charge(e.Held.Grant, sign)
		if sign > 0 {
			t.Use = t.Use.Add(e.Held.Grant.ForLimits)
			t.addActive(e)
		} else {
			t.Use = t.Use.Sub(e.Held.Grant.ForLimits)
			t.removeActive(e)
		}
	}
	for i := range e.Held.Past {
		if p := &e.Held.Past[i]; p.To.IsZero() {
			e.Shape.Leaf.AddRunning(p.Use, p.From, sign)
		} else {
			e.Shape.Leaf.AddEnded(p.Use, p.From, p.To, sign)
			t.addMonthlyUse(p, int64(sign))
		}
	}
}

// holdingsOf works out what an entry holds and has held.
func (j *Table) holdingsOf(e *Entry) holdings {
	var out holdings
	if e.Run == nil || e.Job == nil {
		return out
	}
	out.counts = e.countsAsRunning()
	for i := range e.Run.Attempts {
		a := &e.Run.Attempts[i]
		var all queue.Allocation
		for k := range a.Seats {
			h := &a.Seats[k]
			j.addSeatToGrant(&all, &h.Seat, e.Job.GPUMemoryMB)
			// A voided seat holds its node's devices until they are clean, but it
			// must not hold its own job's next attempt off by the tenant's limit.
			if !h.State.Settled() {
				j.addSeatToGrant(&out.Grant, &h.Seat, e.Job.GPUMemoryMB)
			}
		}
		if !a.PlacedAt.IsZero() {
			out.Past = append(out.Past, usagePeriod{all.ForShare, int64(all.ForLimits.GPUs*cluster.WholeMilli + all.ForLimits.GPUMilli), a.PlacedAt, a.EndedAt})
		}
	}
	if out.counts {
		out.Grant.ForLimits.Jobs = 1
	}
	return out
}

// addSeatToGrant adds what one seat of a job counts to a grant. gpuMemory is what the
// job asks for.
func (j *Table) addSeatToGrant(g *queue.Allocation, seat *ares.Seat, gpuMemory int) {
	g.ForLimits.CPUs += seat.CPUs
	g.ForLimits.MemoryMB += seat.Memory
	g.ForLimits.GPUMemoryMB += gpuMemory
	g.ForShare.CPU += int64(seat.CPUs)
	g.ForShare.Memory += int64(seat.Memory)
	n := j.cluster.NodesByID[seat.Node]
	for _, sh := range seat.Shares {
		if sh.Milli >= cluster.WholeMilli {
			g.ForLimits.GPUs++
		} else {
			g.ForLimits.GPUMilli += sh.Milli
		}
		if b := n.DeviceSpecOf(sh.Device); b != nil {
			g.ForShare.GPU += int64(sh.Milli) * b.Weight / cluster.WholeMilli
			addModelPart(g, b.ModelIndex, int64(sh.Milli))
		} else {
			g.ForShare.GPU += int64(sh.Milli)
			addModelPart(g, j.Queues.ModelIndex(""), int64(sh.Milli))
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

// rechargeNode puts the seats on a node into the accounts anew, because its devices
// are of other models now. It is rare: it looks at every job.
func (j *Table) rechargeNode(n *cluster.Node, describe func()) {
	var there []*Entry
	for _, e := range j.EntryByID { // order-free: sorted right below
		if e.Run != nil && e.usedNode(n.ID) {
			there = append(there, e)
		}
	}
	slices.SortFunc(there, func(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) })
	for _, e := range there {
		j.chargeJob(e, -1)
	}
	describe()
	for _, e := range there {
		j.chargeJob(e, +1)
	}
}

// usedNode says whether a seat of the entry is on the node, or was.
func (e *Entry) usedNode(node string) bool {
	for i := range e.Run.Attempts {
		for k := range e.Run.Attempts[i].Seats {
			if e.Run.Attempts[i].Seats[k].Node == node {
				return true
			}
		}
	}
	return false
}

// GrantOf is what a job of the shape gets with these seats. Its parts are good
// until the next call.
func (j *Table) GrantOf(sh *Shape, seats []ares.Seat) queue.Allocation {
	g := queue.Allocation{ForQuotas: j.grantScratch[:0]}
	for i := range seats {
		j.addSeatToGrant(&g, &seats[i], sh.perMember.GPUMemoryMB)
	}
	j.grantScratch = g.ForQuotas
	g.ForLimits.Jobs = 1
	return g
}

func (j *Table) ApplyNodeDeletion(g ares.Gone) {
	n := j.cluster.NodesByID[g.ID]
	if n == nil {
		return
	}
	switch g.Kind {
	case ares.KindNode:
		j.SetNodeRecord(n, nil)
	case ares.KindSession:
		n.Session, j.cluster.Stale.Capacity = nil, true
	case ares.KindScore:
		j.cluster.SetNodeScore(n, nil)
	default:
		n.Cordon, n.GainedRoom = nil, true
	}
	j.cluster.MarkDirty(n)
}

// AdmitsSeats says whether a job may have these seats, by all that does not ask for
// room: what it waits for, its budget, limits and quotas.
func (j *Table) AdmitsSeats(sh *Shape, seats []ares.Seat, now time.Time) bool {
	if sh.Tenant.Record == nil || j.OverBudget(sh.Tenant, now) || slices.ContainsFunc(sh.After, func(id ares.JobID) bool { return !j.DependencySucceeded(id) }) {
		return false
	}
	return sh.Leaf.IsUnrestricted() || len(sh.Leaf.CheckAdmission(j.GrantOf(sh, seats))) == 0
}

// GrantCopy is grantOf for who keeps it.
func (j *Table) GrantCopy(sh *Shape, seats []ares.Seat) queue.Allocation {
	g := j.GrantOf(sh, seats)
	g.ForQuotas = slices.Clone(g.ForQuotas)
	return g
}

// HeldMilli is what a job holds of devices, in thousandths.
func HeldMilli(e *Entry) int64 {
	h := &e.Held.Grant.ForLimits
	return int64(h.GPUs)*cluster.WholeMilli + int64(h.GPUMilli)
}

// SetNodeRecord takes over a node's record, nil when it went. What seats hold stays
// in the account, on devices the record no longer lists too.
func (j *Table) SetNodeRecord(n *cluster.Node, r *ares.Node) {
	same := n.Record != nil && r != nil && sameModels(n.Record, r)
	// What ended jobs used there is counted by the weights of its models too.
	if same || n.Seats == 0 && len(j.cfg.ModelWeights) == 0 {
		j.cluster.ApplyNodeRecord(n, r)
		return
	}
	j.rechargeNode(n, func() { j.cluster.ApplyNodeRecord(n, r) })
}

// sameModels says whether the devices count alike in shares and quotas.
func sameModels(a, b *ares.Node) bool {
	return slices.EqualFunc(a.Devices, b.Devices, func(x, y ares.Device) bool { return x.ID == y.ID && x.Model == y.Model })
}

// GPUMilliOf is what seats take of devices, in thousandths.
func GPUMilliOf(seats []ares.Seat) (milli int64) {
	for i := range seats {
		for _, sh := range seats[i].Shares {
			milli += int64(sh.Milli)
		}
	}
	return milli
}
