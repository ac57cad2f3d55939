package forecast

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// End is what the end of an attempt says of one of its nodes.
type End struct {
	Node string
	At   time.Time
	// Family names the job and those like it: the same failure again says nothing
	// new of a node.
	Family  uint64
	Outcome NodeOutcome
	// Timed says that it ran to its end, and Log by how much longer than predicted:
	// a binary logarithm in thousandths.
	Timed bool
	Log   int64
	// Gang says that it was one of several nodes that could be compared, and Last
	// that the others waited for it.
	Gang, Last bool
}

// NodeOutcome is how an attempt fared on a node.
type NodeOutcome int

// The fates.
const (
	OutcomeWell    NodeOutcome = iota // it ended well
	OutcomeFailed                     // it failed, and that may be its own doing
	OutcomeFaulted                    // the node ended it
)

// What makes a straggler of a node: it took so much longer than the node in the
// middle, or its processes began so much later.
const (
	lagShare = 10 // one part in so many
	lagLeast = 10 * time.Second
	lateMost = 30 * time.Second
)

// EndsOfAttempt says what an ended attempt tells of its nodes: nothing of those where it
// was merely stopped. Predicted is the p50 that was told of the job, 0 when
// nothing was, and ahead how far a node's clock is ahead of the others.
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
			// Of a gang everybody is as slow as the slowest: who that is, its ranks tell.
			out[i].Timed, out[i].Log = len(out) == 1, log
		}
	}
	markStragglers(out, a, ahead)
	return out
}

// family is the narrowest group that the ask has.
func (a *Features) family() uint64 {
	keys := a.keys()
	for _, k := range keys[:3] { // by command or name
		if k != 0 {
			return k
		}
	}
	return keys[tenantLevel]
}

// outcomeOn says how a rank fared on its node; false when that says nothing.
func outcomeOn(h *ares.Held) (NodeOutcome, bool) {
	if h.Result == nil {
		return OutcomeWell, false
	}
	switch h.Result.Outcome {
	case ares.OutcomeSucceeded, ares.OutcomeTimeout:
		return OutcomeWell, true
	case ares.OutcomeFailed, ares.OutcomeSignaled, ares.OutcomeSpawnError: // a command that is not there is the job's doing too
		return OutcomeFailed, true
	case ares.OutcomeLost:
		return OutcomeFaulted, !h.Result.Restored()
	case ares.OutcomeStopped:
	}
	return OutcomeWell, false
}

// nodePace is how a node did among the nodes of a gang.
type nodePace struct {
	end   *End
	took  time.Duration
	began time.Time
}

// markStragglers finds the nodes that the others of a gang waited for. Lengths are by
// each node's own clock; beginnings are held against each other by how far the
// clocks are known to differ.
func markStragglers(ends []End, a *ares.Attempt, ahead func(string) time.Duration) {
	if len(ends) < 3 {
		return // of two nobody can say which is as it should be
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
