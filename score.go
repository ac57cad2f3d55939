package ares

import "time"

// FullScore is the score of a node without failures or slow runs.
const FullScore = 1000

// NodeScore describes how reliable a node has been. A NodeScore contains the score and the weighted counts from which
// the score is computed. With these counts, the next leader can continue counting. Each count is a number of ended
// attempts, in thousandths. The contribution of an attempt is halved for each half-life between its end and the time
// At.
type NodeScore struct {
	Node  string
	Score int // 0 to FullScore
	// Samples counts the ended attempts with a seat on the node. Failures counts the attempts that failed because the node was lost or one
	// of its devices failed.
	Samples, Failures int64
	// Own is the count of attempts that failed because of the job itself, not because of the node. Failures of similar
	// jobs (one family) count only once. Such failures do not lower the score.
	Own int64
	// Slowdown says how slow the node is, compared with other nodes of its kind. It compares the actual runtimes on the
	// node with the predicted runtimes. Slowdown is in thousandths, so 1000 is average. Slowdown is computed from Timed
	// and Logs. Timed is the number of measured runs. Logs is the sum of log2(actual runtime / predicted runtime) over
	// these runs.
	Slowdown    int
	Timed, Logs int64
	// Gangs counts the gangs on this node that could be measured. Stragglers counts those gangs that had to wait for
	// this node.
	Stragglers, Gangs int64
	At                time.Time
	// Until is the time at which the latest counted attempt ended.
	Until time.Time
	// Families lists the job families that failed on the node because of the job. The family that
	// failed most recently is last.
	Families []uint64
	Why      string // for people, "" at full score
	Revision int64
}

// Restored reports whether the rank counts as lost because the store was restored from a backup. Such a loss says
// nothing about the reliability of the node.
func (r *RankResult) Restored() bool { return r.Outcome == OutcomeLost && r.Reason == restoredReason }
