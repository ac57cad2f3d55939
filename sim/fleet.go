package sim

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	ares "github.com/ares-scheduler/ares"
	ledger "github.com/ares-scheduler/ares/engine/cluster"
)

// Fleet contains the machines of a simulation and the tenants that share them.
type Fleet struct {
	Machines []Machine      `yaml:"machines"`
	Shares   []Tenant       `yaml:"tenants"`
	Reserved []Reservation  `yaml:"reservations"`
	Topology *ares.Topology `yaml:"-"`
	Digest   string         `yaml:"-"` // of the file, "" for none
	MilliCPU bool           `yaml:"-"` // CPUs of machines are thousandths of cores

	// These fields contain records that were read from a server. A fleet file cannot set
	// these fields.
	nodes   []*ares.Node
	tenants []*ares.Tenant
	queues  []*ares.Queue

	cpuFactor int // factor for the CPUs of machines; 0 means 1
}

// Machine describes one or more identical machines, either by the name of a profile or by the
// fields below.
type Machine struct {
	Name        string            `yaml:"name"`    // of the machine, followed by a number if there are several
	Profile     string            `yaml:"profile"` // such as dgx-h100; it sets the fields below
	Count       int               `yaml:"count"`   // default 1
	GPUs        int               `yaml:"gpus"`
	Model       string            `yaml:"model"`
	GPUMemoryMB int               `yaml:"gpu_memory_mb"`
	CPUs        int               `yaml:"cpus"`
	MemoryMB    int               `yaml:"memory_mb"`
	Links       string            `yaml:"links"`     // between any two of its GPUs, such as NV18; "" if unknown
	LeafSize    int               `yaml:"leaf_size"` // machines per leaf; 0 for no leaves
	Labels      map[string]string `yaml:"labels"`

	like *ares.Node // a machine of the profile
}

// Tenant is a tenant with its weight, limit, quotas and queues. Tenants that
// are not listed have weight 1 and no limits.
type Tenant struct {
	Name   string  `yaml:"name"`
	Weight float64 `yaml:"weight"`
	GPUs   int     `yaml:"max_gpus"` // 0 for no limit
	Quotas []Quota `yaml:"quotas"`
	Queues []Queue `yaml:"queues"`
}

// Queue is a queue of a tenant.
type Queue struct {
	Name   string  `yaml:"name"`
	Parent string  `yaml:"parent"`
	Weight float64 `yaml:"weight"`
	GPUs   int     `yaml:"max_gpus"` // 0 for no limit
	Quotas []Quota `yaml:"quotas"`
}

// A Quota guarantees a number of GPUs of one model.
type Quota struct {
	Model  string `yaml:"model"` // "" for all
	GPUs   int    `yaml:"gpus"`
	Borrow int    `yaml:"borrow"` // GPUs that it may borrow beyond that
	Lend   *int   `yaml:"lend"`   // GPUs of it that others may borrow; default all
}

// maxNodes is the largest number of machines in a fleet. With this limit, a typing error causes an
// error message instead of using up all memory.
const maxNodes = 200_000

// maxFigure is the largest whole number that a trace or a fleet file may contain. A thousand times
// this value still fits into an integer.
const maxFigure = 1 << 31

// ReadFleet reads a fleet file. If the fleet file names profiles, call Resolve after ReadFleet.
func ReadFleet(from io.Reader) (*Fleet, error) {
	text, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("read the fleet: %w", err)
	}
	f := Fleet{Digest: digest(text)}
	if err := decode(text, &f); err != nil && !errors.Is(err, io.EOF) { // an empty file has no machines
		return nil, ares.Errorf(ares.Invalid, "read the fleet: %s", err)
	}
	var p ares.Problems
	checkZeros(&p, text)
	nodes := 0
	for i := range f.Machines {
		m := &f.Machines[i]
		m.Name, m.Count = cmp.Or(m.Name, m.Profile), cmp.Or(m.Count, 1)
		m.check(&p, fmt.Sprintf("machines[%d]", i))
		nodes = min(nodes+m.Count, maxNodes+1)
	}
	if nodes > maxNodes {
		p.Add("machines", "at most %d of them", maxNodes)
	}
	if len(f.Machines) == 0 {
		p.Add("machines", "there are none")
	}
	for i := range f.Shares {
		f.Shares[i].check(&p, fmt.Sprintf("tenants[%d]", i))
	}
	f.checkReservations(&p)
	f.checkDuplicates(&p)
	return &f, p.Err()
}

