package ares

import (
	"fmt"
	"slices"
)

// Level is a height in the tree of places, from the widest to a device's NUMA
// node. A rack is a leaf by another name.
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

// Rank orders levels: 0 is the widest, -1 means there is no such level.
func (l Level) Rank() int {
	if l == "rack" {
		l = LevelLeaf
	}
	return slices.Index(Levels(), l)
}

// Topology says what labels of nodes cannot: which leaves are adjacent, what
// their switches carry, and how domains are weighed. It is one record.
type Topology struct {
	Domains  []Domain
	Switches []Switch
	Weights  Weights
	// MaxNodesPerLeaf and MaxGPUsPerLeaf bound what one job may take of a leaf;
	// 0 means no bound.
	MaxNodesPerLeaf int
	MaxGPUsPerLeaf  int
	Revision        int64
}

// Domain is a named place: a region, zone, spine or leaf. Nodes may be listed
// with their leaf; a node that is not listed is where its labels say.
type Domain struct {
	Name     string
	Level    Level
	Parent   string   // the domain of the next wider level that is known, "" for none
	Adjacent []string // of a leaf: leaves one hop away. It holds both ways
	Switch   string   // of a leaf or spine: the class of its switch
	Nodes    []string // of a leaf
}

// Switch is a class of switches.
type Switch struct {
	Name         string // such as 100GbE
	Gbps         int    // of one port
	LatencyNanos int    // of one hop
}

// DefaultSwitches are known without being declared.
func DefaultSwitches() []Switch {
	return []Switch{{"10GbE", 10, 5000}, {"40GbE", 40, 2000}, {"100GbE", 100, 1000}, {"200GbE", 200, 1000}, {"400GbE", 400, 800}}
}

// Weights say what counts how much when domains are compared, in thousandths.
type Weights struct {
	Availability int // resourceAvailability
	Alignment    int // topologyAlignment
	Utilization  int // domainUtilization
	History      int // historicalPerformance
}

// DefaultWeights are those of a topology that names none.
func DefaultWeights() Weights { return Weights{400, 300, 200, 100} }

// Limits on a topology.
const (
	MaxDomains  = 20_000
	MaxSwitches = 64
	MaxAdjacent = 64
	// MaxTopologyBytes bounds the record, so that one transaction carries it.
	MaxTopologyBytes = 1 << 20
)

// Check reports every mistake of a topology.
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
			p.Add(field+".name", "%q is not a name: use up to 63 letters, digits, '.', '-' and '_', first a letter or digit", clip(d.Name))
		}
		if r := d.Level.Rank(); r < 0 || r > LevelLeaf.Rank() {
			p.Add(field+".level", "%q is not one of region, zone, spine, leaf", clip(string(d.Level)))
		}
		if byName[d.Name] != nil {
			p.Add(field+".name", "%q is given twice", clip(d.Name))
		}
		byName[d.Name] = d
	}
	home := map[string]string{}
	for i := range t.Domains {
		d := &t.Domains[i]
		field := fmt.Sprintf("domains[%d]", i)
		if up := byName[d.Parent]; d.Parent != "" && up == nil {
			p.Add(field+".parent", "there is no domain %q", clip(d.Parent))
		} else if up != nil && up.Level.Rank() >= d.Level.Rank() {
			p.Add(field+".parent", "%s %q cannot be inside %s %q", d.Level, clip(d.Name), up.Level, clip(d.Parent))
		}
		if d.Switch != "" && !switches[d.Switch] {
			p.Add(field+".switch", "%q is not a known class: declare it in switches", clip(d.Switch))
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
				p.Add(field+".adjacent", "there is no other leaf %q", clip(other))
			}
		}
		for _, n := range d.Nodes {
			if !ValidName(n) {
				p.Add(field+".nodes", "%q is not the name of a node", clip(n))
			}
			if before, twice := home[n]; twice {
				p.Add(field+".nodes", "node %q is in leaf %q already", clip(n), before)
			}
			home[n] = d.Name
		}
	}
}
