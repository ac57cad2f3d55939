package forecast

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// An End describes how an attempt ended on one of its nodes, and what this shows about the node's reliability.
type End struct {
	Node string
	At   time.Time
	// Family identifies similar jobs. If several jobs of the same family fail on a node, only
	// the first of them counts as an attempt.
	Family  uint64
	Outcome NodeOutcome
	// Timed is true if the attempt succeeded, had a predicted runtime, and ran on only one node.
	// Log is the binary logarithm of the actual runtime divided by the predicted runtime, in
	// thousandths.
	Timed bool
	Log   int64
	// The field Gang is true if the gang ran on several comparable nodes. The field Last is
	// true if the gang's other nodes waited for this node.
	Gang, Last bool
}

// NodeOutcome says how an attempt ended on a node.
type NodeOutcome int

// These are the possible values of NodeOutcome.
const (
	OutcomeWell    NodeOutcome = iota // the attempt succeeded
	OutcomeFailed                     // the job failed by itself
	OutcomeFaulted                    // the node ended the attempt
)

// These thresholds define a straggler. The processes on a straggler run much longer than the
// gang's median, or start much later than the processes on other nodes.
const (
	lagShare = 10 // the divisor of the median runtime
	lagLeast = 10 * time.Second
	lateMost = 30 * time.Second
)

// EndsOfAttempt returns one End for each node of an ended attempt. If the attempt was merely
// stopped on a node, this node is left out. The argument `predicted` is the job's predicted
// median runtime, or 0 if there is no prediction. The function `ahead` returns how far a node's
// clock is ahead of the other nodes' clocks.
func EndsOfAttempt(j *ares.Job, a *ares.Attempt, predicted time.Duration, ahead func(node string) time.Duration) []End {
	ask := FeaturesOf(j)
	family := ask.family()
	var out []End
	for i := range a.Seats {
		h := &a.Seats[i]
		how, known := outcomeOn(h)
		if !known {
			continue
		}
		at := slices.IndexFunc(out, func(e End) bool { return e.Node == h.Node })
		if at < 0 {
			out = append(out, End{Node: h.Node, At: a.EndedAt, Family: family})
			at = len(out) - 1
		}
		out[at].Outcome = max(out[at].Outcome, how)
	}
	if a.Outcome != ares.OutcomeSucceeded || a.StartedAt.IsZero() {
		return out
	}
	if took := a.EndedAt.Sub(a.StartedAt); predicted > 0 && took > 0 {
		log := binaryLog(took, predicted)
		for i := range out {
			// All ranks of a gang are as slow as the slowest node. Therefore markStragglers looks for that node.
			out[i].Timed, out[i].Log = len(out) == 1, log
		}
	}
	markStragglers(out, a, ahead)
	return out
}

// The method `family` returns the key of the narrowest group of a job.
func (a *Features) family() uint64 {
	keys := a.keys()
	for _, k := range keys[:3] { // by command or name
		if k != 0 {
			return k
		}
	}
	return keys[tenantLevel]
}

// outcomeOn returns the outcome of a rank on its node. It returns false if the outcome says nothing about the
// node.
func outcomeOn(h *ares.SeatStatus) (NodeOutcome, bool) {
	if h.Result == nil {
		return OutcomeWell, false
	}
	switch h.Result.Outcome {
	case ares.OutcomeSucceeded, ares.OutcomeTimeout:
		return OutcomeWell, true
	case ares.OutcomeFailed, ares.OutcomeSignaled, ares.OutcomeSpawnError: // a missing command is also the fault of the job
		return OutcomeFailed, true
	case ares.OutcomeLost:
		return OutcomeFaulted, !h.Result.Restored()
	case ares.OutcomeStopped:
	}
	return OutcomeWell, false
}

// nodePace holds the runtime and the start time of a gang's processes on one node.
type nodePace struct {
	end   *End
	took  time.Duration
	began time.Time
}

// markStragglers marks the nodes for which the other nodes of a gang waited. Runtimes are measured by the clock of each
// node. Start times are corrected by the known clock differences.
func markStragglers(ends []End, a *ares.Attempt, ahead func(string) time.Duration) {
	if len(ends) < 3 {
		return // with two nodes it is unknown which one is normal
	}
	paces := make([]nodePace, len(ends))
	for i := range ends {
		paces[i].end = &ends[i]
		for k := range a.Seats {
			h := &a.Seats[k]
			if h.Node != ends[i].Node {
				continue
			}
			r := h.Result
			if r == nil || r.StartedAt.IsZero() || r.EndedAt.Before(r.StartedAt) {
				return
			}
			paces[i].took = max(paces[i].took, r.EndedAt.Sub(r.StartedAt))
			if began := r.StartedAt.Add(-ahead(h.Node)); began.After(paces[i].began) {
				paces[i].began = began
			}
		}
	}
	middle := (len(paces) - 1) / 2
	slices.SortFunc(paces, func(a, b nodePace) int { return cmp.Compare(a.took, b.took) })
	usual := paces[middle].took
	slices.SortFunc(paces, func(a, b nodePace) int { return a.began.Compare(b.began) })
	begin := paces[middle].began
	for _, p := range paces {
		p.end.Gang = true
		p.end.Last = p.took > usual+max(usual/lagShare, lagLeast) || p.began.After(begin.Add(lateMost))
	}
}
