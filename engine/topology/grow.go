package topology

import "slices"

// grow considers the sets of leaves that are connected by adjacency. Each is
// met once: it grows from its first leaf, over leaves that come after that one
// and are not next to those chosen earlier. Of a job that was placed before, the
// sets come first that can have a leaf of before: there may be more than can be
// considered.
func (z *sets) grow(s *search) {
	for len(z.edges) <= z.size {
		z.edges = append(z.edges, nil)
	}
	z.around(s)
	if len(z.near) > 0 {
		z.growFrom(s, true)
	}
	z.growFrom(s, false)
	z.chosen = z.chosen[:0]
}

// around lists the leaves that are in a connected set with one of before.
func (z *sets) around(s *search) {
	z.near, z.ring = z.near[:0], z.ring[:0]
	for _, n := range s.ask.Before {
		z.meet(s.tree.leafOf[n])
	}
	from := 0
	for range z.size - 1 {
		end := len(z.ring)
		for ; from < end; from++ {
			for _, o := range s.tree.adjacent[z.ring[from]] {
				z.meet(o)
			}
		}
	}
}

// meet adds a leaf to the near ones.
func (z *sets) meet(l int32) {
	if at, known := slices.BinarySearch(z.near, l); !known {
		z.near, z.ring = slices.Insert(z.near, at, l), append(z.ring, l)
	}
}

// growFrom considers the sets whose first leaf is near those of before, or the
// others.
func (z *sets) growFrom(s *search, near bool) {
	t := s.tree
	top := z.leaves[0].members
	for _, r := range z.leaves {
		if z.effort <= 0 {
			return
		}
		if _, is := slices.BinarySearch(z.near, int32(r.leaf)); is != near {
			continue
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
