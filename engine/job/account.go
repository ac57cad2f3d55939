package job

import (
	"cmp"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/queue"
)

// chargeJob adds an entry to the accounts of its nodes, its tenant and its queue, and to the indexes of running
// jobs and stops. If `sign` is -1, chargeJob removes the entry from these accounts and indexes. Every seat that
// is not free is charged to its node's account.
func (j *Table) chargeJob(e *Entry, sign int) {
	if sign > 0 {
		j.setHoldings(e)
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
	if e.Held.isConcurrent {
		e.Shape.Leaf.Charge(e.Held.Allocation, sign)
		j.chargeOverdue(e, sign)
		if sign > 0 {
			t.Use = t.Use.Add(e.Held.Allocation.ForLimits)
			t.addActive(e)
		} else {
			t.Use = t.Use.Sub(e.Held.Allocation.ForLimits)
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

// noHoldings are the holdings of every job that was never placed. They are never changed.
var noHoldings = &holdings{}

// setHoldings sets the holdings of an entry. Most entries of a long queue have none, and share noHoldings.
func (j *Table) setHoldings(e *Entry) {
	if e.Run == nil || e.Job == nil {
		e.Held = noHoldings
		return
	}
	if e.Held == noHoldings {
		e.Held = &holdings{}
		e.Held.Past, e.Held.Allocation.ForQuotas = e.Held.onePast[:0], e.Held.oneModel[:0]
	}
	j.computeHoldings(e, e.Held)
}

// computeHoldings computes the amounts that an entry adds to the accounts. They depend on the entry's job and run. The
// memory of the earlier amounts is used again.
func (j *Table) computeHoldings(e *Entry, h *holdings) {
	if e.Run == nil || e.Job == nil {
		return
	}
	h.isConcurrent = e.countsAsRunning()
	h.Past, h.Allocation = h.Past[:0], queue.Allocation{ForQuotas: h.Allocation.ForQuotas[:0]}
	for i := range e.Run.Attempts {
		a := &e.Run.Attempts[i]
		var models [2]queue.GPUAmount
		all := queue.Allocation{ForQuotas: models[:0]}
		for k := range a.Seats {
			seat := &a.Seats[k]
			j.addSeat(&all, &seat.Seat, e.Job.GPUMemoryMB)
			// A voided seat occupies its node's devices until the node reports that the seat's processes are
			// gone. But a voided seat must not count against the tenant's limit, because it would block the
			// job's next attempt.
			if !seat.State.Settled() {
				j.addSeat(&h.Allocation, &seat.Seat, e.Job.GPUMemoryMB)
			}
		}
		if !a.PlacedAt.IsZero() {
			h.Past = append(h.Past, usagePeriod{all.ForShare, int64(all.ForLimits.GPUs*cluster.WholeMilli + all.ForLimits.GPUMilli), a.PlacedAt, a.EndedAt})
		}
	}
	if h.isConcurrent {
		h.Allocation.ForLimits.Jobs = 1
	}
}

// addSeat adds one seat of a job to an allocation. The parameter `gpuMemory` is the GPU memory that the job
// requests per member.
func (j *Table) addSeat(g *queue.Allocation, seat *ares.Seat, gpuMemory int) {
	g.ForLimits.CPUs += seat.CPUs
	g.ForLimits.CPUMilli += seat.CPUMilli
	g.ForLimits.MemoryMB += seat.Memory
	g.ForLimits.GPUMemoryMB += gpuMemory
	g.ForShare.CPU += int64(ares.RoundUpCPUs(seat.MilliCPUs()))
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
			addGPUs(g, b.ModelIndex, int64(sh.Milli))
		} else {
			g.ForShare.GPU += int64(sh.Milli)
			addGPUs(g, j.Queues.ModelIndex(""), int64(sh.Milli))
		}
	}
}

// addGPUs adds GPUs of one model, in thousandths, to the amounts that count for quotas.
func addGPUs(g *queue.Allocation, model int, milli int64) {
	at := slices.IndexFunc(g.ForQuotas, func(p queue.GPUAmount) bool { return p.Model == model })
	if at < 0 {
		g.ForQuotas = append(g.ForQuotas, queue.GPUAmount{Model: model, Milli: milli})
		return
	}
	g.ForQuotas[at].Milli += milli
}

// rechargeNode calls the function `describe`, which changes the device models of a node. Then rechargeNode
// recounts the jobs with seats on the node. It reads every job, but it is rarely called.
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

// usedNode reports whether any attempt of the entry has or had a seat on the node.
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

// AllocationOf returns the allocation of a job with the given Shape on the given seats. The slice ForQuotas in
// the result is valid until the next call.
func (j *Table) AllocationOf(sh *Shape, seats []ares.Seat) queue.Allocation {
	g := queue.Allocation{ForQuotas: j.allocationScratch[:0]}
	for i := range seats {
		j.addSeat(&g, &seats[i], sh.perMember.GPUMemoryMB)
	}
	j.allocationScratch = g.ForQuotas
	g.ForLimits.Jobs = 1
	return g
}

// ApplyNodeDeletion removes one record of a node: the node itself, its session, its
// score or its cordon.
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

// AllocationCopy returns the same value as AllocationOf, but the result stays valid after the next call.
func (j *Table) AllocationCopy(sh *Shape, seats []ares.Seat) queue.Allocation {
	g := j.AllocationOf(sh, seats)
	g.ForQuotas = slices.Clone(g.ForQuotas)
	return g
}

// HeldMilli returns the GPUs that a job has allocated, in thousandths.
func HeldMilli(e *Entry) int64 {
	h := &e.Held.Allocation.ForLimits
	return int64(h.GPUs)*cluster.WholeMilli + int64(h.GPUMilli)
}

// SetNodeRecord sets the record of a node, or removes it if r is nil. Seats remain charged, even on devices that
// the record no longer lists.
func (j *Table) SetNodeRecord(n *cluster.Node, r *ares.Node) {
	same := n.Record != nil && r != nil && sameModels(n.Record, r)
	// Model weights also apply to the past usage of ended attempts, so even a node without seats can affect shares.
	if same || n.Seats == 0 && len(j.cfg.ModelWeights) == 0 {
		j.cluster.ApplyNodeRecord(n, r)
		return
	}
	j.rechargeNode(n, func() { j.cluster.ApplyNodeRecord(n, r) })
}

// sameModels reports whether two node records list the same devices with the same models. If the models are the
// same, shares and quotas need no recount.
func sameModels(a, b *ares.Node) bool {
	return slices.EqualFunc(a.Devices, b.Devices, func(x, y ares.Device) bool { return x.ID == y.ID && x.Model == y.Model })
}

// GPUMilliOf returns the GPUs of some seats, in thousandths.
func GPUMilliOf(seats []ares.Seat) (milli int64) {
	for i := range seats {
		for _, sh := range seats[i].Shares {
			milli += int64(sh.Milli)
		}
	}
	return milli
}

// DominantShare returns the dominant share of some usage, in millionths of the cluster, and
// the dominant resource.
func (j *Table) DominantShare(u queue.Resources) (part int, of string) {
	for _, r := range []struct {
		name      queue.ResourceName
		held, all int64
	}{{queue.GPU, u.GPU, j.cluster.Capacity.GPU}, {queue.CPU, u.CPU, j.cluster.Capacity.CPU}, {queue.Memory, u.Memory, j.cluster.Capacity.Memory}} {
		if p := int(r.held * queue.ShareScale / max(r.all, 1)); of == "" || p > part {
			part, of = p, string(r.name)
		}
	}
	return part, of
}
