package laws

import (
	"fmt"

	ares "github.com/ares-scheduler/ares"
)

// The levels that have names, widest first.
var named = []ares.Level{ares.LevelRegion, ares.LevelZone, ares.LevelSpine, ares.LevelLeaf}

// place is where a node stands, by level; "" where it does not say.
type place struct{ names [4]string }

// atlas is what the topology says, and which levels anybody names.
type atlas struct {
	topology *ares.Topology
	domains  map[string]*ares.Domain
	homes    map[string]string // node to leaf
	used     [4]bool
}

func newAtlas(t *ares.Topology) atlas {
	a := atlas{topology: t, domains: map[string]*ares.Domain{}, homes: map[string]string{}}
	for i := range t.Domains {
		d := &t.Domains[i]
		a.domains[d.Name] = d
		for _, n := range d.Nodes {
			a.homes[n] = d.Name
		}
	}
	return a
}

// settle finds the place of every node.
func (a *atlas) settle(nodes map[string]*machine) {
	for id, m := range nodes { // order-free: each by itself
		m.place = a.placeOf(id, m.Node.Labels)
		for i, name := range m.place.names {
			a.used[i] = a.used[i] || name != ""
		}
	}
}

// placeOf is the node's own labels, overruled from the narrowest level up by
// what the topology says of the domains it is in.
func (a *atlas) placeOf(node string, labels map[string]string) place {
	var p place
	for i, level := range named {
		p.names[i] = labels[string(level)]
	}
	if p.names[3] == "" {
		p.names[3] = labels["rack"]
	}
	if home := a.homes[node]; home != "" {
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

// told says whether a node's place is known at a level: it names it, or nobody
// names any there and it is known at the level above.
func (a *atlas) told(p *place, level int) bool {
	for ; level >= 0; level-- {
		if p.names[level] != "" {
			return true
		}
		if a.used[level] {
			return false
		}
	}
	return true
}

// together says whether two nodes are in one domain of a level. Who does not
// say where he stands is alone, except that who shares a narrower domain shares
// the wider ones.
func (a *atlas) together(x, y *machine, level int) bool {
	if x == y || level < 0 {
		return true
	}
	if level > 3 {
		return false
	}
	for i := range 4 {
		if x.place.names[i] != y.place.names[i] {
			return false
		}
		if i >= level && a.told(&x.place, i) {
			return true
		}
	}
	return false
}

// carries is what the switch of a node's domain at a level carries. Where nobody
// names that level it is that of the level above.
func (a *atlas) carries(m *machine, level int) int {
	for ; level >= 0; level-- {
		name := m.place.names[level]
		d := a.domains[name]
		if d != nil && d.Level.Rank() == level {
			for _, s := range append(ares.DefaultSwitches(), a.topology.Switches...) {
				if s.Name == d.Switch {
					return s.Gbps
				}
			}
			return 0
		}
		if a.used[level] {
			return 0
		}
	}
	return 0
}

// places judges where the members of a job are to each other.
func places(t *trial, p *placed) error {
	var at []*machine // each once
	members := map[*machine]int{}
	for i := range p.Seats {
		m := t.nodes[p.Seats[i].Node]
		if m == nil {
			return nil // another law's
		}
		if members[m] == 0 {
			at = append(at, m)
		}
		members[m]++
	}
	if level := ares.Level(p.job.Placement.RequiredLevel); level != "" {
		for _, m := range at[1:] {
			if !t.atlas.together(at[0], m, level.Rank()) {
				return fmt.Errorf("it asked for one %s and got %s and %s", level, at[0].Node.ID, m.Node.ID)
			}
		}
		if level == ares.LevelNUMA {
			for i := range p.Seats {
				if p.Seats[i].NUMA != p.Seats[0].NUMA {
					return fmt.Errorf("it asked for one NUMA node and got %d and %d", p.Seats[0].NUMA, p.Seats[i].NUMA)
				}
			}
		}
	}
	if err := t.atlas.crowded(p.job, at, members); err != nil {
		return err
	}
	return t.atlas.narrow(p.job, at)
}

// crowded judges how much of one leaf a job takes.
func (a *atlas) crowded(job *ares.Job, at []*machine, members map[*machine]int) error {
	for _, m := range at {
		nodes, gpus := 0, 0
		for _, o := range at {
			if a.together(m, o, 3) {
				nodes++
				gpus += members[o] * max(job.GPUs, wholeOf(job))
			}
		}
		if most := a.topology.MaxNodesPerLeaf; most > 0 && nodes > most {
			return fmt.Errorf("it has %d nodes of the leaf of %s, the most is %d", nodes, m.Node.ID, most)
		}
		if most := a.topology.MaxGPUsPerLeaf; most > 0 && gpus > most {
			return fmt.Errorf("it has %d GPUs of the leaf of %s, the most is %d", gpus, m.Node.ID, most)
		}
	}
	return nil
}

// wholeOf is the devices that a member gets whole although it asked otherwise.
func wholeOf(job *ares.Job) int {
	if job.GPUs == 0 && (job.MIGProfile != "" || job.GPUMilli > 0 && job.Placement.LatencySensitive) {
		return 1
	}
	return 0
}

// narrow judges the network between the nodes of a job.
func (a *atlas) narrow(job *ares.Job, at []*machine) error {
	want, err := ares.ParseBandwidth(job.Placement.NetworkBandwidth)
	if err != nil || len(at) < 2 {
		return nil
	}
	common := 3
	for _, m := range at[1:] {
		for common >= 0 && !a.together(at[0], m, common) {
			common--
		}
	}
	if common < 0 {
		return fmt.Errorf("nothing is known to connect its nodes")
	}
	for _, m := range at {
		for level := 3; level >= common; level-- {
			if got := a.carries(m, level); got < want {
				return fmt.Errorf("the %s of %s carries %d Gb, not %d", named[level], m.Node.ID, got, want)
			}
		}
	}
	return nil
}

// company judges who else is near.
func company(t *trial, p *placed) error {
	others := t.holders[:len(t.holders)-len(p.Seats)] // without its own
	for i := range p.Seats {
		at := t.nodes[p.Seats[i].Node]
		if at == nil {
			return nil // another law's
		}
		for _, text := range p.job.Placement.Affinity {
			near, err := ares.ParseNear(text)
			if err != nil {
				continue
			}
			any, here := t.near(others, p.job, near, at, false)
			if !here && (any || !near.Of(p.job.Labels)) {
				return fmt.Errorf("%s is not near %q", at.Node.ID, text)
			}
		}
		for _, text := range p.job.Placement.AntiAffinity {
			near, err := ares.ParseNear(text)
			if err != nil {
				continue
			}
			if _, here := t.near(others, p.job, near, at, true); here {
				return fmt.Errorf("%s is near %q", at.Node.ID, text)
			}
		}
	}
	return nil
}

// near says whether seats of jobs with the labels are anywhere, and whether one
// is near a node. A seat of a lost attempt may count or not.
func (t *trial) near(others []holder, job *ares.Job, near ares.Near, at *machine, live bool) (anywhere, here bool) {
	for _, h := range others {
		if h.job.Tenant != job.Tenant || !near.Of(h.job.Labels) || live && !h.live {
			continue
		}
		m := t.nodes[h.seat.Node]
		if m == nil {
			continue
		}
		anywhere = anywhere || h.live
		here = here || t.atlas.together(m, at, near.Level.Rank())
	}
	return anywhere, here
}
