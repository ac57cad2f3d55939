package topology

import (
	"cmp"

	ares "github.com/ares-scheduler/ares"
)

// Depths in the tree, widest first. The fleet holds everything.
const (
	fleet = iota
	region
	zone
	spine
	leaf
	depths
)

// labelKeys are the labels that say where a node stands, by depth.
var labelKeys = [depths]string{region: "region", zone: "zone", spine: "spine", leaf: "leaf"}

// labelRack is a leaf by another name.
const labelRack = "rack"

// depthOf is where a level is in the tree: a node and what is inside it are
// beyond the leaf. False means that there is no such level.
func depthOf(l ares.Level) (int, bool) {
	rank := l.Rank()
	return min(rank+1, depths), rank >= 0
}

// levelOf is the level at a depth, "" for the fleet.
func levelOf(depth int) ares.Level {
	if depth == fleet {
		return ""
	}
	return ares.Levels()[depth-1]
}

// Place is where a node stands; "" where it does not say.
type Place struct{ Region, Zone, Spine, Leaf string }

func (p *Place) name(depth int) *string {
	switch depth {
	case region:
		return &p.Region
	case zone:
		return &p.Zone
	case spine:
		return &p.Spine
	default:
		return &p.Leaf
	}
}

// In says whether the place is in the domain of a level and name.
func (p Place) In(level ares.Level, name string) bool {
	depth, ok := depthOf(level)
	return ok && depth <= leaf && *p.name(depth) == name
}

// Compare orders places. Nodes in the order of their places, then of their IDs,
// have the nodes of every domain next to each other.
func Compare(a, b Place) int {
	return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Zone, b.Zone),
		cmp.Compare(a.Spine, b.Spine), cmp.Compare(a.Leaf, b.Leaf))
}

// Atlas finds the places of nodes.
type Atlas struct {
	domains map[string]*ares.Domain
	homes   map[string]*ares.Domain // by node
}

// NewAtlas prepares a topology for questions; nil stands for none.
func NewAtlas(t *ares.Topology) *Atlas {
	a := &Atlas{domains: map[string]*ares.Domain{}, homes: map[string]*ares.Domain{}}
	if t == nil {
		return a
	}
	for i := range t.Domains {
		d := &t.Domains[i]
		a.domains[d.Name] = d
		for _, n := range d.Nodes {
			a.homes[n] = d
		}
	}
	return a
}

// PlaceOf says where a node stands. A domain that the topology declares and the
// node is listed in, or names in a label, says what it is inside of; the labels
// say the rest.
func (a *Atlas) PlaceOf(node string, labels map[string]string) Place {
	var p Place
	for depth := region; depth <= leaf; depth++ {
		*p.name(depth) = labels[labelKeys[depth]]
	}
	if p.Leaf == "" {
		p.Leaf = labels[labelRack]
	}
	if home := a.homes[node]; home != nil {
		p.Leaf = home.Name
	}
	for depth := leaf; depth >= region; depth-- {
		d := a.declared(depth, *p.name(depth))
		if d == nil || d.Parent == "" {
			continue
		}
		if up := a.domains[d.Parent]; up != nil {
			if above, ok := depthOf(up.Level); ok && above < depth {
				*p.name(above) = up.Name
			}
		}
	}
	return p
}

// declared is the topology's domain of that name, nil when there is none at
// that depth.
func (a *Atlas) declared(depth int, name string) *ares.Domain {
	d := a.domains[name]
	if name == "" || d == nil {
		return nil
	}
	if at, ok := depthOf(d.Level); !ok || at != depth {
		return nil
	}
	return d
}
