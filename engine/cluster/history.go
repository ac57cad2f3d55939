package cluster

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// SetNodeScore takes over how a node has done so far, nil when nothing is known.
func (c *Cluster) SetNodeScore(n *Node, score *ares.NodeScore) {
	n.Score = score
	c.MarkDirty(n)
}

// HistoryScore is how the node has done so far, for the merit of its domain.
func (n *Node) HistoryScore() int {
	if n.Score == nil {
		return topology.DefaultHistory
	}
	return min(max(n.Score.Score, 0), topology.DefaultHistory)
}
