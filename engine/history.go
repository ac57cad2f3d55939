package engine

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// worstBlame is what a node with the score 0 costs beside one with the full score:
// as much as to strand so many thousandths of a device. It is little: a node that
// did badly is still better than none, and than to break up much.
const worstBlame = 250

// judge takes over how a node has done so far, nil when nothing is known.
func (s *State) judge(n *node, score *ares.NodeScore) {
	n.past = score
	n.blame = int64(topology.DefaultHistory-n.history()) * worstBlame / topology.DefaultHistory * mixWhole << tieBits
	s.touch(n)
}

// history is how the node has done so far, for the merit of its domain.
func (n *node) history() int {
	if n.past == nil {
		return topology.DefaultHistory
	}
	return min(max(n.past.Score, 0), topology.DefaultHistory)
}
