package forecast

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// End is what the end of an attempt says about one of its nodes.
type End struct {
	Node string
	At   time.Time
	// Family identifies similar jobs: the same failure again says nothing new
	// about a node.
	Family  uint64
	Outcome NodeOutcome
	// Timed says that it ran to its end. Log is the ratio of its runtime to the
	// prediction, as a binary logarithm in thousandths.
	Timed bool
	Log   int64
	// Gang says that the node was one of several comparable nodes. Last says that
	// the others waited for it.
	Gang, Last bool
}

// NodeOutcome is how an attempt ended on a node.
type NodeOutcome int

// The outcomes.
const (
	OutcomeWell    NodeOutcome = iota // it ended well
	OutcomeFailed                     // it failed, perhaps by its own fault
	OutcomeFaulted                    // the node ended it
)

// A node is a straggler if it took this much longer than the median node, or if
// its processes started this much later.
const (
	lagShare = 10 // one part of this many
	lagLeast = 10 * time.Second
	lateMost = 30 * time.Second
)

// EndsOfAttempt returns what an ended attempt says about its nodes; nodes where
// it was only stopped are left out. predicted is the predicted p50 of the job,
// 0 for none, and ahead returns how far the clock of a node is ahead of the
// others.
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
			// In a gang all ranks are as slow as the slowest node: markStragglers finds it.
			out[i].Timed, out[i].Log = len(out) == 1, log
		}
	}
	markStragglers(out, a, ahead)
	return out
}

// family returns the key of the narrowest group of a job.
func (a *Features) family() uint64 {
	keys := a.keys()
	for _, k := range keys[:3] { // by command or name
		if k != 0 {
			return k
		}
	}
	return keys[tenantLevel]
}

// outcomeOn returns the outcome of a rank on its node; false if it says nothing
// about the node.
func outcomeOn(h *ares.Held) (NodeOutcome, bool) {
	if h.Result == nil {
		return OutcomeWell, false
	}
	switch h.Result.Outcome {
	case ares.OutcomeSucceeded, ares.OutcomeTimeout:
		return OutcomeWell, true
	case ares.OutcomeFailed, ares.OutcomeSignaled, ares.OutcomeSpawnError: // a missing command is the fault of the job too
		return OutcomeFailed, true
	case ares.OutcomeLost:
		return OutcomeFaulted, !h.Result.Restored()
	case ares.OutcomeStopped:
	}
	return OutcomeWell, false
}

// nodePace is the runtime and start of a node in a gang.
type nodePace struct {
	end   *End
	took  time.Duration
	began time.Time
}

// markStragglers marks the nodes that the others of a gang waited for. Runtimes
// are by the clock of each node; start times are corrected by the known
// differences of clocks.
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
