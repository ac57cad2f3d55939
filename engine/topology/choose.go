package topology

import (
	"math"

	ares "github.com/ares-scheduler/ares"
)

// Choose finds nodes for a job, in the order of their indexes, and what speaks
// for them. False means that nothing in the fleet holds it. The picks are valid
// until the next choice. Of the merit it fills in the level, the domain (but
// not the name of a single node) and the weighted parts.
func (t *Tree) Choose(a *Ask, f Fleet) (picks []Pick, merit ares.Merit, ok bool) {
	s := &t.search
	s.begin(t, a, f)
	if len(t.free) == 0 || a.Members < 1 {
		return nil, ares.Merit{}, false
	}
	if !s.place(a.Members) && !s.shrink() {
		return nil, ares.Merit{}, false
	}
	return s.picks, s.merit, true
}

// search is one choice in the making, with memory that the next one uses again.
type search struct {
	tree *Tree
	ask  *Ask
	f    Fleet

	members  int // to place
	perLeaf  int // members that a leaf may get
	required int // depth of which one domain holds all; beyond the leaf, one node
	first    int // leaves from here
	end      int // to before here may be used

	found bool
	best  Value
	merit ares.Merit
	picks []Pick // of the best

	round  int // the stocks of this round are true
	stocks []stock
	trial  []Pick
	keys   []key
	ranks  ranking
	boards []*board
	uses   int // of boards
	tally  []int
	rooms  []int
	sack   sack
	sets   sets
}

func (s *search) begin(t *Tree, a *Ask, f Fleet) {
	s.tree, s.ask, s.f = t, a, f
	s.perLeaf = math.MaxInt32
	if a.Devices > 0 {
		s.perLeaf = t.maxGPUs / a.Devices
	}
	if s.stocks == nil {
		s.stocks = make([]stock, len(t.domains[leaf]))
	}
}

// shrink places as many members as fit, fewer than asked for. Where some fit,
// fewer do, so the number is found by halving.
func (s *search) shrink() bool {
	low, high := s.ask.min()-1, s.ask.Members // fits (or is too few), does not
	for high-low > 1 {
		if mid := (low + high) / 2; s.place(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low >= s.ask.min() && (s.members == low || s.place(low))
}

// place finds the best places for so many members. What is preferred comes
// first: whatever is found that way is better than anything else.
func (s *search) place(members int) bool {
	t, a := s.tree, s.ask
	s.members = members
	s.round++
	s.found = false
	s.sets.effort, s.sets.filled = maxEffort, 0
	required, _ := depthOf(a.Required)
	preferred, _ := depthOf(a.Preferred)
	if a.PreferredDomain != "" {
		if preferred > required && s.inPreferred(preferred) || s.inPreferred(required) {
			return true
		}
	}
	if preferred > required {
		if s.within(&t.domains[fleet][0], preferred); s.found {
			return true
		}
	}
	s.within(&t.domains[fleet][0], required)
	return s.found
}

// inPreferred looks for the best place in the preferred domain. There may be
// several of that name, if labels say so.
func (s *search) inPreferred(required int) bool {
	for _, d := range s.tree.byName[s.ask.PreferredDomain] {
		s.within(d, required)
	}
	return s.found
}

// within looks for the best place in a domain, with one domain at the required
// depth that holds all.
func (s *search) within(d *domain, required int) {
	s.first, s.end, s.required = d.first, d.end, required
	if s.ask.Strategy == Distributed {
		s.spread()
		return
	}
	s.leaves()
	for depth := spine; depth >= required; depth-- {
		if s.found && !s.ask.LatencySensitive && s.best.Wide < leaf-depth {
			return
		}
		s.domains(depth)
	}
}

// spread looks for places far apart. The widest domain has room for the most
// leaves; a narrower one is better only if it has as many.
func (s *search) spread() {
	for depth := s.required; depth < leaf; depth++ {
		s.domains(depth)
	}
	if !s.found || s.best.Doubled > 0 || s.best.Crowded == s.members-1 {
		s.leaves()
	}
}

// consider keeps picks, in the order of their nodes, if they are the best so
// far.
func (s *search) consider(picks []Pick) {
	v, merit, ok := s.tree.Value(s.ask, s.f, picks)
	if !ok || s.found && v.Compare(&s.best) >= 0 {
		return
	}
	s.found, s.best, s.merit = true, v, merit
	s.picks = append(s.picks[:0], picks...)
}
