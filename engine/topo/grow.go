package topo

import "slices"

// grow considers the sets of leaves that are connected by adjacency. Each is
// met once: it grows from its first leaf, over leaves that come after that one
// and are not next to those chosen earlier.
func (z *sets) grow(s *search) {
	for len(z.edges) <= z.size {
		z.edges = append(z.edges, nil)
	}
	t := s.tree
	top := z.leaves[0].members
	for _, r := range z.leaves {
		if z.effort <= 0 {
			return
		}
		if len(t.adjacent[r.leaf]) == 0 || r.members+(z.size-1)*top < s.members {
			continue
		}
		z.chosen = append(z.chosen[:0], int32(r.leaf))
		z.edges[1] = z.edges[1][:0]
		for _, l := range t.adjacent[r.leaf] {
			if int(l) > r.leaf {
				z.edges[1] = append(z.edges[1], l)
			}
		}
		z.extend(s, s.members-r.members)
	}
	z.chosen = z.chosen[:0]
}

// extend adds leaves to a connected set until it is of the right size.
func (z *sets) extend(s *search, left int) {
	n := len(z.chosen)
	if n == z.size {
		z.try(s)
		return
	}
	top := z.leaves[0].members
	for i, next := range z.edges[n] {
		if z.effort--; z.effort <= 0 {
			return
		}
		if int(next) >= z.domain.end || int(next) < z.domain.first {
			continue
		}
		promised := s.promised(int(next), z.depth)
		if promised == 0 || promised+(z.size-n-1)*top < left {
			continue
		}
		z.edges[n+1] = append(z.edges[n+1][:0], z.edges[n][i+1:]...)
		for _, l := range s.tree.adjacent[next] {
			if l > z.chosen[0] && !slices.Contains(z.chosen, l) && !z.beside(s, l) {
				z.edges[n+1] = append(z.edges[n+1], l)
			}
		}
		z.chosen = append(z.chosen, next)
		z.extend(s, left-promised)
		z.chosen = z.chosen[:n]
	}
}

// beside says whether a leaf is next to one of the chosen.
func (z *sets) beside(s *search, l int32) bool {
	return slices.ContainsFunc(z.chosen, func(c int32) bool {
		_, found := slices.BinarySearch(s.tree.adjacent[c], l)
		return found
	})
}
