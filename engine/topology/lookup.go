package topology

import ares "github.com/ares-scheduler/ares"

// NamedDomain returns the nodes [lo, hi) of the i-th domain with this name, widest
// first. Labels may use one name in several locations.
func (t *Tree) NamedDomain(name string, i int) (lo, hi int, ok bool) {
	of := t.byName[name]
	if i >= len(of) {
		return 0, 0, false
	}
	return of[i].firstNode, of[i].endNode, true
}

// EnclosingDomain returns the nodes [lo, hi) of the domain at this level that contains the
// node.
func (t *Tree) EnclosingDomain(node int, level ares.Level) (lo, hi int) {
	depth, ok := depthOf(level)
	if !ok || depth > leaf {
		return node, node + 1
	}
	d := &t.domains[depth][t.ancestors[t.leafOf[node]][depth]]
	return d.firstNode, d.endNode
}

// Bandwidth returns the bandwidth between two nodes, 0 if it is unknown.
func (t *Tree) Bandwidth(a, b int) int {
	la, lb := t.leafOf[a], t.leafOf[b]
	least := 0
	for depth := leaf; depth >= fleet; depth-- {
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

// DomainName returns the name of the node's domain at a level, "" for none.
func (t *Tree) DomainName(node int, level ares.Level) string {
	depth, ok := depthOf(level)
	if !ok || depth > leaf {
		return ""
	}
	return t.domains[depth][t.ancestors[t.leafOf[node]][depth]].name
}
