package engine

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// maxHistoryPenalty is what a node with the score 0 costs beside one with the full score:
// as much as to strand so many thousandths of a device. It is little: a node that
// did badly is still better than none, and than to break up much.
const maxHistoryPenalty = 250

// setNodeScore takes over how a node has done so far, nil when nothing is known.
func (c *Cluster) setNodeScore(n *node, score *ares.NodeScore) {
	n.score = score
	n.historyPenalty = int64(topology.DefaultHistory-n.historyScore()) * maxHistoryPenalty / topology.DefaultHistory * mixTotal << tieBits
	c.markDirty(n)
}

// historyScore is how the node has done so far, for the merit of its domain.
func (n *node) historyScore() int {
	if n.score == nil {
		return topology.DefaultHistory
	}
	return min(max(n.score.Score, 0), topology.DefaultHistory)
}