func (m *Machine) check(p *ares.Problems, field string) {
	if !ares.ValidName(m.Name) {
		p.Add(field+".name", "%q is not a name", m.Name)
	}
	if m.Count < 1 || m.Count > maxNodes || min(m.CPUs, m.GPUs, m.MemoryMB, m.GPUMemoryMB, m.LeafSize) < 0 {
		p.Add(field, "needs a count from 1 to %d, and no negative figures", maxNodes)
	}
	if m.CPUs > maxFigure {
		p.Add(field+".cpus", "at most %d, got %d", maxFigure, m.CPUs)
	}
	if !knownLink.MatchString(m.Links) {
		p.Add(field+".links", "%q is not known: use NV1 to NV99, PIX, PXB, PHB, NODE or SYS", m.Links)
	}
	if m.GPUs > ledger.MaxDevices {
		p.Add(field+".gpus", "at most %d, got %d", ledger.MaxDevices, m.GPUs)
	}
	if m.Profile != "" && (m.GPUs+m.CPUs+m.MemoryMB+m.GPUMemoryMB > 0 || m.Model+m.Links != "") {
		p.Add(field, "has the profile %q: leave out gpus, model, gpu_memory_mb, cpus, memory_mb and links", m.Profile)
	}
}

func (t *Tenant) check(p *ares.Problems, field string) {
	if !ares.ValidName(t.Name) {
		p.Add(field+".name", "%q is not a name", t.Name)
	}
	if t.Weight != 0 && !ares.ValidWeight(t.Weight) || t.GPUs < 0 {
		p.Add(field, "has a weight between %v and %v, and no negative limit", ares.MinWeight, ares.MaxWeight)
	}
	ares.CheckQuotas(p, quotas(t.Quotas))
	for _, q := range t.queues() {
		if err := q.Check(); err != nil {
			p.Add(field+".queues", "%s: %s", q.Name, err)
		}
	}
}

// Resolve looks up the machines of every profile that the fleet names. All GPU models are known by
// then, so Resolve rejects quotas for models that no machine has.
func (f *Fleet) Resolve(profile func(name string) (*ares.Node, error)) error {
	for i := range f.Machines {
		m := &f.Machines[i]
		if m.Profile == "" {
			continue
		}
		like, err := profile(m.Profile)
		if err != nil {
			return fmt.Errorf("machines[%d].profile: %w", i, err)
		}
		m.like, m.GPUs = like, len(like.Devices)
	}
	return f.checkQuotaModels()
}

// ReadOpenbNodes reads the node list of Alibaba's trace of 2023.
func ReadOpenbNodes(from io.Reader) (*Fleet, error) {
	text, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("read the nodes: %w", err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, ares.Errorf(ares.Invalid, "read the nodes: %s", err)
	}
	if head := []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}; len(rows) < 2 || !slices.Equal(rows[0], head) {
		return nil, ares.Errorf(ares.Invalid, "the node list must start with the header %q and contain at least one node", strings.Join(head, ","))
	}
	f := &Fleet{Digest: digest(text), MilliCPU: true}
	seen := make(map[string]bool, len(rows))
	for i, r := range rows[1:] {
		if seen[r[0]] || r[0] == "" {
			return nil, ares.Errorf(ares.Invalid, "line %d: %q cannot be used as a node name: a node name must be unique and must not be empty", i+2, r[0])
		}
		seen[r[0]] = true
		var figures [3]int
		for k := range figures {
			figures[k], err = strconv.Atoi(r[k+1])
			if what := notWhole(figures[k], err); what != "" {
				return nil, ares.Errorf(ares.Invalid, "line %d: %q %s", i+2, r[k+1], what)
			}
		}
		if figures[2] > ledger.MaxDevices {
			return nil, ares.Errorf(ares.Invalid, "line %d: the node has %d GPUs, but the limit is %d", i+2, figures[2], ledger.MaxDevices)
		}
		f.Machines = append(f.Machines, Machine{Name: r[0], Count: 1, CPUs: figures[0], MemoryMB: figures[1], GPUs: figures[2], Model: r[4]})
	}
	return f, nil
}

