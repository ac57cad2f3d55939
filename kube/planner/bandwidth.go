package planner

import (
	"fmt"
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/watch"
)

// Kubernetes has no record of switches. A label of each node says how much bandwidth it has to the other nodes of its
// leaf, spine, zone and region. The bandwidth of a domain is that of its slowest node. If a node of the domain has no
// such label, the bandwidth of the domain is unknown, and no workload that requires a bandwidth goes across its nodes.

// addSwitches declares the bandwidth of the domains whose nodes all have the label.
func (p *Planner) addSwitches(t *ares.Topology) {
	declared := map[string]int{} // domain's name → its position in t.Domains
	for i := range t.Domains {
		declared[t.Domains[i].Name] = i
	}
	classes := map[string]bool{}
	for _, s := range ares.DefaultSwitches() {
		classes[s.Name] = true
	}
	for _, level := range []ares.Level{ares.LevelLeaf, ares.LevelSpine, ares.LevelZone, ares.LevelRegion} {
		slowest := p.slowest(level)
		for _, name := range slices.Sorted(maps.Keys(slowest)) {
			gbps := slowest[name]
			i, known := declared[name]
			if gbps == 0 || known && t.Domains[i].Level != level || len(t.Domains) >= ares.MaxDomains {
				continue // unknown, or domains of two levels have one name
			}
			class := fmt.Sprintf("%dGbE", gbps)
			if !classes[class] {
				if len(t.Switches) >= ares.MaxSwitches {
					continue
				}
				classes[class] = true
				t.Switches = append(t.Switches, ares.Switch{Name: class, Gbps: gbps, LatencyNanos: ares.AssumedHopNanos})
			}
			if !known {
				i = len(t.Domains)
				declared[name] = i
				t.Domains = append(t.Domains, ares.Domain{Name: name, Level: level})
			}
			t.Domains[i].Switch = class
		}
	}
}

// The method `slowest` returns the lowest bandwidth of the nodes in each domain of a level, in Gb/s. It is 0 if a node
// does not say its bandwidth.
func (p *Planner) slowest(level ares.Level) map[string]int {
	out := map[string]int{}
	for _, n := range p.nodes {
		if n.record == nil {
			continue
		}
		name := n.record.Labels[string(level)]
		if !ares.ValidName(name) {
			continue
		}
		gbps, err := ares.ParseBandwidth(n.record.Labels[watch.LabelBandwidth])
		if err != nil {
			gbps = 0
		}
		if before, seen := out[name]; !seen || gbps < before {
			out[name] = gbps
		}
	}
	return out
}
