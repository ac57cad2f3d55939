package cluster

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// SetNodeScore sets the history record of a node. A nil record means that nothing is known about the node's history.
func (c *Cluster) SetNodeScore(n *Node, score *ares.NodeScore) {
	n.Score = score
	c.MarkDirty(n)
}

// HistoryScore returns the node's history score, which contributes to the score of its domain.
func (n *Node) HistoryScore() int {
	if n.Score == nil {
		return topology.DefaultHistory
	}
	return min(max(n.Score.Score, 0), topology.DefaultHistory)
}
