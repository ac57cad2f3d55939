package topology

import (
	"cmp"

	ares "github.com/ares-scheduler/ares"
)

// Depths in the tree, widest first. The fleet contains everything.
const (
	fleet = iota
	region
	zone
	spine
	leaf
	depthCount
)

// labelKeys has the node label that names the domain at each depth.
var labelKeys = [depthCount]string{region: "region", zone: "zone", spine: "spine", leaf: "leaf"}

// labelRack is another label for the leaf.
const labelRack = "rack"

// depthOf returns the depth of a level in the tree. The node and the levels
// inside it are beyond the leaf. It returns false for an unknown level.
func depthOf(l ares.Level) (int, bool) {
	rank := l.Rank()
	return min(rank+1, depthCount), rank >= 0
}

// levelOf returns the level at a depth, "" for the fleet.
func levelOf(depth int) ares.Level {
	if depth == fleet {
		return ""
	}
	return ares.Levels()[depth-1]
}

// Location is the location of a node; a level that the node does not name is "".
type Location struct{ Region, Zone, Spine, Leaf string }

// nameAt returns the field of a depth. Invariant: region <= depth <= leaf.
func (p *Location) nameAt(depth int) *string {
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

// In reports whether the location is in the domain with this level and name.
func (p Location) In(level ares.Level, name string) bool {
	depth, ok := depthOf(level)
	return ok && depth <= leaf && *p.nameAt(depth) == name
}

// CompareLocations orders locations. Sorting nodes by location and then by ID puts the
// nodes of every domain next to each other.
func CompareLocations(a, b Location) int {
	return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Zone, b.Zone),
		cmp.Compare(a.Spine, b.Spine), cmp.Compare(a.Leaf, b.Leaf))
}

// Locator finds the location of nodes.
type Locator struct {
	domains    map[string]*ares.Domain // by name
	leafByNode map[string]*ares.Domain // the leaf that lists the node
}

// NewLocator indexes a topology. A nil topology declares nothing.
func NewLocator(t *ares.Topology) *Locator {
	a := &Locator{domains: map[string]*ares.Domain{}, leafByNode: map[string]*ares.Domain{}}
	if t == nil {
		return a
	}
	for i := range t.Domains {
		d := &t.Domains[i]
		a.domains[d.Name] = d
		for _, n := range d.Nodes {
			a.leafByNode[n] = d
		}
	}
	return a
}

// Locate returns the location of a node. A declared domain that lists the
// node, or that a label of the node names, determines the domains above it.
// Labels determine the rest.
func (a *Locator) Locate(node string, labels map[string]string) Location {
	var p Location
	for depth := region; depth <= leaf; depth++ {
		*p.nameAt(depth) = labels[labelKeys[depth]]
	}
	if p.Leaf == "" {
		p.Leaf = labels[labelRack]
	}
	if home := a.leafByNode[node]; home != nil {
		p.Leaf = home.Name
	}
	for depth := leaf; depth >= region; depth-- {
		d := a.declaredDomain(depth, *p.nameAt(depth))
		if d == nil || d.Parent == "" {
			continue
		}
		if up := a.domains[d.Parent]; up != nil {
			if above, ok := depthOf(up.Level); ok && above < depth {
				*p.nameAt(above) = up.Name
			}
		}
	}
	return p
}

// declaredDomain returns the topology's domain with this name, or nil if there
// is none at this depth.
func (a *Locator) declaredDomain(depth int, name string) *ares.Domain {
	d := a.domains[name]
	if name == "" || d == nil {
		return nil
	}
	if at, ok := depthOf(d.Level); !ok || at != depth {
		return nil
	}
	return d
}
