package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Scores computes scores of nodes from the ends of attempts. Scores uses only integers. So the same ends of
// attempts give the same scores on every machine. Scores is not safe for concurrent use.
//
// Three causes lower the score of a node. The first cause is that attempts ended because the node was lost or
// a device failed. The second cause is that runs take longer than predicted, compared with other nodes of the
// same kind. The third cause is that gangs had to wait for the node. A job that fails by itself says nothing about the
// node, so such failures never lower the score.
type Scores struct {
	nodes map[string]*nodeRecord
	kinds map[string]string // of nodes; only nodes of one kind are compared
}

// nodeRecord holds a node's weighted counts as of the time sums.At.
type nodeRecord struct {
	sums ares.NodeScore
}

// These constants are compared with a node's weighted counts, in thousandths.
const (
	oneSample = 1000
	// The constant `prior` is a number of successful attempts that is assumed for every node.
	// So the first lost attempt does not lower a node's score too much.
	prior = 3 * oneSample
	// A node is compared with the other nodes of its kind only if those other nodes together have
	// at least this many samples.
	peers = 3 * oneSample
	// If a weighted count is below this value, it is dropped.
	negligible = oneSample / 20
)

// familiesKept is the maximum number of job families whose failures are stored for a node. A family
// is a set of similar jobs.
const familiesKept = 8

// The constant `slack` is the largest slowdown that does not lower a node's score. The value is
// about 1000 times the binary logarithm of 1.07, which means that runs take 7 % longer.
const slack = 100

// NewScores returns scores without any history.
func NewScores() *Scores {
	return &Scores{nodes: map[string]*nodeRecord{}, kinds: map[string]string{}}
}

// SetKind sets the kind of a node. Only nodes of the same kind are compared.
func (s *Scores) SetKind(node, kind string) { s.kinds[node] = kind }

// Restore restores a node's score from its stored record.
func (s *Scores) Restore(r ares.NodeScore) {
	r.Families = slices.Clone(r.Families)
	s.nodes[r.Node] = &nodeRecord{r}
}

// Forget removes a node.
func (s *Scores) Forget(node string) {
	delete(s.nodes, node)
	delete(s.kinds, node)
}

// Until returns the end time of the latest attempt that is counted for a node.
func (s *Scores) Until(node string) time.Time {
	if st := s.nodes[node]; st != nil {
		return st.sums.Until
	}
	return time.Time{}
}

// Observe counts the end of an attempt.
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
		return // otherwise many attempts of one broken job would hide the attempts that the node ended
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

// The function `decay` lowers the weighted counts. The longer ago they were last updated, the
// more it lowers them.
func decay(r *ares.NodeScore, now time.Time) {
	f := decayFactor(now.Sub(r.At))
	for _, v := range []*int64{&r.Samples, &r.Failures, &r.Own, &r.Timed, &r.Logs, &r.Stragglers, &r.Gangs} {
		*v = decayed(*v, f)
	}
	if now.After(r.At) {
		r.At = now
	}
}

// Compute returns the current score of every node, sorted by name. Compute changes
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

// This function adds the counts of one node to a sum. If `sign` is -1, it subtracts them.
func add(to, r *ares.NodeScore, sign int64) {
	to.Samples += sign * r.Samples
	to.Failures += sign * r.Failures
	to.Own += sign * r.Own
	to.Timed += sign * r.Timed
	to.Logs += sign * r.Logs
	to.Stragglers += sign * r.Stragglers
	to.Gangs += sign * r.Gangs
}

// computeScore compares a node with other nodes of its kind. It sets the score of the node and the reasons for
// the score.
func computeScore(r, others *ares.NodeScore) {
	var why []string
	failing := ares.FullScore * r.Failures / (r.Samples + prior)
	if r.Failures >= negligible {
		why = append(why, fmt.Sprintf("it ended %s of %s attempts", tenths(r.Failures), tenths(r.Samples)))
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

// slownessPenalty returns the amount by which long runtimes lower a node's score. It also sets the
// slowdown. With enough samples, runs that take twice as long as usual lower the score by nearly
// half.
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

// The function `excess` computes the count that is expected from the other nodes. It adds two
// standard deviations of a Poisson distribution to this count. The result is the amount by which
// the node's own count exceeds that sum.
func excess(n, of, others, ofOthers int64) int64 {
	expected := others * of / ofOthers
	return n - expected - 2*int64(root(uint64(max(expected, 0))*oneSample))
}

// The function `tenths` formats thousandths with at most one decimal.
func tenths(n int64) string {
	n = (n + 50) / 100
	if n%10 == 0 {
		return fmt.Sprint(n / 10)
	}
	return fmt.Sprintf("%d.%d", n/10, n%10)
}
