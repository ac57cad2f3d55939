package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Scores computes scores of nodes from the ends of attempts. It uses integers:
// the same ends give the same scores everywhere. It is for one goroutine at a
// time.
//
// Three things lower the score of a node: attempts that it ended (it was lost,
// or a device failed), runs that take longer than predicted, compared with
// other nodes of its kind, and gangs that waited for it. Failures of jobs count
// when many different jobs fail there and not elsewhere.
type Scores struct {
	nodes map[string]*nodeRecord
	kinds map[string]string // of nodes; only nodes of one kind are compared
}

// nodeRecord is a node with its sums, as of sums.At.
type nodeRecord struct {
	sums ares.NodeScore
}

// Values of sums, in thousandths.
const (
	oneSample = 1000
	// prior is the number of successful attempts that every node starts with, so
	// that the first loss does not ruin its score.
	prior = 3 * oneSample
	// peers is the number of samples that the other nodes need for a comparison.
	peers = 3 * oneSample
	// negligible is a sum that is dropped.
	negligible = oneSample / 20
)

// familiesKept is how many families of failed jobs are remembered per node.
const familiesKept = 8

// slack is how much slower a node may be before it counts, as a binary
// logarithm in thousandths: 7 %.
const slack = 100

// NewScores returns scores without any history.
func NewScores() *Scores {
	return &Scores{nodes: map[string]*nodeRecord{}, kinds: map[string]string{}}
}

// SetKind sets the kind of a node: only nodes of the same kind are compared.
func (s *Scores) SetKind(node, kind string) { s.kinds[node] = kind }

// Restore continues from a stored score.
func (s *Scores) Restore(r ares.NodeScore) {
	r.Families = slices.Clone(r.Families)
	s.nodes[r.Node] = &nodeRecord{r}
}

// Forget removes a node.
func (s *Scores) Forget(node string) {
	delete(s.nodes, node)
	delete(s.kinds, node)
}

// Until returns the end of the latest attempt that is counted for a node.
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
		return // a similar job failed here before: the job may be broken
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

// decay decays sums to a time.
func decay(r *ares.NodeScore, now time.Time) {
	f := decayFactor(now.Sub(r.At))
	for _, v := range []*int64{&r.Samples, &r.Failures, &r.Own, &r.Timed, &r.Logs, &r.Stragglers, &r.Gangs} {
		*v = decayed(*v, f)
	}
	if now.After(r.At) {
		r.At = now
	}
}

// Compute returns the score of every node as of now, sorted by name. It changes
// nothing, except that it removes nodes whose history is negligible.
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

// add adds sums, or subtracts them with sign -1.
func add(to, r *ares.NodeScore, sign int64) {
	to.Samples += sign * r.Samples
	to.Failures += sign * r.Failures
	to.Own += sign * r.Own
	to.Timed += sign * r.Timed
	to.Logs += sign * r.Logs
	to.Stragglers += sign * r.Stragglers
	to.Gangs += sign * r.Gangs
}

// computeScore sets the score of a node compared with others of its kind, and
// its reasons.
func computeScore(r, others *ares.NodeScore) {
	var why []string
	blame, own := r.Failures, int64(0)
	if others.Samples >= peers {
		own = max(excess(r.Own, r.Samples, others.Own, others.Samples)-oneSample, 0) // one may be by chance
	}
	failing := ares.FullScore * (blame + own) / (r.Samples + prior)
	if blame >= negligible {
		why = append(why, fmt.Sprintf("it ended %s of %s attempts", tenths(blame), tenths(r.Samples)))
	}
	if own > 0 {
		why = append(why, fmt.Sprintf("%s different jobs failed there, %s are expected from other nodes", tenths(r.Own), tenths(others.Own*r.Samples/others.Samples)))
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

// slownessPenalty returns how much long runtimes lower a node's score, and sets
// the slowdown. Runs of twice the usual length cost nearly half of the score,
// once there is enough evidence.
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

// excess returns by how much a count of a node exceeds what the other nodes
// suggest, beyond two standard deviations of a rare event.
func excess(n, of, others, ofOthers int64) int64 {
	expected := others * of / ofOthers
	return n - expected - 2*int64(root(uint64(max(expected, 0))*oneSample))
}

// tenths formats thousandths with at most one decimal.
func tenths(n int64) string {
	n = (n + 50) / 100
	if n%10 == 0 {
		return fmt.Sprint(n / 10)
	}
	return fmt.Sprintf("%d.%d", n/10, n%10)
}
