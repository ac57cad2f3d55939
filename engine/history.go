package engine

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// setNodeScore takes over how a node has done so far, nil when nothing is known.
func (c *Cluster) setNodeScore(n *node, score *ares.NodeScore) {
	n.score = score
	c.markDirty(n)
}

// historyScore is how the node has done so far, for the merit of its domain.
func (n *node) historyScore() int {
	if n.score == nil {
		return topology.DefaultHistory
	}
	return min(max(n.score.Score, 0), topology.DefaultHistory)
}
