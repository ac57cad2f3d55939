package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Scores reckons how nodes do, from the ends of attempts. Everything is in whole
// numbers: the same ends give the same scores everywhere. It is for one goroutine
// at a time.
//
// Three things speak against a node: attempts that it ended (it was lost, or a
// device failed), runs that take longer there than predicted, compared with other
// nodes of its kind, and gangs that waited for it. Jobs that fail by themselves
// count when many different ones fail there, and they do not elsewhere.
type Scores struct {
	nodes map[string]*nodeRecord
	kinds map[string]string // of nodes: those of one kind can be compared
}

// nodeRecord is a node with its sums, as of sums.At.
type nodeRecord struct {
	sums ares.NodeScore
}

// Of a sum in thousandths.
const (
	oneSample = 1000
	// prior is how many attempts that ended well every node is thought to have had:
	// so that the first loss does not condemn it.
	prior = 3 * oneSample
	// peers is how many samples the others must have to be compared with.
	peers = 3 * oneSample
	// negligible is what is no longer worth remembering.
	negligible = oneSample / 20
)

// familiesKept is how many kinds of jobs that failed on a node are remembered.
const familiesKept = 8

// slack is how much slower a node may be before it counts, as a binary logarithm
// in thousandths: 7 %.
const slack = 100

// NewScores knows nothing.
func NewScores() *Scores {
	return &Scores{nodes: map[string]*nodeRecord{}, kinds: map[string]string{}}
}

// SetKind says which nodes a node can be compared with: those of the same kind.
func (s *Scores) SetKind(node, kind string) { s.kinds[node] = kind }

// Restore goes on from what was reckoned before.
func (s *Scores) Restore(r ares.NodeScore) {
	r.Families = slices.Clone(r.Families)
	s.nodes[r.Node] = &nodeRecord{r}
}

// Forget drops a node.
func (s *Scores) Forget(node string) {
	delete(s.nodes, node)
	delete(s.kinds, node)
}

// Until is the end of the latest attempt that is counted for a node.
func (s *Scores) Until(node string) time.Time {
	if st := s.nodes[node]; st != nil {
		return st.sums.Until
	}
	return time.Time{}
}

// Observe counts an end.
func (s *Scores) Observe(e *End) {
	st := s.nodes[e.Node]
	if st == nil {
		st = &nodeRecord{ares.NodeScore{Node: e.Node, At: e.At}}
		s.nodes[e.Node] = st
	}
	sums := &st.sums
	if e.At.After(sums.Until) {
		sums.Until = e.At
	}
	if e.Outcome == OutcomeFailed && slices.Contains(sums.Families, e.Family) {
		return // it fails wherever it goes, for all that is known
	}
	weight := int64(oneSample)
	if e.At.After(sums.At) {
		decay(sums, e.At)
	} else {
		weight = decayed(oneSample, decayFactor(sums.At.Sub(e.At)))
	}
	sums.Samples += weight
	switch e.Outcome {
	case OutcomeFaulted:
		sums.Failures += weight
	case OutcomeFailed:
		sums.Own += weight
		if sums.Families = append(sums.Families, e.Family); len(sums.Families) > familiesKept {
			sums.Families = slices.Delete(sums.Families, 0, 1)
		}
	case OutcomeWell:
		sums.Families = slices.DeleteFunc(sums.Families, func(f uint64) bool { return f == e.Family })
	}
	if e.Timed {
		sums.Timed += weight
		sums.Logs += e.Log * weight / oneSample
	}
	if e.Gang {
		sums.Gangs += weight
		if e.Last {
			sums.Stragglers += weight
		}
	}
}

// decay brings sums forward to a time.
func decay(r *ares.NodeScore, now time.Time) {
	f := decayFactor(now.Sub(r.At))
	for _, v := range []*int64{&r.Samples, &r.Failures, &r.Own, &r.Timed, &r.Logs, &r.Stragglers, &r.Gangs} {
		*v = decayed(*v, f)
	}
	if now.After(r.At) {
		r.At = now
	}
}

