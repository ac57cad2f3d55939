package sim

import (
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"strconv"

	"go.yaml.in/yaml/v3"

	ares "github.com/ares-scheduler/ares"
)

// Fleet is the machines of a simulation, and the tenants that share them.
type Fleet struct {
	Machines []Machine      `yaml:"machines"`
	Shares   []Tenant       `yaml:"tenants"`
	Topology *ares.Topology `yaml:"-"`
}

// Machine is some machines that are alike.
type Machine struct {
	Name        string            `yaml:"name"`
	Count       int               `yaml:"count"`
	GPUs        int               `yaml:"gpus"`
	Model       string            `yaml:"model"`
	GPUMemoryMB int               `yaml:"gpu_memory_mb"`
	CPUs        int               `yaml:"cpus"`
	MemoryMB    int               `yaml:"memory_mb"`
	Links       string            `yaml:"links"`     // between any two of its GPUs, such as NV18; "" when it does not matter
	LeafSize    int               `yaml:"leaf_size"` // machines of a leaf; 0 for no leaves
	Labels      map[string]string `yaml:"labels"`
}

// Tenant is a tenant with its weight and limit; those that are not named have
// weight 1 and no limits.
type Tenant struct {
	Name   string  `yaml:"name"`
	Weight float64 `yaml:"weight"`
	GPUs   int     `yaml:"max_gpus"` // 0 for no limit
}

// ReadFleet reads a fleet file.
func ReadFleet(from io.Reader) (*Fleet, error) {
	in := yaml.NewDecoder(from)
	in.KnownFields(true)
	var f Fleet
	if err := in.Decode(&f); err != nil {
		return nil, ares.Errorf(ares.Invalid, "read the fleet: %s", err)
	}
	var p ares.Problems
	for i, m := range f.Machines {
		if m.Count < 1 || m.CPUs < 0 || m.GPUs < 0 || m.MemoryMB < 0 || !ares.ValidName(m.Name) {
			p.Add(fmt.Sprintf("machines[%d]", i), "needs a name, a count of at least 1, and no negative figures")
		}
	}
	if len(f.Machines) == 0 {
		p.Add("machines", "there are none")
	}
	return &f, p.Err()
}

// ReadOpenbNodes reads the list of nodes of Alibaba's trace of 2023.
func ReadOpenbNodes(from io.Reader) (*Fleet, error) {
	rows, err := csv.NewReader(from).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read the nodes: %w", err)
	}
	f := &Fleet{}
	for i, r := range rows {
		if i == 0 {
			continue
		}
		var figures [3]int
		for k := range figures {
			if figures[k], err = strconv.Atoi(r[k+1]); err != nil {
				return nil, ares.Errorf(ares.Invalid, "line %d: %q is not a number", i+1, r[k+1])
			}
		}
		f.Machines = append(f.Machines, Machine{Name: r[0], Count: 1, CPUs: figures[0], MemoryMB: figures[1], GPUs: figures[2], Model: r[4]})
	}
	return f, nil
}

// Tenants yields the records of those that are named, and of the default one.
func (f *Fleet) Tenants() []*ares.Tenant {
	out := []*ares.Tenant{{ID: ares.DefaultTenant, Limits: ares.NoLimits()}}
	for _, t := range f.Shares {
		made := &ares.Tenant{ID: t.Name, Weight: t.Weight, Limits: ares.NoLimits()}
		if t.GPUs > 0 {
			made.Limits.GPUs = t.GPUs
		}
		out = append(out, made)
	}
	return out
}

// Nodes yields every machine.
func (f *Fleet) Nodes() iter.Seq[*ares.Node] {
	return func(yield func(*ares.Node) bool) {
		for i := range f.Machines {
			for k := range f.Machines[i].Count {
				if !yield(f.Machines[i].node(k)) {
					return
				}
			}
		}
	}
}

func (m *Machine) node(k int) *ares.Node {
	n := &ares.Node{ID: m.Name, CPUs: m.CPUs, MemoryMB: m.MemoryMB, Labels: map[string]string{}}
	if m.Count > 1 {
		n.ID = fmt.Sprintf("%s-%05d", m.Name, k)
	}
	for key, value := range m.Labels {
		n.Labels[key] = value
	}
	if m.LeafSize > 0 {
		n.Labels["leaf"] = fmt.Sprintf("%s-leaf-%04d", m.Name, k/m.LeafSize)
	}
	for g := range m.GPUs {
		n.Devices = append(n.Devices, ares.Device{
			ID: fmt.Sprintf("%s/%d", n.ID, g), Index: g, Type: ares.DefaultAccelerator, Model: m.Model, MemoryMB: m.GPUMemoryMB, Healthy: true,
		})
	}
	if m.Links != "" {
		for a := range m.GPUs {
			row := make([]string, m.GPUs)
			for b := range row {
				row[b] = m.Links
			}
			row[a] = "X"
			n.Links = append(n.Links, row)
		}
	}
	return n
}
