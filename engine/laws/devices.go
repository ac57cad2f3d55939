package laws

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
)

// nodeUse holds a node and the sum of all allocations on it.
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
	m.cpus += seat.MilliCPUs()
	m.memory += seat.Memory
	m.seats++
	for _, sh := range seat.Shares {
		m.milliByDevice[sh.Device] += sh.Milli
	}
	if seat.NUMA >= 0 {
		b := m.numaUse[seat.NUMA]
		m.numaUse[seat.NUMA] = [2]int{b[0] + seat.MilliCPUs(), b[1] + seat.Memory}
	}
}

// The method `device` returns the node's device with this ID, or nil if there is none.
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
			return fmt.Errorf("node %s does not accept jobs: either it has no session, or it is cordoned, or it is unfit", seat.Node)
		}
		if err := m.checkSeat(p.job, seat, &t.cfg); err != nil {
			return fmt.Errorf("rank %d on %s: %w", i, seat.Node, err)
		}
	}
	return nil
}

// checkModels checks that all members of a gang have devices of one model.
func checkModels(t *checker, p *placement) error {
	if p.job.Members < 2 || p.job.AllowMixedModels || p.job.GPUModel != "" {
		return nil
	}
	first, known := "", false
	for i := range p.Seats {
		m := t.nodes[p.Seats[i].Node]
		for _, sh := range p.Seats[i].Shares {
			if m == nil || m.device(sh.Device) == nil {
				return nil // the law "devices" reports it
			}
			model := strings.ToLower(m.device(sh.Device).Model)
			if known && first != model {
				return fmt.Errorf("rank %d has a device of model %q, but the first device of the job has model %q", i, model, first)
			}
			first, known = model, true
		}
	}
	return nil
}

// checkSeat checks that a seat has exactly what the job requested, and that the
// node is not oversubscribed.
func (m *nodeUse) checkSeat(job *ares.Job, seat *ares.Seat, cfg *config.Config) error {
	switch {
	case seat.MilliCPUs() != job.MilliCPUs() || seat.Memory != job.MemoryMB:
		return fmt.Errorf("the member has %s cores and %d MB, but the job requests %s cores and %d MB", ares.FormatCPUs(seat.MilliCPUs()), seat.Memory, ares.FormatCPUs(job.MilliCPUs()), job.MemoryMB)
	case job.MilliCPUs() > 0 && m.cpus > m.Node.MilliCPUs(), job.MemoryMB > 0 && m.memory > m.Node.MemoryMB:
		return fmt.Errorf("the node is oversubscribed: %s of %s cores and %d of %d MB are allocated", ares.FormatCPUs(m.cpus), ares.FormatCPUs(m.Node.MilliCPUs()), m.memory, m.Node.MemoryMB)
	case m.seats > cfg.RankLimit():
		return fmt.Errorf("the node has %d job members, but the limit is %d", m.seats, cfg.RankLimit())
	}
	whole, milli := job.GPUs, job.GPUMilli
	if job.MIGProfile != "" && whole == 0 && milli == 0 {
		whole = 1
	}
	if milli > 0 && job.Placement().LatencySensitive {
		whole, milli = 1, 0
	}
	given := 0
	for _, sh := range seat.Shares {
		if err := m.checkDevice(job, sh, cfg.ThermalLimit); err != nil {
			return err
		}
		given += sh.Milli
	}
	if len(seat.Shares) != max(whole, min(milli, 1)) || given != max(1000*whole, milli) {
		return fmt.Errorf("the member has the wrong devices: allocated %d (%d thousandths of a device), requested %d (%d thousandths of a device)", len(seat.Shares), given, max(whole, min(milli, 1)), max(1000*whole, milli))
	}
	return m.checkNUMA(job, seat)
}

// checkDevice checks one device of a seat.
func (m *nodeUse) checkDevice(job *ares.Job, sh ares.Share, hottest int) error {
	d := m.device(sh.Device)
	if d == nil {
		return fmt.Errorf("the node has no device %s", sh.Device)
	}
	kind := d.Type
	if kind == "" {
		kind = ares.DefaultAccelerator
	}
	switch {
	case !d.Healthy:
		return fmt.Errorf("device %s is not healthy", d.ID)
	case hottest > 0 && d.Celsius > hottest:
		return fmt.Errorf("the temperature of device %s is %d °C, but the limit is %d °C", d.ID, d.Celsius, hottest)
	case m.isSliced(d.ID):
		return fmt.Errorf("device %s is partitioned, so only its slices can be allocated", d.ID)
	case d.Profile != job.MIGProfile:
		return fmt.Errorf("device %s has MIG profile %q, but the job requests %q", d.ID, d.Profile, job.MIGProfile)
	case kind != job.AcceleratorType:
		return fmt.Errorf("device %s has type %s, but the job requests %s", d.ID, kind, job.AcceleratorType)
	case !modelMatches(job.GPUModel, d.Model):
		return fmt.Errorf("device %s has model %s, but the job requests %s", d.ID, d.Model, job.GPUModel)
	case d.Index != sh.Index:
		return fmt.Errorf("device %s has index %d, but the placement says %d", d.ID, d.Index, sh.Index)
	case d.MemoryMB*max(job.GPUs, 1) < job.GPUMemoryMB:
		return fmt.Errorf("device %s has too little memory (%d MB): the job needs a total of %d MB on %d devices", d.ID, d.MemoryMB, job.GPUMemoryMB, max(job.GPUs, 1))
	case m.milliByDevice[d.ID] > 1000:
		return fmt.Errorf("device %s is oversubscribed: %d thousandths of the device are allocated, but the limit is 1000", d.ID, m.milliByDevice[d.ID])
	}
	return nil
}

