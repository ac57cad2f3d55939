package topology

import ares "github.com/ares-scheduler/ares"

// Domain finds the nodes of the i-th domain of a name, widest first: labels may
// use one name in several places.
func (t *Tree) Domain(name string, i int) (lo, hi int, ok bool) {
	of := t.byName[name]
	if i >= len(of) {
		return 0, 0, false
	}
	return of[i].lo, of[i].hi, true
}

// Span is the nodes that share a node's domain at a level.
func (t *Tree) Span(node int, level ares.Level) (lo, hi int) {
	depth, ok := depthOf(level)
	if !ok || depth > leaf {
		return node, node + 1
	}
	d := &t.domains[depth][t.up[t.leafOf[node]][depth]]
	return d.lo, d.hi
}

// Gbps is what the network between two nodes carries, 0 when that is not known.
func (t *Tree) Gbps(a, b int) int {
	la, lb := t.leafOf[a], t.leafOf[b]
	least := 0
	for depth := leaf; depth >= fleet; depth-- {
		for _, l := range [2]int32{la, lb} {
			d := &t.domains[depth][t.up[l][depth]]
			if d.gbps == 0 {
				return 0
			}
			if least == 0 || d.gbps < least {
				least = d.gbps
			}
		}
		if t.up[la][depth] == t.up[lb][depth] {
			return least
		}
	}
	return 0
}

// Name is the name of a node's domain at a level, "" for none.
func (t *Tree) Name(node int, level ares.Level) string {
	depth, ok := depthOf(level)
	if !ok || depth > leaf {
		return ""
	}
	return t.domains[depth][t.up[t.leafOf[node]][depth]].name
}
