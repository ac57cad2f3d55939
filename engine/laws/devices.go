package laws

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares/engine/cluster"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// nodeUse is a node with the sum of everything that is in use there.
type nodeUse struct {
	engine.NodeView

	location      location
	milliByDevice map[string]int // thousandths in use
	cpus          int
	memory        int
	seats         int
	numaUse       map[int][2]int // by NUMA node: cores and MB of the seats bound to it
}

func newNodeUse(v engine.NodeView) *nodeUse {
	return &nodeUse{NodeView: v, milliByDevice: map[string]int{}, numaUse: map[int][2]int{}}
}

// addSeat adds the use of one seat.
func (m *nodeUse) addSeat(seat *ares.Seat) {
	m.cpus += seat.CPUs
	m.memory += seat.Memory
	m.seats++
	for _, sh := range seat.Shares {
		m.milliByDevice[sh.Device] += sh.Milli
	}
	if seat.NUMA >= 0 {
		b := m.numaUse[seat.NUMA]
		m.numaUse[seat.NUMA] = [2]int{b[0] + seat.CPUs, b[1] + seat.Memory}
	}
}

// device returns the node's device with this ID, nil for none.
func (m *nodeUse) device(id string) *ares.Device {
	for i := range m.Node.Devices {
		if m.Node.Devices[i].ID == id {
			return &m.Node.Devices[i]
		}
	}
	return nil
}

// isSliced reports whether the device is partitioned, so that only its slices
// can be assigned.
func (m *nodeUse) isSliced(id string) bool {
	return slices.ContainsFunc(m.Node.Devices, func(d ares.Device) bool { return d.Parent == id })
}

// checkDevices checks the resources of each seat of a job.
func checkDevices(t *checker, p *placement) error {
	for i := range p.Seats {
		seat := &p.Seats[i]
		m := t.nodes[seat.Node]
		if m == nil || m.Session == nil || m.Cordon != nil || m.Node.Unfit != "" {
			return fmt.Errorf("node %s is not open", seat.Node)
		}
		if err := m.checkSeat(p.job, seat, t.cfg.ThermalLimit); err != nil {
			return fmt.Errorf("rank %d on %s: %w", i, seat.Node, err)
		}
	}
	return nil
}

// checkSeat checks that a seat has exactly what the job requested, and that the
// node is not oversubscribed.
func (m *nodeUse) checkSeat(job *ares.Job, seat *ares.Seat, hottest int) error {
	switch {
	case seat.CPUs != job.CPUs || seat.Memory != job.MemoryMB:
		return fmt.Errorf("%d cores and %d MB are not what was asked for", seat.CPUs, seat.Memory)
	case job.CPUs > 0 && m.cpus > m.Node.CPUs, job.MemoryMB > 0 && m.memory > m.Node.MemoryMB:
		return fmt.Errorf("the node is oversold: %d cores, %d MB", m.cpus, m.memory)
	case m.seats > cluster.MaxSeats:
		return fmt.Errorf("the node has %d seats", m.seats)
	}
	whole, milli := job.GPUs, job.GPUMilli
	if job.MIGProfile != "" && whole == 0 && milli == 0 {
		whole = 1
	}
	if milli > 0 && job.Placement.LatencySensitive {
		whole, milli = 1, 0
	}
	given := 0
	for _, sh := range seat.Shares {
		if err := m.checkDevice(job, sh, hottest); err != nil {
			return err
		}
		given += sh.Milli
	}
	if len(seat.Shares) != max(whole, min(milli, 1)) || given != max(1000*whole, milli) {
		return fmt.Errorf("%d devices and %d/1000 are not what was asked for", len(seat.Shares), given)
	}
	return m.checkNUMA(job, seat)
}

// checkDevice checks one device of a seat.
func (m *nodeUse) checkDevice(job *ares.Job, sh ares.Share, hottest int) error {
	d := m.device(sh.Device)
	if d == nil {
		return fmt.Errorf("there is no device %s", sh.Device)
	}
	kind := d.Type
	if kind == "" {
		kind = ares.DefaultAccelerator
	}
	switch {
	case !d.Healthy:
		return fmt.Errorf("device %s is not healthy", d.ID)
	case hottest > 0 && d.Celsius > hottest:
		return fmt.Errorf("device %s has %d °C, the limit is %d", d.ID, d.Celsius, hottest)
	case m.isSliced(d.ID):
		return fmt.Errorf("device %s is cut into slices", d.ID)
	case d.Profile != job.MIGProfile:
		return fmt.Errorf("device %s is a %q slice", d.ID, d.Profile)
	case kind != job.AcceleratorType:
		return fmt.Errorf("device %s is a %s", d.ID, kind)
	case !modelMatches(job.GPUModel, d.Model):
		return fmt.Errorf("device %s is a %s", d.ID, d.Model)
	case d.Index != sh.Index:
		return fmt.Errorf("device %s has index %d, not %d", d.ID, d.Index, sh.Index)
	case d.MemoryMB*max(job.GPUs, 1) < job.GPUMemoryMB:
		return fmt.Errorf("device %s has %d MB", d.ID, d.MemoryMB)
	case m.milliByDevice[d.ID] > 1000:
		return fmt.Errorf("device %s is sold twice: %d/1000", d.ID, m.milliByDevice[d.ID])
	}
	return nil
}

