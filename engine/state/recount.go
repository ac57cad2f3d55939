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

// nodeUse is the amount of a node's resources that the seats on the node use.
type nodeUse struct{ seats, cpus, memory int }

// A `recount` holds accounts that are computed from the runs alone.
type recount struct {
	pins    map[string]map[int]cluster.NUMAUse
	taken   map[deviceKey]int
	nodes   map[string]nodeUse
	tenants map[string]ares.Use
	shapes  map[*job.Shape]int
}

// The method `add` counts the seats of one job. A seat counts for its node until it is released or cleared. A
// seat counts for its tenant until it is released, cleared or voided.
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
			c.nodes[h.Node] = nodeUse{u.seats + 1, u.cpus + h.MilliCPUs(), u.memory + h.Memory}
			if h.NUMA >= 0 && (h.MilliCPUs() > 0 || h.Memory > 0) {
				if c.pins[h.Node] == nil {
					c.pins[h.Node] = map[int]cluster.NUMAUse{}
				}
				p := c.pins[h.Node][h.NUMA]
				c.pins[h.Node][h.NUMA] = cluster.NUMAUse{NUMA: h.NUMA, MilliCPUs: p.MilliCPUs + h.MilliCPUs(), Memory: p.Memory + h.Memory}
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

// checkTenants compares the usage of each tenant, and the reference count of each shape, with the values of
// the recount.
func (c *recount) checkTenants(s *State) error {
	for id, t := range s.Jobs.Tenants { // order-free: any violation is enough
		if t.Use != c.tenants[id] {
			return fmt.Errorf("the usage of tenant %s is wrong: computed %+v, recorded %+v", id, c.tenants[id], t.Use)
		}
	}
	shapes := &s.Jobs.Shapes
	if len(c.shapes) != len(shapes.ByKey) {
		return fmt.Errorf("the jobs have %d different shapes, but the index has %d shapes", len(c.shapes), len(shapes.ByKey))
	}
	if sum := len(c.shapes) + len(shapes.Free); sum != shapes.Count {
		return fmt.Errorf("the state holds %d job shapes, but its counter says %d", sum, shapes.Count)
	}
	for sh, refs := range c.shapes { // order-free: any violation is enough
		if sh.Refs != refs {
			return fmt.Errorf("%d jobs have the shape %s, but its counter says %d", refs, sh.Key, sh.Refs)
		}
		if shapes.ByKey[sh.Key] != sh || shapes.Requests.ByKey[sh.Request.Key] != sh.Request || shapes.Requests.Constraints[sh.Request.Constraints.Key] != sh.Request.Constraints {
			return fmt.Errorf("the index entries of job shape %s are missing or wrong", sh.Key)
		}
		if err := s.checkFeasible(sh.Request); err != nil {
			return err
		}
	}
	return nil
}

// checkNodes compares the order, the seats and the devices of each node with the values of the recount.
func (c *recount) checkNodes(s *State) error {
	if len(s.Cluster.Nodes) != len(s.Cluster.NodesByID) || !slices.IsSortedFunc(s.Cluster.Nodes, cluster.CompareByPlace) {
		return fmt.Errorf("the list of nodes is wrong: either it is not sorted, or its length differs from the index")
	}
	accounts := 0
	for i, n := range s.Cluster.Nodes {
		if u := (nodeUse{n.Seats, n.MilliCPUs, n.Memory}); u != c.nodes[n.ID] {
			return fmt.Errorf("the usage of node %s is wrong: computed %+v, recorded %+v", n.ID, c.nodes[n.ID], u)
		}
		if len(n.Occupants) != n.Seats {
			return fmt.Errorf("node %s counts %d job members, but its list has %d job members", n.ID, n.Seats, len(n.Occupants))
		}
		if held := kindsHeld(n); held != n.Kinds {
			return fmt.Errorf("node %s counts its job members by resource request: computed %v, recorded %v", n.ID, held, n.Kinds)
		}
		if n.IsUnknown() {
			return fmt.Errorf("the cluster lists node %s, which has no record and no jobs", n.ID)
		}
		if got := s.Cluster.Domains.History(i); got != n.HistoryScore() {
			return fmt.Errorf("the reliability score of node %s is %d, but the topology has the score %d", n.ID, n.HistoryScore(), got)
		}
		if n.Pos != i {
			return fmt.Errorf("the stored position of node %s in the list is wrong", n.ID)
		}
		held, err := c.checkDevices(n)
		if err != nil {
			return err
		}
		accounts += held
	}
	if accounts != len(c.taken) {
		return fmt.Errorf("the number of devices in use is wrong: computed %d, recorded %d", len(c.taken), accounts)
	}
	return nil
}

// kindsHeld returns the number of seats of each kind on a node.
func kindsHeld(n *cluster.Node) (out cluster.SeatKinds) {
	for _, s := range n.Occupants {
		out.Add(cluster.KindOfSeat(s.Seat), +1)
	}
	return out
}

// checkDevices compares the accounts of a node's devices and NUMA nodes with the recount.
// It returns how many devices are in use. Invariant: 0 <= taken <= WholeMilli for each
// device.
func (c *recount) checkDevices(n *cluster.Node) (held int, err error) {
	var free uint64
	for i, d := range slices.Concat(n.Devices, n.Unlisted) {
		taken := c.taken[deviceKey{n.ID, d.ID}]
		if taken != d.Taken {
			return 0, fmt.Errorf("the usage of device %s of node %s is wrong: computed %d thousandths of the device, recorded %d thousandths of the device", d.ID, n.ID, taken, d.Taken)
		}
		if taken > cluster.WholeMilli {
			return 0, fmt.Errorf("device %s of node %s is oversubscribed: %d thousandths of the device are in use, but the limit is 1000", d.ID, n.ID, taken)
		}
		if taken > 0 {
			held++
		}
		if i < len(n.Devices) && taken == 0 {
			free |= 1 << i
		}
	}
	if n.Free != free&n.Usable {
		return 0, fmt.Errorf("the bit set of free devices of node %s is wrong: computed %b, recorded %b", n.ID, free&n.Usable, n.Free)
	}
	pins := c.pins[n.ID]
	for _, p := range n.NUMAUses {
		if (p != cluster.NUMAUse{NUMA: p.NUMA, MilliCPUs: pins[p.NUMA].MilliCPUs, Memory: pins[p.NUMA].Memory}) {
			return 0, fmt.Errorf("the usage of NUMA node %d of node %s is wrong: computed %+v, recorded %+v", p.NUMA, n.ID, pins[p.NUMA], p)
		}
	}
	if len(pins) != len(n.NUMAUses) {
		return 0, fmt.Errorf("the number of used NUMA nodes of node %s is wrong: computed %d, recorded %d", n.ID, len(pins), len(n.NUMAUses))
	}
	return held, nil
}

// seatUse returns how much one seat of a job uses of its tenant's limits. It shares no code with the accounts,
// because Check compares its results with the accounts.
func seatUse(seat *ares.Seat, j *ares.Job) ares.Use {
	u := ares.Use{CPUs: seat.CPUs, CPUMilli: seat.CPUMilli, MemoryMB: seat.Memory, GPUMemoryMB: j.GPUMemoryMB}
	for _, sh := range seat.Shares {
		if sh.Milli >= cluster.WholeMilli {
			u.GPUs++
		} else {
			u.GPUMilli += sh.Milli
		}
	}
	return u
}
