package laws

import (
	"fmt"

	ares "github.com/ares-scheduler/ares"
)

// namedLevels are the levels with named domains, widest first.
var namedLevels = []ares.Level{ares.LevelRegion, ares.LevelZone, ares.LevelSpine, ares.LevelLeaf}

// A location holds the domain of a node at each level. The domain is "" at a level for which the node names
// no domain.
type location struct{ names [4]string }

// A locator holds the declared topology, and the levels at which some node names a domain.
type locator struct {
	topology   *ares.Topology
	domains    map[string]*ares.Domain
	leafByNode map[string]string // node to leaf
	isNamed    [4]bool           // by level: whether any node names its domain there
}

// newLocator indexes a topology.
func newLocator(t *ares.Topology) locator {
	a := locator{topology: t, domains: map[string]*ares.Domain{}, leafByNode: map[string]string{}}
	for i := range t.Domains {
		d := &t.Domains[i]
		a.domains[d.Name] = d
		for _, n := range d.Nodes {
			a.leafByNode[n] = d.Name
		}
	}
	return a
}

// locateAll sets the location of every node.
func (a *locator) locateAll(nodes map[string]*nodeUse) {
	for id, m := range nodes { // order-free: entries are independent
		m.location = a.locate(id, m.Node.Labels)
		for i, name := range m.location.names {
			a.isNamed[i] = a.isNamed[i] || name != ""
		}
	}
}

// The method `locate` returns the location of a node. The location is first taken from the node's labels.
// The declared parents of the node's domains override its labels, from the narrowest level up.
func (a *locator) locate(node string, labels map[string]string) location {
	var p location
	for i, level := range namedLevels {
		p.names[i] = labels[string(level)]
	}
	if p.names[3] == "" {
		p.names[3] = labels["rack"]
	}
	if home := a.leafByNode[node]; home != "" {
		p.names[3] = home
	}
	for i := 3; i >= 0; i-- {
		d := a.domains[p.names[i]]
		if d == nil || d.Level.Rank() != i {
			continue
		}
		if up := a.domains[d.Parent]; up != nil && up.Level.Rank() < i {
			p.names[up.Level.Rank()] = up.Name
		}
	}
	return p
}

// isKnown reports whether a node's location is known at a level. The location is known if the node names its domain
// at that level. If no node names a domain at that level, isKnown looks at the level above.
func (a *locator) isKnown(p *location, level int) bool {
	for ; level >= 0; level-- {
		if p.names[level] != "" {
			return true
		}
		if a.isNamed[level] {
			return false
		}
	}
	return true
}

// shareDomain reports whether two nodes are in the same domain at a level. A node with an unknown location shares
// no domain with other nodes. Nodes that share a narrower domain also share all wider domains.
func (a *locator) shareDomain(x, y *nodeUse, level int) bool {
	if x == y || level < 0 {
		return true
	}
	if level > 3 {
		return false
	}
	for i := range 4 {
		if x.location.names[i] != y.location.names[i] {
			return false
		}
		if i >= level && a.isKnown(&x.location, i) {
			return true
		}
	}
	return false
}

// At the given level, a node is in a domain that has a switch. switchGbps returns the bandwidth of this
// switch. If no node names a domain at a level, the result is the bandwidth at the level above.
func (a *locator) switchGbps(m *nodeUse, level int) int {
	for ; level >= 0; level-- {
		name := m.location.names[level]
		d := a.domains[name]
		if d != nil && d.Level.Rank() == level {
			for _, s := range append(ares.DefaultSwitches(), a.topology.Switches...) {
				if s.Name == d.Switch {
					return s.Gbps
				}
			}
			return 0
		}
		if a.isNamed[level] {
			return 0
		}
	}
	return 0
}

// checkTopology checks the required level, the leaf limits and the bandwidth.
func checkTopology(t *checker, p *placement) error {
	var at []*nodeUse // each once
	members := map[*nodeUse]int{}
	for i := range p.Seats {
		m := t.nodes[p.Seats[i].Node]
		if m == nil {
			return nil // the law "devices" reports it
		}
		if members[m] == 0 {
			at = append(at, m)
		}
		members[m]++
	}
	if level := ares.Level(p.job.Placement().RequiredLevel); level != "" {
		for _, m := range at[1:] {
			if !t.locator.shareDomain(at[0], m, level.Rank()) {
				return fmt.Errorf("the job requires all its nodes in the same %[1]s, but nodes %[2]s and %[3]s are not in the same %[1]s", level, at[0].Node.ID, m.Node.ID)
			}
		}
		if level == ares.LevelNUMA {
			for i := range p.Seats {
				if p.Seats[i].NUMA != p.Seats[0].NUMA {
					return fmt.Errorf("the job requires one NUMA node, but its members are on NUMA nodes %d and %d", p.Seats[0].NUMA, p.Seats[i].NUMA)
				}
			}
		}
	}
	if err := t.locator.checkLeafLimits(p.job, at, members); err != nil {
		return err
	}
	return t.locator.checkBandwidth(p.job, at)
}

