package topology

import "slices"

// boundCache stores the bounds of all leaves, or of all spines, for jobs of one size. Jobs have only a few different
// sizes, and only a few leaves change between two searches. So the cache reads the tree's log of changed leaves, and
// computes only the bounds of the changed leaves again. If a search finds that a domain is too small, the domain
// stays infeasible until it changes.
type boundCache struct {
	depth, members, devices, cacheKey int
	strategy                          string

	appliedChanges int     // total number of changes applied so far
	lastUse        int     // the value of cacheUses at the last lookup
	bounds         []bound // by domain
	refreshed      []int   // by domain: the lookup that last computed its bound
	// The `tournament` is a tree of winners. tournament[1] is the domain with the lowest bound. Of the domains
	// tournament[2*i] and tournament[2*i+1], the one with the lower bound is tournament[i]. Domain i is at index
	// len(bounds)+i.
	tournament []int32
}

const (
	// maxBoundCaches limits the memory of the caches. When the limit is reached, a new cache replaces the least
	// recently used one.
	maxBoundCaches = 32
	// maxChangeLog is the length at which the change log is cleared. A cache that has not read the cleared changes is
	// rebuilt.
	maxChangeLog = 4096
)

// logChange records that a leaf has changed.
func (t *Tree) logChange(l int32) {
	if n := len(t.changeLog); n > t.consumedChanges && t.changeLog[n-1] == l {
		return
	}
	if len(t.changeLog) == maxChangeLog {
		t.droppedChanges += maxChangeLog
		t.changeLog, t.consumedChanges = t.changeLog[:0], 0
	}
	t.changeLog = append(t.changeLog, l)
}

// boundCacheFor returns an up-to-date cache for the job's size and the given depth.
func (s *search) boundCacheFor(depth int) *boundCache {
	t, a := s.tree, s.ask
	var b *boundCache
	for _, have := range s.boundCaches {
		if have.members == s.members && have.devices == a.DevicesPerMember && have.cacheKey == a.CacheKey &&
			have.depth == depth && have.strategy == a.Strategy {
			b = have
			break
		}
	}
	s.cacheUses++
	if b == nil {
		b = s.newBoundCache(depth)
	}
	b.lastUse = s.cacheUses
	if b.appliedChanges < t.droppedChanges {
		s.rebuildBounds(b)
	}
	for _, l := range t.changeLog[b.appliedChanges-t.droppedChanges:] {
		i := int(t.ancestors[l][depth])
		if b.refreshed[i] == s.cacheUses {
			continue // its bound was already refreshed for another leaf
		}
		b.refreshed[i] = s.cacheUses
		if k := s.boundOf(b, i); k != b.bounds[i] {
			b.setBound(i, k)
		}
	}
	t.consumedChanges = len(t.changeLog)
	b.appliedChanges = t.droppedChanges + t.consumedChanges
	return b
}

// newBoundCache returns a new cache, or reuses the least recently used one.
func (s *search) newBoundCache(depth int) *boundCache {
	if len(s.boundCaches) < maxBoundCaches {
		s.boundCaches = append(s.boundCaches, &boundCache{})
	}
	b := slices.MinFunc(s.boundCaches, func(a, b *boundCache) int { return a.lastUse - b.lastUse })
	b.depth, b.members, b.devices, b.cacheKey, b.strategy = depth, s.members, s.ask.DevicesPerMember, s.ask.CacheKey, s.ask.Strategy
	b.appliedChanges = -1
	return b
}

// rebuildBounds computes every bound again.
func (s *search) rebuildBounds(b *boundCache) {
	n := len(s.tree.domains[b.depth])
	b.bounds, b.refreshed = slices.Grow(b.bounds[:0], n)[:n], slices.Grow(b.refreshed[:0], n)[:n]
	b.tournament = slices.Grow(b.tournament[:0], 2*n)[:2*n]
	for i := range n {
		b.bounds[i] = s.boundOf(b, i)
		b.tournament[n+i] = int32(i)
	}
	for i := n - 1; i > 0; i-- {
		b.tournament[i] = b.smaller(b.tournament[2*i], b.tournament[2*i+1])
	}
	b.appliedChanges = s.tree.droppedChanges + len(s.tree.changeLog)
}

// boundOf returns the bound of the i-th domain at the cache's depth.
func (s *search) boundOf(b *boundCache, i int) bound {
	if b.depth == leaf {
		return s.leafBound(i)
	}
	return s.domainBound(b.depth, i)
}

// Of the domains i and k, the method `smaller` returns the one with the lower bound.
func (b *boundCache) smaller(i, k int32) int32 {
	if b.bounds[k].compare(&b.bounds[i]) < 0 {
		return k
	}
	return i
}

// setBound replaces the bound of domain i and updates the tournament.
func (b *boundCache) setBound(i int, k bound) {
	b.bounds[i] = k
	for at := (len(b.bounds) + i) / 2; at > 0; at /= 2 {
		b.tournament[at] = b.smaller(b.tournament[2*at], b.tournament[2*at+1])
	}
}

// The method `smallest` appends the lowest bounds to a list until the list has the given size.
// The contents of the cache do not change.
func (b *boundCache) smallest(list []bound, size int) []bound {
	for len(list) < size {
		top := 0
		if len(b.bounds) > 1 {
			top = int(b.tournament[1])
		}
		if b.bounds[top].infeasible {
			break
		}
		list = append(list, b.bounds[top])
		b.setBound(top, bound{infeasible: true, domain: top})
	}
	for i := range list {
		b.setBound(list[i].domain, list[i])
	}
	return list
}

// nextSmallest returns the lowest bounds among those that are higher than the bound `last`. The argument
// `size` is the maximum number of bounds.
func (b *boundCache) nextSmallest(last *bound, size int, list []bound) []bound {
	for i := range b.bounds {
		list = insertBound(list, &b.bounds[i], last, size)
	}
	return list
}

// markInfeasible records that domain i cannot hold the job, although its bound suggested that it can.
func (b *boundCache) markInfeasible(i int) { b.setBound(i, bound{infeasible: true, domain: i}) }