// The function `digest` returns the SHA-256 of a file.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Tenants returns the records of the listed tenants and of the default tenant.
func (f *Fleet) Tenants() []*ares.Tenant {
	byName := map[string]*ares.Tenant{ares.DefaultTenant: {ID: ares.DefaultTenant, Limits: ares.NoLimits()}}
	for _, t := range f.Shares {
		byName[t.Name] = &ares.Tenant{ID: t.Name, Weight: t.Weight, Limits: limits(t.GPUs), Quotas: quotas(t.Quotas)}
	}
	for _, t := range f.tenants {
		byName[t.ID] = t
	}
	out := make([]*ares.Tenant, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out
}

// Queues returns the records of the listed queues.
func (f *Fleet) Queues() []*ares.Queue {
	out := slices.Clone(f.queues)
	for i := range f.Shares {
		out = append(out, f.Shares[i].queues()...)
	}
	return out
}

func (t *Tenant) queues() []*ares.Queue {
	var out []*ares.Queue
	for _, q := range t.Queues {
		out = append(out, &ares.Queue{
			Tenant: t.Name, Name: q.Name, Parent: q.Parent, Weight: cmp.Or(q.Weight, 1), Limits: limits(q.GPUs), Quotas: quotas(q.Quotas),
		})
	}
	return out
}

func limits(gpus int) ares.Limits {
	l := ares.NoLimits()
	if gpus > 0 {
		l.GPUs = gpus
	}
	return l
}

func quotas(from []Quota) []ares.Quota {
	var out []ares.Quota
	for _, q := range from {
		made := ares.Quota{Model: q.Model, Nominal: q.GPUs, Borrow: q.Borrow, Lend: ares.Unlimited}
		if q.Lend != nil {
			made.Lend = *q.Lend
		}
		out = append(out, made)
	}
	return out
}

// Nodes yields every machine.
func (f *Fleet) Nodes() iter.Seq[*ares.Node] {
	return func(yield func(*ares.Node) bool) {
		for _, n := range f.nodes {
			if !yield(f.scaled(n)) {
				return
			}
		}
		for i := range f.Machines {
			for k := range f.Machines[i].Count {
				if !yield(f.scaled(f.Machines[i].node(k))) {
					return
				}
			}
		}
	}
}

func (f *Fleet) scaled(n *ares.Node) *ares.Node {
	if f.cpuFactor <= 1 {
		return n
	}
	out := *n
	out.CPUs *= f.cpuFactor
	return &out
}

// sameCPUUnit returns a trace and a fleet with CPUs in the same unit. If one of them counts CPUs in
// cores and the other in thousandths of cores, both use thousandths in the result.
func sameCPUUnit(t *Trace, f *Fleet) (*Trace, *Fleet) {
	switch {
	case t.MilliCPU && !f.MilliCPU:
		fine := *f
		fine.MilliCPU, fine.cpuFactor = true, 1000
		return t, &fine
	case f.MilliCPU && !t.MilliCPU:
		fine := *t
		fine.MilliCPU, fine.Arrivals = true, slices.Clone(t.Arrivals)
		for i := range fine.Arrivals {
			fine.Arrivals[i].Spec.CPUs *= 1000
		}
		return &fine, f
	}
	return t, f
}

func (m *Machine) node(k int) *ares.Node {
	n := &ares.Node{ID: m.Name, CPUs: m.CPUs, MemoryMB: m.MemoryMB, Labels: maps.Clone(m.Labels)}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	if m.Count > 1 {
		n.ID = numbered(m.Name, k)
	}
	if m.LeafSize > 0 {
		n.Labels["leaf"] = fmt.Sprintf("%s-leaf-%04d", m.Name, k/m.LeafSize)
	}
	if m.like != nil {
		n.CPUs, n.MemoryMB, n.NUMA, n.Links = m.like.CPUs, m.like.MemoryMB, m.like.NUMA, m.like.Links
		n.Devices = slices.Clone(m.like.Devices)
		for g := range n.Devices {
			n.Devices[g].ID = fmt.Sprintf("%s/%d", n.ID, g)
		}
		return n
	}
	for g := range m.GPUs {
		n.Devices = append(n.Devices, ares.Device{
			ID: fmt.Sprintf("%s/%d", n.ID, g), Index: g, Type: ares.DefaultAccelerator, Model: m.Model, MemoryMB: m.GPUMemoryMB, Healthy: true,
		})
	}
	if m.Links != "" {
		n.Links = m.links()
	}
	return n
}

// This method returns the link matrix of devices that are all connected in the same way.
func (m *Machine) links() [][]string {
	var rows [][]string
	for a := range m.GPUs {
		row := slices.Repeat([]string{m.Links}, m.GPUs)
		row[a] = "X"
		rows = append(rows, row)
	}
	return rows
}
