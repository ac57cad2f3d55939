package topology

import (
	"cmp"

	ares "github.com/ares-scheduler/ares"
)

// These constants are the depths in the tree, from the widest domains to the narrowest. The root contains every node.
const (
	root = iota
	region
	zone
	spine
	leaf
	depthCount
)

// labelKeys maps each depth to the node label that names the domain at that depth.
var labelKeys = [depthCount]string{region: "region", zone: "zone", spine: "spine", leaf: "leaf"}

// labelRack is an alternative node label for the leaf.
const labelRack = "rack"

// depthOf returns the depth of a level in the tree. The level of a node, and all levels inside a node, have a
// result that is greater than the depth of a leaf. depthOf returns false for an unknown level.
func depthOf(l ares.Level) (int, bool) {
	rank := l.Rank()
	return min(rank+1, depthCount), rank >= 0
}

// levelOf returns the level at a depth, or "" for the root.
func levelOf(depth int) ares.Level {
	if depth == root {
		return ""
	}
	return ares.Levels()[depth-1]
}

// Location says in which region, zone, spine and leaf a node is. If the node names no domain at a level, the
// field of that level is "".
type Location struct{ Region, Zone, Spine, Leaf string }

// nameAt returns the name of the location's domain at a depth. The caller must ensure that region <= depth <= leaf.
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

// If the location is in the domain with the given level and name, the method In returns true.
func (p Location) In(level ares.Level, name string) bool {
	depth, ok := depthOf(level)
	return ok && depth <= leaf && *p.nameAt(depth) == name
}

// CompareLocations orders locations. Sorting nodes by location and then by ID makes the nodes of every domain
// adjacent.
func CompareLocations(a, b Location) int {
	return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Zone, b.Zone),
		cmp.Compare(a.Spine, b.Spine), cmp.Compare(a.Leaf, b.Leaf))
}

// Locator finds the location of nodes.
type Locator struct {
	domains    map[string]*ares.Domain // by name
	leafByNode map[string]*ares.Domain // the leaf that lists the node
}

// NewLocator indexes the domains of a topology by name and by node. A nil topology declares no domains.
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

// Locate returns the location of a node. The labels of the node name its domains. If a declared leaf lists the node,
// this leaf is used instead of the one in the label. If the topology declares the parent of a domain, this parent is
// used instead of the one in the label.
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

// declaredDomain returns the declared domain with the given name at this depth, or nil if there is none.
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
