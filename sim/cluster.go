package sim

import (
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// A `cluster` value tracks the free capacity of every machine. It computes this capacity only from the seats of
// jobs. A `cluster` value can tell whether a job would fit now.
type cluster struct {
	machines []*machineCapacity
	byID     map[string]*machineCapacity
}

// machineCapacity is the free capacity of one machine.
type machineCapacity struct {
	model  string
	free   []int // thousandths of each device
	cpus   int
	memory int
}

// setNode adds a machine, or resets it to its full capacity.
func (f *cluster) setNode(n *ares.Node) {
	m := f.byID[n.ID]
	if m == nil {
		m = &machineCapacity{}
		f.byID[n.ID] = m
		f.machines = append(f.machines, m)
	}
	*m = machineCapacity{free: make([]int, len(n.Devices)), cpus: n.CPUs, memory: n.MemoryMB}
	for i := range n.Devices {
		m.free[i], m.model = 1000, n.Devices[i].Model
	}
}

// This method subtracts a seat's resources from the free capacity. If `sign` is -1, it adds them instead.
func (f *cluster) take(seat *ares.Seat, sign int) {
	m := f.byID[seat.Node]
	for _, sh := range seat.Shares {
		m.free[sh.Index] -= sign * sh.Milli
	}
	m.cpus -= sign * seat.CPUs
	m.memory -= sign * seat.Memory
}

// A `request` contains the resources that each member of a job needs, and the minimum number of members. Jobs
// with equal requests fit on the same machines.
type request struct {
	minMembers, gpus, milli, cpus, memory int
	model                                 string
	oneModel                              bool // all members need devices of the same model
	priority                              int
}

// requestOf returns the request of a job. The function returns false for a job with placement constraints, which
// this check does not model.
func requestOf(j *ares.Job) (request, bool) {
	p := j.Placement()
	plain := p.RequiredLevel == "" && p.NetworkBandwidth == "" && !p.LatencySensitive && len(p.NodeSelector) == 0 && len(p.Regions) == 0 &&
		len(p.NodeAffinity) == 0 && len(p.NodeRequirements) == 0 && len(p.Affinity) == 0 && j.MIGProfile == "" && j.GPUMemoryMB == 0 && len(j.After) == 0 && !j.IsArray() &&
		(j.NUMAPolicy == "" || j.NUMAPolicy == "none")
	oneModel := j.Members > 1 && j.GPUs+j.GPUMilli > 0 && j.NeedsOneModel()
	return request{max(j.MinMembers, 1), j.GPUs, j.GPUMilli, j.CPUs, j.MemoryMB, j.GPUModel, oneModel, j.PriorityValue()}, plain
}

// This method reports whether all members of a request would fit now.
func (f *cluster) fits(w *request) bool {
	if w.oneModel {
		return f.fitsOneModel(w)
	}
	seats := 0
	for _, m := range f.machines {
		if seats += m.fitCount(w); seats >= w.minMembers {
			return true
		}
	}
	return false
}

// fitsOneModel reports whether all members of a request would fit now on machines of one model.
func (f *cluster) fitsOneModel(w *request) bool {
	seats := map[string]int{}
	for _, m := range f.machines {
		if seats[m.model] += m.fitCount(w); seats[m.model] >= w.minMembers {
			return true
		}
	}
	return false
}

// fitCount returns how many members fit on a machine.
func (m *machineCapacity) fitCount(w *request) int {
	n := w.minMembers
	if w.model != "" && !modelMatches(w.model, m.model) {
		return 0
	}
	if w.gpus > 0 {
		whole := 0
		for _, left := range m.free {
			if left == 1000 {
				whole++
			}
		}
		n = min(n, whole/w.gpus)
	}
	if w.milli > 0 {
		parts := 0
		for _, left := range m.free {
			parts += left / w.milli
		}
		n = min(n, parts)
	}
	if w.cpus > 0 {
		n = min(n, m.cpus/w.cpus)
	}
	if w.memory > 0 {
		n = min(n, m.memory/w.memory)
	}
	return n
}

// modelMatches says whether the devices of a machine are of one of the
// requested models.
func modelMatches(asked, model string) bool {
	for one := range strings.SplitSeq(asked, "|") {
		if strings.Contains(strings.ToLower(model), strings.ToLower(one)) {
			return true
		}
	}
	return false
}
