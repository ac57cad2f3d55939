package topology

import (
	"math"

	ares "github.com/ares-scheduler/ares"
)

// Choose returns the best nodes for a job, ordered by index, and the score of this placement. Choose returns false if
// the job does not fit anywhere. The returned assignments are valid until the next call of Choose. The score contains
// the level and the domain of the placement. It also contains the weighted parts from which the score is computed. If
// all members are on one node, the score does not contain the name of this node.
func (t *Tree) Choose(a *Request, nodes NodeEvaluator) (picks []Assignment, merit ares.PlacementScore, ok bool) {
	s := &t.search
	s.reset(t, a, nodes)
	if len(t.free) == 0 || a.Members < 1 {
		return nil, ares.PlacementScore{}, false
	}
	if !s.placeMembers(a.Members) && !s.placeFewer() {
		return nil, ares.PlacementScore{}, false
	}
	return s.bestPicks, s.bestScore, true
}

// ChosenCost returns the cost of the placement that the last successful call of Choose returned.
func (t *Tree) ChosenCost() PlacementCost { return t.search.best }

// A `search` is the state of one search, including scratch memory that later searches reuse.
type search struct {
	tree  *Tree
	ask   *Request
	nodes NodeEvaluator

	members           int // members to place in this round
	maxMembersPerLeaf int // members that one leaf may take
	requiredDepth     int // depth at which one domain must hold all members; above leaf, one node must
	firstLeaf         int // the search is limited to [firstLeaf, endLeaf)
	endLeaf           int

	found     bool
	best      PlacementCost
	bestScore ares.PlacementScore
	bestPicks []Assignment // valid if found

	// The field `round` counts the calls of placeMembers. Candidates that were computed in earlier rounds are stale.
	round         int
	candidates    []leafCandidates
	trial         []Assignment
	leafBounds    []bound
	domainBounds  boundHeap
	boundCaches   []*boundCache
	cacheUses     int   // number of lookups, which dates the use of each boundCache
	capacityTally []int // leaves by capacity, scratch memory of minLeavesBound
	capacities    []int // scratch memory of capacityOnNodes
	knapsack      knapsack
	leafSets      leafSetSearch
}

// The method `reset` prepares the search for a request.
func (s *search) reset(t *Tree, a *Request, nodes NodeEvaluator) {
	s.tree, s.ask, s.nodes = t, a, nodes
	s.maxMembersPerLeaf = math.MaxInt32
	if a.DevicesPerMember > 0 {
		s.maxMembersPerLeaf = t.maxGPUsPerLeaf / a.DevicesPerMember
	}
	if s.candidates == nil {
		s.candidates = make([]leafCandidates, len(t.domains[leaf]))
	}
}

// placeFewer is used if the requested number of members does not fit. It places as many members as fit. If a
// number of members fits, every smaller number fits too. Therefore placeFewer uses binary search.
func (s *search) placeFewer() bool {
	low, high := s.ask.minMembers()-1, s.ask.Members // low fits or is too few; high does not fit
	for high-low > 1 {
		if mid := (low + high) / 2; s.placeMembers(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low >= s.ask.minMembers() && (s.members == low || s.placeMembers(low))
}

// placeMembers finds the best nodes for the given number of members. It searches the preferred domain and the
// preferred level first, because any placement found there is better than all others.
func (s *search) placeMembers(members int) bool {
	t, a := s.tree, s.ask
	s.members = members
	s.round++
	s.found = false
	s.leafSets.stepsLeft, s.leafSets.tiedSets = maxSteps, 0
	required, _ := depthOf(a.RequiredLevel)
	preferred, _ := depthOf(a.PreferredLevel)
	if a.PreferredDomain != "" {
		if preferred > required && s.searchPreferredDomain(preferred) || s.searchPreferredDomain(required) {
			return true
		}
	}
	if preferred > required {
		if s.searchDomain(&t.domains[root][0], preferred); s.found {
			return true
		}
	}
	s.searchDomain(&t.domains[root][0], required)
	return s.found
}

// searchPreferredDomain searches all domains with the preferred name. Several domains can have the preferred name,
// because labels may use the same name more than once.
func (s *search) searchPreferredDomain(required int) bool {
	for _, d := range s.tree.byName[s.ask.PreferredDomain] {
		s.searchDomain(d, required)
	}
	return s.found
}

// searchDomain searches one domain for the best placement. Inside the searched domain, a single domain at the
// required depth must contain all members.
func (s *search) searchDomain(d *domain, required int) {
	s.firstLeaf, s.endLeaf, s.requiredDepth = d.firstLeaf, d.endLeaf, required
	if s.ask.Strategy == Distributed {
		s.searchDistributed()
		return
	}
	s.searchLeaves()
	for depth := spine; depth >= required; depth-- {
		if s.found && !s.ask.LatencySensitive && s.best.Height < leaf-depth {
			return
		}
		s.searchDomainsAt(depth)
	}
}

// searchDistributed searches for a placement on as many leaves as possible. The
// widest domain has the most leaves. A narrower domain is better only if it also has enough leaves.
func (s *search) searchDistributed() {
	for depth := s.requiredDepth; depth < leaf; depth++ {
		s.searchDomainsAt(depth)
	}
	if !s.found || s.best.SharedNodes > 0 || s.best.SharedLeaves == s.members-1 {
		s.searchLeaves()
	}
}

// keepIfBetter stores the given assignments if they are the best so far. The assignments must be sorted by node.
func (s *search) keepIfBetter(picks []Assignment) {
	v, merit, ok := s.tree.Evaluate(s.ask, s.nodes, picks)
	if !ok || s.found && v.Compare(&s.best) >= 0 {
		return
	}
	s.found, s.best, s.bestScore = true, v, merit
	s.bestPicks = append(s.bestPicks[:0], picks...)
}