// modelMatches reports whether a model is one of those requested, with "a|b"
// for either.
func modelMatches(asked, model string) bool {
	if strings.Trim(asked, "| ") == "" {
		return true
	}
	for part := range strings.SplitSeq(asked, "|") {
		if part = strings.TrimSpace(part); part != "" && strings.Contains(strings.ToLower(model), strings.ToLower(part)) {
			return true
		}
	}
	return false
}

// checkNUMA checks the NUMA node of a seat.
func (m *nodeUse) checkNUMA(job *ares.Job, seat *ares.Seat) error {
	devices := len(seat.Shares) > 0
	required := job.NUMAPolicy == "required" || job.Placement.RequiredLevel == "numa" || job.Placement.LatencySensitive && devices
	if seat.NUMA < 0 {
		if required {
			return fmt.Errorf("it is bound to no NUMA node")
		}
		return nil
	}
	at := slices.IndexFunc(m.Node.NUMA, func(n ares.NUMANode) bool { return n.ID == seat.NUMA })
	if at < 0 {
		return fmt.Errorf("there is no NUMA node %d", seat.NUMA)
	}
	for _, sh := range seat.Shares {
		if d := m.device(sh.Device); d.NUMA != seat.NUMA {
			return fmt.Errorf("device %s is at NUMA node %d, not %d", d.ID, d.NUMA, seat.NUMA)
		}
	}
	n, b := m.Node.NUMA[at], m.numaUse[seat.NUMA]
	if job.CPUs > 0 && b[0] > n.CPUs || job.MemoryMB > 0 && b[1] > n.MemoryMB {
		return fmt.Errorf("NUMA node %d is oversold: %d cores, %d MB", n.ID, b[0], b[1])
	}
	return nil
}

// checkNodeConstraints checks selectors, regions and taints of each node of a
// job.
func checkNodeConstraints(t *checker, p *placement) error {
	for i := range p.Seats {
		m := t.nodes[p.Seats[i].Node]
		if m == nil {
			continue // the law "devices" reports it
		}
		if err := errors.Join(m.checkConstraints(p.job), m.checkRequirements(p.job, &p.Seats[i])); err != nil {
			return fmt.Errorf("rank %d on %s: %w", i, m.Node.ID, err)
		}
	}
	return nil
}

// checkRequirements checks the node requirements of a job on one node, and on each
// device that a seat has there.
func (m *nodeUse) checkRequirements(job *ares.Job, seat *ares.Seat) error {
	rs := job.Placement.NodeRequirements
	if len(seat.Shares) == 0 {
		if !rs.Matches(m.Node) {
			return fmt.Errorf("it does not meet %s", rs)
		}
		return nil
	}
	if !rs.MatchesNode(m.Node.Labels, len(m.Node.Devices)) {
		return fmt.Errorf("it does not meet %s", rs)
	}
	for _, d := range m.Node.Devices {
		has := slices.ContainsFunc(seat.Shares, func(sh ares.Share) bool { return sh.Device == d.ID })
		if has && !rs.MatchesDevice(d.Model, d.MemoryMB) {
			return fmt.Errorf("device %s does not meet %s", d.ID, rs)
		}
	}
	return nil
}

// checkConstraints checks what a job requires of one node.
func (m *nodeUse) checkConstraints(job *ares.Job) error {
	where := &job.Placement
	for k, want := range where.NodeSelector { // order-free: any broken law will do
		if v, ok := m.Node.Labels[k]; !ok || v != want {
			return fmt.Errorf("label %s is %q", k, v)
		}
	}
	for _, text := range where.NodeAffinity {
		if c, err := ares.ParseCondition(text); err == nil && !c.Holds(m.Node.Labels) {
			return fmt.Errorf("%q does not hold", text)
		}
	}
	if len(where.Regions) > 0 && !slices.Contains(where.Regions, m.location.names[0]) {
		return fmt.Errorf("its region is %q", m.location.names[0])
	}
	for _, taint := range m.Node.Taints {
		tolerated := slices.ContainsFunc(where.Tolerations, func(text string) bool {
			o, err := ares.ParseToleration(text)
			return err == nil && o.Tolerates(taint)
		})
		if taint.Effect == ares.NoSchedule && !tolerated {
			return fmt.Errorf("it does not tolerate %s", taint)
		}
	}
	return nil
}
