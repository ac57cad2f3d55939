package topology

import ares "github.com/ares-scheduler/ares"

// NamedDomain returns the nodes [lo, hi) of the i-th domain with the given name. Wider domains come first.
// Several domains can have the same name, because labels may use it in several locations.
func (t *Tree) NamedDomain(name string, i int) (lo, hi int, ok bool) {
	of := t.byName[name]
	if i >= len(of) {
		return 0, 0, false
	}
	return of[i].firstNode, of[i].endNode, true
}

// EnclosingDomain returns the nodes [lo, hi) of the domain at the given level that contains the node.
func (t *Tree) EnclosingDomain(node int, level ares.Level) (lo, hi int) {
	depth, ok := depthOf(level)
	if !ok || depth > leaf {
		return node, node + 1
	}
	d := &t.domains[depth][t.ancestors[t.leafOf[node]][depth]]
	return d.firstNode, d.endNode
}

// Bandwidth returns the bandwidth between two nodes, or 0 if the bandwidth is unknown.
func (t *Tree) Bandwidth(a, b int) int {
	la, lb := t.leafOf[a], t.leafOf[b]
	least := 0
	for depth := leaf; depth >= root; depth-- {
		for _, l := range [2]int32{la, lb} {
			d := &t.domains[depth][t.ancestors[l][depth]]
			if d.gbps == 0 {
				return 0
			}
			if least == 0 || d.gbps < least {
				least = d.gbps
			}
		}
		if t.ancestors[la][depth] == t.ancestors[lb][depth] {
			return least
		}
	}
	return 0
}

// DomainName returns the name of the node's domain at a level, or "" if the domain has no name.
func (t *Tree) DomainName(node int, level ares.Level) string {
	depth, ok := depthOf(level)
	if !ok || depth > leaf {
		return ""
	}
	return t.domains[depth][t.ancestors[t.leafOf[node]][depth]].name
}