// checkLeafLimits checks how much of one leaf a job uses.
func (a *locator) checkLeafLimits(job *ares.Job, at []*nodeUse, members map[*nodeUse]int) error {
	for _, m := range at {
		nodes, gpus := 0, 0
		for _, o := range at {
			if a.shareDomain(m, o, 3) {
				nodes++
				gpus += members[o] * max(job.GPUs, wholeDevices(job))
			}
		}
		if most := a.topology.MaxNodesPerLeaf; most > 0 && nodes > most {
			return fmt.Errorf("the job uses %d nodes in the leaf of node %s, but the limit per leaf is %d", nodes, m.Node.ID, most)
		}
		if most := a.topology.MaxGPUsPerLeaf; most > 0 && gpus > most {
			return fmt.Errorf("the job uses %d GPUs in the leaf of node %s, but the limit per leaf is %d", gpus, m.Node.ID, most)
		}
	}
	return nil
}

// If each member requests a MIG slice or a latency-sensitive share, wholeDevices returns 1,
// because these count as a whole device. Otherwise wholeDevices returns 0.
func wholeDevices(job *ares.Job) int {
	if job.GPUs == 0 && (job.MIGProfile != "" || job.GPUMilli > 0 && job.Placement().LatencySensitive) {
		return 1
	}
	return 0
}

// checkBandwidth checks the network between the nodes of a job.
func (a *locator) checkBandwidth(job *ares.Job, at []*nodeUse) error {
	want, err := ares.ParseBandwidth(job.Placement().NetworkBandwidth)
	if err != nil || len(at) < 2 {
		return nil
	}
	common := 3
	for _, m := range at[1:] {
		for common >= 0 && !a.shareDomain(at[0], m, common) {
			common--
		}
	}
	if common < 0 {
		return fmt.Errorf("the job requires a minimum network bandwidth, but its nodes have no common switch in the topology")
	}
	for _, m := range at {
		for level := 3; level >= common; level-- {
			if got := a.switchGbps(m, level); got < want {
				return fmt.Errorf("the %s of node %s has a bandwidth of %d Gb, but the job requires %d Gb", namedLevels[level], m.Node.ID, got, want)
			}
		}
	}
	return nil
}

// checkAffinity checks affinity and anti-affinity to other jobs.
func checkAffinity(t *checker, p *placement) error {
	others := t.occupied[:len(t.occupied)-len(p.Seats)] // without its own
	for i := range p.Seats {
		at := t.nodes[p.Seats[i].Node]
		if at == nil {
			return nil // the law "devices" reports it
		}
		for _, text := range p.job.Placement().Affinity {
			near, err := ares.ParseNear(text)
			if err != nil {
				continue
			}
			any, here := t.findNear(others, p.job, near, at, false)
			if !here && (any || !near.Of(p.job.Labels)) {
				return fmt.Errorf("the job's affinity %q is not met on node %s", text, at.Node.ID)
			}
		}
		for _, text := range p.job.Placement().AntiAffinity {
			near, err := ares.ParseNear(text)
			if err != nil {
				continue
			}
			if _, here := t.findNear(others, p.job, near, at, true); here {
				return fmt.Errorf("the job's anti-affinity %q is violated on node %s", text, at.Node.ID)
			}
		}
	}
	return nil
}

// findNear looks for jobs with the given labels. It reports whether such a job runs anywhere in the cluster, and
// whether one runs near the given node. If the parameter `live` is true, findNear ignores voided seats.
func (t *checker) findNear(others []occupiedSeat, job *ares.Job, near ares.Near, at *nodeUse, live bool) (anywhere, here bool) {
	for _, h := range others {
		if h.job.Tenant != job.Tenant || !near.Of(h.job.Labels) || live && !h.countsForTenant {
			continue
		}
		m := t.nodes[h.seat.Node]
		if m == nil {
			continue
		}
		anywhere = anywhere || h.countsForTenant
		here = here || t.locator.shareDomain(m, at, near.Level.Rank())
	}
	return anywhere, here
}
