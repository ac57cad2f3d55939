package topology

import "slices"

// searchConnected evaluates the sets of leaves that are connected through adjacent leaves. Each set starts with its
// lowest leaf and grows by one adjacent leaf at a time. In this way each set is visited only once. The number of
// steps is limited. If the job has been placed before, sets near its previous leaves are evaluated first.
func (z *leafSetSearch) searchConnected(s *search) {
	for len(z.frontiers) <= z.size {
		z.frontiers = append(z.frontiers, nil)
	}
	z.collectNear(s)
	if len(z.nearPrevious) > 0 {
		z.growConnected(s, true)
	}
	z.growConnected(s, false)
	z.chosen = z.chosen[:0]
}

// collectNear lists the leaves that can belong to a connected set together with one of the job's previous leaves.
func (z *leafSetSearch) collectNear(s *search) {
	z.nearPrevious, z.nearQueue = z.nearPrevious[:0], z.nearQueue[:0]
	for _, n := range s.ask.PreviousNodes {
		z.addNear(s.tree.leafOf[n])
	}
	from := 0
	for range z.size - 1 {
		end := len(z.nearQueue)
		for ; from < end; from++ {
			for _, o := range s.tree.adjacent[z.nearQueue[from]] {
				z.addNear(o)
			}
		}
	}
}

// addNear adds a leaf to nearPrevious, which lists the leaves near the job's previous leaves.
func (z *leafSetSearch) addNear(l int32) {
	if at, known := slices.BinarySearch(z.nearPrevious, l); !known {
		z.nearPrevious, z.nearQueue = slices.Insert(z.nearPrevious, at, l), append(z.nearQueue, l)
	}
}

// If the argument `near` is true, growConnected evaluates the connected sets whose first leaf is near one of
// the job's previous leaves. If the argument `near` is false, growConnected evaluates all other connected
// sets.
func (z *leafSetSearch) growConnected(s *search, near bool) {
	t := s.tree
	top := z.byBound[0].members
	for _, r := range z.byBound {
		if z.stepsLeft <= 0 {
			return
		}
		if _, is := slices.BinarySearch(z.nearPrevious, int32(r.leaf)); is != near {
			continue
		}
		if len(t.adjacent[r.leaf]) == 0 || r.members+(z.size-1)*top < s.members {
			continue
		}
		z.chosen = append(z.chosen[:0], int32(r.leaf))
		z.frontiers[1] = z.frontiers[1][:0]
		for _, l := range t.adjacent[r.leaf] {
			if int(l) > r.leaf {
				z.frontiers[1] = append(z.frontiers[1], l)
			}
		}
		z.extend(s, s.members-r.members)
	}
	z.chosen = z.chosen[:0]
}

// The method `extend` adds leaves to a connected set until the set has the required size. The argument `left`
// is the number of members that the chosen leaves cannot hold.
func (z *leafSetSearch) extend(s *search, left int) {
	n := len(z.chosen)
	if n == z.size {
		z.tryChosen(s)
		return
	}
	top := z.byBound[0].members
	for i, next := range z.frontiers[n] {
		if z.stepsLeft--; z.stepsLeft <= 0 {
			return
		}
		if int(next) >= z.domain.endLeaf || int(next) < z.domain.firstLeaf {
			continue
		}
		bound := s.leafCapacityBound(int(next), z.depth)
		if bound == 0 || bound+(z.size-n-1)*top < left {
			continue
		}
		z.frontiers[n+1] = append(z.frontiers[n+1][:0], z.frontiers[n][i+1:]...)
		for _, l := range s.tree.adjacent[next] {
			if l > z.chosen[0] && !slices.Contains(z.chosen, l) && !z.isAdjacentToChosen(s, l) {
				z.frontiers[n+1] = append(z.frontiers[n+1], l)
			}
		}
		z.chosen = append(z.chosen, next)
		z.extend(s, left-bound)
		z.chosen = z.chosen[:n]
	}
}

// isAdjacentToChosen reports whether leaf l is adjacent to one of the chosen
// leaves.
func (z *leafSetSearch) isAdjacentToChosen(s *search, l int32) bool {
	return slices.ContainsFunc(z.chosen, func(c int32) bool {
		_, found := slices.BinarySearch(s.tree.adjacent[c], l)
		return found
	})
}
