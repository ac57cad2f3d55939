package placement

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/topology"
)

// The type `crowd` holds, for each node, how many ranks of the jobs that a job should be spread from are near the
// node. A rank that several terms of the job select counts once for each of them.
type crowd struct {
	ranks  []int       // by node position; empty for a job without such terms
	nodes  cluster.Set // scratch of bestNode
	levels []int       // scratch of bestNode: the different numbers of ranks, in ascending order
}

// crowdFor counts the ranks for a job. The result is valid until the next call.
func (pl *Placer) crowdFor(sh *job.Shape) *crowd {
	c := &pl.crowd
	c.ranks = c.ranks[:0]
	if len(sh.SpreadFrom) == 0 {
		return c
	}
	c.ranks = slices.Grow(c.ranks, len(pl.Cluster.Nodes))[:len(pl.Cluster.Nodes)]
	clear(c.ranks)
	for _, near := range sh.SpreadFrom {
		pl.visitNodesNear(sh, near, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				c.ranks[i]++
			}
		})
	}
	return c
}

// maxCrowdLevels limits how many numbers of ranks bestNode tells apart. Nodes with more ranks count as equal.
const maxCrowdLevels = 16

// bestNode returns the best of those nodes that have the fewest ranks nearby, among the allowed nodes at positions p with
// lo <= p < hi. It considers every allowed node, so it returns nil only if the member fits on none of them.
func (c *crowd) bestNode(sc *score.Scorer, r *cluster.Request, allowed *cluster.Set, lo, hi int) *cluster.Node {
	if len(c.ranks) == 0 {
		return sc.BestNode(r, allowed, lo, hi)
	}
	c.levels = c.levels[:0]
	for i := allowed.Next(lo); i >= 0 && i < hi; i = allowed.Next(i + 1) {
		if at, found := slices.BinarySearch(c.levels, c.ranks[i]); !found && at < maxCrowdLevels {
			c.levels = slices.Insert(c.levels[:min(len(c.levels), maxCrowdLevels-1)], at, c.ranks[i])
		}
	}
	for _, most := range c.levels {
		c.nodes.Resize(len(c.ranks))
		for i := allowed.Next(lo); i >= 0 && i < hi; i = allowed.Next(i + 1) {
			c.nodes.Put(i, c.ranks[i] == most)
		}
		if n := sc.BestNode(r, &c.nodes, lo, hi); n != nil {
			return n
		}
	}
	return sc.BestNode(r, allowed, lo, hi)
}

// chooseSpread chooses the nodes of a gang. If some of the chosen nodes have ranks nearby that the gang should be spread
// from, chooseSpread searches once more among the other nodes. It uses the result if it keeps the rules of the gang and its
// network as well as the first one does.
func (pl *Placer) chooseSpread(sh *job.Shape, ask *topology.Request, view *gangView) ([]topology.Assignment, ares.PlacementScore, bool) {
	picks, merit, ok := pl.chooseNodes(sh, ask, view)
	c := view.crowd
	if !ok || len(c.ranks) == 0 || !slices.ContainsFunc(picks, func(p topology.Assignment) bool { return c.ranks[p.Node] > 0 }) {
		return picks, merit, ok
	}
	first, cost, fits := slices.Clone(picks), pl.gangCost, view.fits
	allowed, key := view.allowed, ask.CacheKey
	c.nodes.Resize(len(c.ranks))
	for i := allowed.Next(0); i >= 0; i = allowed.Next(i + 1) {
		c.nodes.Put(i, c.ranks[i] == 0)
	}
	view.allowed, view.fits, ask.CacheKey = &c.nodes, view.request, 0 // cached bounds are valid for all allowed nodes only
	spread, spreadMerit, found := pl.chooseNodes(sh, ask, view)
	view.allowed, ask.CacheKey = allowed, key
	if found && pl.gangCost.ObeysRulesAs(&cost) {
		return spread, spreadMerit, true
	}
	view.fits = fits
	return first, merit, true
}

// penalty returns the cost of the ranks near a node, for a member of a gang.
func (c *crowd) penalty(at int) int {
	if len(c.ranks) == 0 {
		return 0
	}
	return min(c.ranks[at], maxCrowdLevels) * score.WarmCost
}
