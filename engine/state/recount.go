package state

import (
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// deviceKey identifies a device of the cluster.
type deviceKey struct{ node, device string }

// nodeUse is what the seats on a node take of it.
type nodeUse struct{ seats, cpus, memory int }

// recount holds the accounts counted anew from the runs alone.
type recount struct {
	pins    map[string]map[int]cluster.NUMAUse
	taken   map[deviceKey]int
	nodes   map[string]nodeUse
	tenants map[string]ares.Use
	shapes  map[*job.Shape]int
}

// add counts the seats of one job: for its nodes while a seat is not released or
// cleared, and for its tenant while the seat is not voided either.
func (c *recount) add(e *job.Entry) {
	if e.Shape != nil {
		c.shapes[e.Shape]++
	}
	if e.Run == nil {
		return
	}
	held := e.Run.Phase.Active() && (e.Job == nil || !e.IsArray())
	for _, a := range e.Run.Attempts {
		for _, h := range a.Seats {
			if h.State == ares.SeatReleased || h.State == ares.SeatCleared {
				continue
			}
			u := c.nodes[h.Node]
			c.nodes[h.Node] = nodeUse{u.seats + 1, u.cpus + h.CPUs, u.memory + h.Memory}
			if h.NUMA >= 0 && (h.CPUs > 0 || h.Memory > 0) {
				if c.pins[h.Node] == nil {
					c.pins[h.Node] = map[int]cluster.NUMAUse{}
				}
				p := c.pins[h.Node][h.NUMA]
				c.pins[h.Node][h.NUMA] = cluster.NUMAUse{NUMA: h.NUMA, CPUs: p.CPUs + h.CPUs, Memory: p.Memory + h.Memory}
			}
			for _, sh := range h.Shares {
				c.taken[deviceKey{h.Node, sh.Device}] += sh.Milli
			}
			if h.State == ares.SeatVoided {
				continue // a voided seat counts for its node, not for its tenant
			}
			held = true
			if e.Job != nil {
				c.tenants[e.Job.Tenant] = c.tenants[e.Job.Tenant].Add(seatUse(&h.Seat, e.Job))
			}
		}
	}
	if held && e.Job != nil {
		c.tenants[e.Job.Tenant] = c.tenants[e.Job.Tenant].Add(ares.Use{Jobs: 1})
	}
}

// checkTenants compares the use of each tenant and the references of each shape.
func (c *recount) checkTenants(s *State) error {
	for id, t := range s.Jobs.Tenants { // order-free: any broken law will do
		if t.Use != c.tenants[id] {
			return fmt.Errorf("tenant %s holds %+v, its account says %+v", id, c.tenants[id], t.Use)
		}
	}
	if len(c.shapes) != len(s.Jobs.Shapes.ByKey) || len(c.shapes)+len(s.Jobs.Shapes.Free) != s.Jobs.Shapes.Count {
		return fmt.Errorf("%d shapes live, %d are kept", len(c.shapes), len(s.Jobs.Shapes.ByKey))
	}
	for sh, refs := range c.shapes { // order-free: any broken law will do
		if sh.Refs != refs || s.Jobs.Shapes.ByKey[sh.Key] != sh || s.Jobs.Shapes.Requests.ByKey[sh.Request.Key] != sh.Request || s.Jobs.Shapes.Requests.Constraints[sh.Request.Constraints.Key] != sh.Request.Constraints {
			return fmt.Errorf("shape %s has %d jobs, its count says %d", sh.Key, refs, sh.Refs)
		}
		if err := s.checkFeasible(sh.Request); err != nil {
			return err
		}
	}
	return nil
}

// checkNodes compares the order, the seats and the devices of each node.
func (c *recount) checkNodes(s *State) error {
	if len(s.Cluster.Nodes) != len(s.Cluster.NodesByID) || !slices.IsSortedFunc(s.Cluster.Nodes, cluster.CompareByPlace) {
		return fmt.Errorf("the nodes are out of order")
	}
	accounts := 0
	for i, n := range s.Cluster.Nodes {
		if u := (nodeUse{n.Seats, n.CPUs, n.Memory}); u != c.nodes[n.ID] {
			return fmt.Errorf("node %s holds %+v, its account says %+v", n.ID, c.nodes[n.ID], u)
		}
		if len(n.Occupants) != n.Seats {
			return fmt.Errorf("node %s has %d seats, and knows whose %d of them are", n.ID, n.Seats, len(n.Occupants))
		}
		if held := kindsHeld(n); held != n.Kinds {
			return fmt.Errorf("node %s holds seats of the kinds %v, its account says %v", n.ID, held, n.Kinds)
		}
		if n.IsUnknown() {
			return fmt.Errorf("node %s is kept though nothing speaks of it", n.ID)
		}
		if got := s.Cluster.Domains.History(i); got != n.HistoryScore() {
			return fmt.Errorf("node %s has the history %d, the topology knows %d", n.ID, n.HistoryScore(), got)
		}
		if n.Pos != i {
			return fmt.Errorf("the index of node %s is stale", n.ID)
		}
		held, err := c.checkDevices(n)
		if err != nil {
			return err
		}
		accounts += held
	}
	if accounts != len(c.taken) {
		return fmt.Errorf("%d devices are held, %d have an account", len(c.taken), accounts)
	}
	return nil
}

// kindsHeld counts the seats on a node by kind.
func kindsHeld(n *cluster.Node) (out cluster.SeatKinds) {
	for _, s := range n.Occupants {
		out.Add(cluster.KindOfSeat(s.Seat), +1)
	}
	return out
}

// checkDevices compares the account of each device and NUMA node of a node, and
// returns how many devices are in use. Invariant: 0 <= taken <= WholeMilli for each
// device.
func (c *recount) checkDevices(n *cluster.Node) (held int, err error) {
	var free uint64
	for i, d := range slices.Concat(n.Devices, n.Unlisted) {
		taken := c.taken[deviceKey{n.ID, d.ID}]
		if taken != d.Taken {
			return 0, fmt.Errorf("device %s of node %s has %d/1000 taken, its account says %d", d.ID, n.ID, taken, d.Taken)
		}
		if taken > cluster.WholeMilli {
			return 0, fmt.Errorf("device %s of node %s is sold twice: %d/1000", d.ID, n.ID, taken)
		}
		if taken > 0 {
			held++
		}
		if i < len(n.Devices) && taken == 0 {
			free |= 1 << i
		}
	}
	if n.Free != free&n.Usable {
		return 0, fmt.Errorf("node %s has the free devices %b, its account says %b", n.ID, free&n.Usable, n.Free)
	}
	pins := c.pins[n.ID]
	for _, p := range n.NUMAUses {
		if (p != cluster.NUMAUse{NUMA: p.NUMA, CPUs: pins[p.NUMA].CPUs, Memory: pins[p.NUMA].Memory}) {
			return 0, fmt.Errorf("node %s has %+v bound to NUMA node %d, its account says %+v", n.ID, pins[p.NUMA], p.NUMA, p)
		}
	}
	if len(pins) != len(n.NUMAUses) {
		return 0, fmt.Errorf("node %s has seats bound to %d NUMA nodes, its account says %d", n.ID, len(pins), len(n.NUMAUses))
	}
	return held, nil
}

// seatUse returns what one seat of a job counts against its tenant's limits. It is
// written independently of the accounts, because Check compares with them.
func seatUse(seat *ares.Seat, j *ares.Job) ares.Use {
	u := ares.Use{CPUs: seat.CPUs, MemoryMB: seat.Memory, GPUMemoryMB: j.GPUMemoryMB}
	for _, sh := range seat.Shares {
		if sh.Milli >= cluster.WholeMilli {
			u.GPUs++
		} else {
			u.GPUMilli += sh.Milli
		}
	}
	return u
}
