package ares

import "time"

// FullScore is the score of a node of which nothing speaks against.
const FullScore = 1000

// NodeScore is how a node has done so far: its score, and the sums that it was
// reckoned from, so that whoever leads next goes on from there. A sum counts what
// ended, halved for every half-life since, in thousandths as of At.
type NodeScore struct {
	Node  string
	Score int // 0 to FullScore
	// Samples are the attempts with a seat there that ended, and Failures those
	// that the node ended: it was lost, or a device failed.
	Samples, Failures int64
	// Own are attempts that failed by themselves. Jobs of one family count once,
	// and they speak against the node only when it has more of them than others.
	Own int64
	// Slowdown is how long runs took there, against what was predicted of them and
	// as compared with other nodes of its kind: 1000 is as long as elsewhere. It
	// rests on Timed runs, whose binary logarithms add up to Logs.
	Slowdown    int
	Timed, Logs int64
	// Stragglers are the gangs that waited for this node, of Gangs.
	Stragglers, Gangs int64
	At                time.Time
	// Until is the end of the latest attempt that is counted.
	Until time.Time
	// Families are the jobs that failed there by themselves, the latest last.
	Families []uint64
	Why      string // for people, "" when nothing speaks against it
	Revision int64
}

// Restored says that the rank counts as lost because the store was restored from
// a backup, which says nothing of its node.
func (r *RankResult) Restored() bool { return r.Outcome == OutcomeLost && r.Reason == restoredReason }
