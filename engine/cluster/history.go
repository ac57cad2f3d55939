package cluster

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// SetNodeScore sets the history record of a node, nil when nothing is known.
func (c *Cluster) SetNodeScore(n *Node, score *ares.NodeScore) {
	n.Score = score
	c.MarkDirty(n)
}

// HistoryScore returns the history score of the node, by which its domain is scored.
func (n *Node) HistoryScore() int {
	if n.Score == nil {
		return topology.DefaultHistory
	}
	return min(max(n.Score.Score, 0), topology.DefaultHistory)
}