// Compute scores every node as of now, by name. It changes nothing that is
// remembered, but for nodes of which nothing is left worth remembering.
func (s *Scores) Compute(now time.Time) []ares.NodeScore {
	out := make([]ares.NodeScore, 0, len(s.nodes))
	fleet := map[string]*ares.NodeScore{}
	for id, st := range s.nodes {
		r := st.sums
		r.Families = slices.Clone(r.Families)
		decay(&r, now)
		if r.Samples < negligible {
			delete(s.nodes, id)
			continue
		}
		kind := fleet[s.kinds[id]]
		if kind == nil {
			kind = &ares.NodeScore{}
			fleet[s.kinds[id]] = kind
		}
		add(kind, &r, 1)
		out = append(out, r)
	}
	for i := range out {
		r := &out[i]
		others := *fleet[s.kinds[r.Node]]
		add(&others, r, -1)
		computeScore(r, &others)
	}
	slices.SortFunc(out, func(a, b ares.NodeScore) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// add adds sums, or takes them away.
func add(to, r *ares.NodeScore, sign int64) {
	to.Samples += sign * r.Samples
	to.Failures += sign * r.Failures
	to.Own += sign * r.Own
	to.Timed += sign * r.Timed
	to.Logs += sign * r.Logs
	to.Stragglers += sign * r.Stragglers
	to.Gangs += sign * r.Gangs
}

// computeScore finds the score of a node beside others of its kind, and why it is that.
func computeScore(r, others *ares.NodeScore) {
	var why []string
	blame, own := r.Failures, int64(0)
	if others.Samples >= peers {
		own = max(excess(r.Own, r.Samples, others.Own, others.Samples)-oneSample, 0) // one may be chance
	}
	failing := ares.FullScore * (blame + own) / (r.Samples + prior)
	if blame >= negligible {
		why = append(why, fmt.Sprintf("it ended %s of %s attempts", tenths(blame), tenths(r.Samples)))
	}
	if own > 0 {
		why = append(why, fmt.Sprintf("%s different jobs failed there, where %s would elsewhere", tenths(r.Own), tenths(others.Own*r.Samples/others.Samples)))
	}
	slow := slownessPenalty(r, others)
	if slow > 0 {
		why = append(why, fmt.Sprintf("runs take %d.%02d times as long as elsewhere (%s runs)", r.Slowdown/1000, r.Slowdown%1000/10, tenths(r.Timed)))
	}
	late := r.Stragglers
	if others.Gangs >= peers {
		late = max(excess(r.Stragglers, r.Gangs, others.Stragglers, others.Gangs), 0)
	}
	lagging := ares.FullScore * late / (r.Gangs + prior) / 2
	if lagging > 0 {
		why = append(why, fmt.Sprintf("%s of %s gangs waited for it", tenths(r.Stragglers), tenths(r.Gangs)))
	}
	r.Score = int(max(ares.FullScore-failing-slow-lagging, 0))
	r.Why = strings.Join(why, "; ")
}

// slownessPenalty is what the length of its runs takes from a node's score, and notes
// the slowdown. Twice as long as elsewhere takes nearly half, once it is certain.
func slownessPenalty(r, others *ares.NodeScore) int64 {
	r.Slowdown = 1000
	if r.Timed < negligible || others.Timed < peers {
		return 0
	}
	log := r.Logs*oneSample/r.Timed - others.Logs*oneSample/others.Timed
	r.Slowdown = powerOfTwo(log)
	sure := log * r.Timed / (r.Timed + prior)
	return min(max(sure-slack, 0), ares.FullScore) / 2
}

// excess is by how much more a node has of something than one would expect by
// what others have, chance allowed for: twice the deviation of so rare a thing.
func excess(n, of, others, ofOthers int64) int64 {
	expected := others * of / ofOthers
	return n - expected - 2*int64(root(uint64(max(expected, 0))*oneSample))
}

// tenths writes thousandths with at most one digit after the point.
func tenths(n int64) string {
	n = (n + 50) / 100
	if n%10 == 0 {
		return fmt.Sprint(n / 10)
	}
	return fmt.Sprintf("%d.%d", n/10, n%10)
}
