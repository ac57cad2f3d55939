package ares

import (
	"fmt"
	"slices"
)

// Level is a level of the topology, from region down to a device's NUMA node. "rack" is another name for
// "leaf".
type Level string

// The levels.
const (
	LevelRegion Level = "region"
	LevelZone   Level = "zone"
	LevelSpine  Level = "spine"
	LevelLeaf   Level = "leaf"
	LevelNode   Level = "node"
	LevelNUMA   Level = "numa"
)

// Levels lists the levels, widest first.
func Levels() []Level {
	return []Level{LevelRegion, LevelZone, LevelSpine, LevelLeaf, LevelNode, LevelNUMA}
}

// Rank orders levels. The widest level has rank 0; an unknown level has rank -1.
func (l Level) Rank() int {
	if l == "rack" {
		l = LevelLeaf
	}
	return slices.Index(Levels(), l)
}

// Topology contains the properties of the network that node labels cannot express. These are adjacent leaves, switch
// bandwidth and the weights that compare domains. The store saves the topology as one record.
type Topology struct {
	Domains  []Domain
	Switches []Switch
	Weights  Weights
	// MaxNodesPerLeaf and MaxGPUsPerLeaf limit the nodes and GPUs that one job may use in a leaf. The value 0 means no
	// limit.
	MaxNodesPerLeaf int
	MaxGPUsPerLeaf  int
	Revision        int64
}

// Domain is a region, zone, spine or leaf. A leaf may list its nodes. If no leaf lists a node, the node's labels determine its leaf.
type Domain struct {
	Name     string
	Level    Level
	Parent   string   // the domain of the next wider known level, "" for none
	Adjacent []string // of a leaf: leaves one hop away, in both directions
	Switch   string   // of a leaf or spine: the class of its switch
	Nodes    []string // of a leaf
}

// Switch describes a class of network switches with the same bandwidth.
type Switch struct {
	Name         string // such as 100GbE
	Gbps         int    // bandwidth of one port
	LatencyNanos int    // latency of one hop
}

// DefaultSwitches returns the switch classes that a topology can use without declaring them.
func DefaultSwitches() []Switch {
	return []Switch{{"10GbE", 10, 5000}, {"40GbE", 40, 2000}, {"100GbE", 100, 1000}, {"200GbE", 200, 1000}, {"400GbE", 400, 800}}
}

// AssumedHopNanos is the latency that Ares assumes for one hop through a switch that is not declared. It is the latency
// of the slowest predefined class, like the bandwidth that Ares assumes for such a network. So without declared
// switches, the latency between two nodes depends on the number of switches between them.
const AssumedHopNanos = 5000

// Weights holds the weight of each component of a domain's score, in thousandths.
type Weights struct {
	Availability int // resourceAvailability
	Alignment    int // topologyAlignment
	Utilization  int // domainUtilization
	History      int // historicalPerformance
}

// DefaultWeights apply to a topology that sets no weights.
func DefaultWeights() Weights { return Weights{400, 300, 200, 100} }

// These limits apply to a topology.
const (
	MaxDomains  = 20_000
	MaxSwitches = 64
	MaxAdjacent = 64
	// MaxTopologyBytes limits the size of the topology's record, so that it fits into one
	// transaction.
	MaxTopologyBytes = 1 << 20
)

// Check reports every mistake in a topology.
func (t Topology) Check() error {
	var p Problems
	if len(t.Domains) > MaxDomains {
		p.Add("domains", "at most %d, got %d", MaxDomains, len(t.Domains))
		return p.Err()
	}
	if len(t.Switches) > MaxSwitches {
		p.Add("switches", "at most %d, got %d", MaxSwitches, len(t.Switches))
	}
	switches := map[string]bool{}
	for _, s := range DefaultSwitches() {
		switches[s.Name] = true
	}
	for i, s := range t.Switches {
		field := fmt.Sprintf("switches[%d]", i)
		if s.Name == "" {
			p.Add(field+".name", "is required, such as 100GbE")
		}
		text(&p, field+".name", s.Name, MaxNameBytes)
		between(&p, field+".gbps", s.Gbps, 1, 100_000)
		between(&p, field+".latency_nanos", s.LatencyNanos, 0, 1_000_000_000)
		switches[s.Name] = true
	}
	w := t.Weights
	for _, v := range []int{w.Availability, w.Alignment, w.Utilization, w.History} {
		between(&p, "weights", v, 0, 1000)
	}
	if sum := w.Availability + w.Alignment + w.Utilization + w.History; w != (Weights{}) && sum != 1000 {
		p.Add("weights", "must add up to 1, got %d thousandths", sum)
	}
	between(&p, "max_nodes_per_leaf", t.MaxNodesPerLeaf, 0, Unlimited)
	between(&p, "max_gpus_per_leaf", t.MaxGPUsPerLeaf, 0, Unlimited)
	t.checkDomains(&p, switches)
	return p.Err()
}

func (t Topology) checkDomains(p *Problems, switches map[string]bool) {
	byName := map[string]*Domain{}
	for i := range t.Domains {
		d := &t.Domains[i]
		field := fmt.Sprintf("domains[%d]", i)
		if !ValidName(d.Name) {
			p.Add(field+".name", "%q is not a name: use up to 63 letters, digits, '.', '-' and '_', first a letter or digit", Clip(d.Name))
		}
		if r := d.Level.Rank(); r < 0 || r > LevelLeaf.Rank() {
			p.Add(field+".level", "%q is not one of region, zone, spine, leaf", Clip(string(d.Level)))
		}
		if byName[d.Name] != nil {
			p.Add(field+".name", "%q is given twice", Clip(d.Name))
		}
		byName[d.Name] = d
	}
	home := map[string]string{}
	for i := range t.Domains {
		d := &t.Domains[i]
		field := fmt.Sprintf("domains[%d]", i)
		if up := byName[d.Parent]; d.Parent != "" && up == nil {
			p.Add(field+".parent", "there is no domain %q", Clip(d.Parent))
		} else if up != nil && up.Level.Rank() >= d.Level.Rank() {
			p.Add(field+".parent", "%s %q cannot be inside %s %q", d.Level, Clip(d.Name), up.Level, Clip(d.Parent))
		}
		if d.Switch != "" && !switches[d.Switch] {
			p.Add(field+".switch", "%q is not a known class: declare it in switches", Clip(d.Switch))
		}
		leaf := d.Level.Rank() == LevelLeaf.Rank()
		if !leaf && (len(d.Adjacent) > 0 || len(d.Nodes) > 0) {
			p.Add(field, "only a leaf has adjacent leaves and nodes")
		}
		if len(d.Adjacent) > MaxAdjacent {
			p.Add(field+".adjacent", "at most %d, got %d", MaxAdjacent, len(d.Adjacent))
		}
		for _, other := range d.Adjacent {
			if o := byName[other]; o == nil || o.Level.Rank() != LevelLeaf.Rank() || other == d.Name {
				p.Add(field+".adjacent", "there is no other leaf %q", Clip(other))
			}
		}
		for _, n := range d.Nodes {
			if !ValidName(n) {
				p.Add(field+".nodes", "%q is not the name of a node", Clip(n))
			}
			if before, twice := home[n]; twice {
				p.Add(field+".nodes", "node %q is in leaf %q already", Clip(n), before)
			}
			home[n] = d.Name
		}
	}
}