// modelMatches reports whether a model is one of the requested models. The request "a|b" accepts model a and model
// b.
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
	p := job.Placement()
	required := job.NUMAPolicy == "required" || p.RequiredLevel == "numa" || p.LatencySensitive && devices
	if seat.NUMA < 0 {
		if required {
			return fmt.Errorf("the job requires one NUMA node, but the placement names none")
		}
		return nil
	}
	at := slices.IndexFunc(m.Node.NUMA, func(n ares.NUMANode) bool { return n.ID == seat.NUMA })
	if at < 0 {
		return fmt.Errorf("the node has no NUMA node %d", seat.NUMA)
	}
	for _, sh := range seat.Shares {
		if d := m.device(sh.Device); d.NUMA != seat.NUMA {
			return fmt.Errorf("device %s belongs to NUMA node %d, but the placement names NUMA node %d", d.ID, d.NUMA, seat.NUMA)
		}
	}
	n, b := m.Node.NUMA[at], m.numaUse[seat.NUMA]
	if job.MilliCPUs() > 0 && b[0] > n.MilliCPUs() || job.MemoryMB > 0 && b[1] > n.MemoryMB {
		return fmt.Errorf("NUMA node %d is oversubscribed: %s of %s cores and %d of %d MB are allocated", n.ID, ares.FormatCPUs(b[0]), ares.FormatCPUs(n.MilliCPUs()), b[1], n.MemoryMB)
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

// checkRequirements checks a job's node requirements on one node and on each device that a
// seat has on this node.
func (m *nodeUse) checkRequirements(job *ares.Job, seat *ares.Seat) error {
	rs := job.Placement().NodeRequirements
	if len(seat.Shares) == 0 {
		if !rs.Matches(m.Node) {
			return fmt.Errorf("the node does not meet the job's requirements %s", rs)
		}
		return nil
	}
	if !rs.MatchesNode(m.Node.ID, m.Node.Labels, len(m.Node.Devices)) {
		return fmt.Errorf("the node does not meet the job's requirements %s", rs)
	}
	for _, d := range m.Node.Devices {
		has := slices.ContainsFunc(seat.Shares, func(sh ares.Share) bool { return sh.Device == d.ID })
		if has && !rs.MatchesDevice(d.Model, d.MemoryMB) {
			return fmt.Errorf("device %s does not meet the job's requirements %s", d.ID, rs)
		}
	}
	return nil
}

// checkConstraints checks the requirements of a job on one node.
func (m *nodeUse) checkConstraints(job *ares.Job) error {
	if m.Node.TrustedOnly && !job.Trusted {
		return errors.New("the node accepts only jobs of platform administrators, and the job is not one")
	}
	if job.Image != "" && !m.Node.Images {
		return errors.New("the job has an image, and the node cannot run images")
	}
	if job.IsContainerRoot() && !m.Node.ContainerRoot {
		return errors.New("the job is root in its image, and the node cannot do this")
	}
	if job.HasOwnNetwork() && !m.Node.OwnNetwork {
		return errors.New("the job must not reach the network, and the node cannot keep it from that")
	}
	if job.IsAttachable() && !m.Node.Attachable {
		return errors.New("users can write to the job, and the node has no such jobs")
	}
	where := job.Placement()
	for k, want := range where.NodeSelector { // order-free: any violation is enough
		if v, ok := m.Node.Labels[k]; !ok || v != want {
			return fmt.Errorf("the node's label %s is %q, but the job requires %q", k, v, want)
		}
	}
	for _, text := range where.NodeAffinity {
		if c, err := ares.ParseCondition(text); err == nil && !c.Holds(m.Node.Labels) {
			return fmt.Errorf("the node does not meet the job's node affinity %q", text)
		}
	}
	if len(where.Regions) > 0 && !slices.Contains(where.Regions, m.location.names[0]) {
		return fmt.Errorf("the node's region is %q, but the job requires one of %q", m.location.names[0], where.Regions)
	}
	for _, taint := range m.Node.Taints {
		tolerated := slices.ContainsFunc(where.Tolerations, func(text string) bool {
			o, err := ares.ParseToleration(text)
			return err == nil && o.Tolerates(taint)
		})
		if taint.Effect == ares.NoSchedule && !tolerated {
			return fmt.Errorf("the job does not tolerate the node's taint %s", taint)
		}
	}
	return nil
}
