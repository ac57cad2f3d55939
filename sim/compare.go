package sim

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Comparison contains the figures of several policies side by side, each compared with the first
// policy.
type Comparison struct {
	Trace    string   `json:"trace"` // with digests if there are several
	Fleet    string   `json:"fleet"`
	Seeds    []uint64 `json:"seeds"` // of the first policy
	Policies []string `json:"policies"`
	Figures  []Figure `json:"figures"`
}

// Figure is one value of a report, given for every policy.
type Figure struct {
	Name  string       `json:"name"` // as in a report
	Words string       `json:"words"`
	Unit  string       `json:"unit"`
	More  bool         `json:"more_is_better"`
	By    []PolicyMean `json:"by_policy"`
}

// PolicyMean contains the mean of a figure over one policy's runs. Mean is nil if no run has the figure. The field
// Change compares the policy with the first policy. It uses only seeds with which both policies were run. For the
// first policy, Change is nil.
type PolicyMean struct {
	Policy string   `json:"policy"`
	Mean   *float64 `json:"mean"`
	Runs   int      `json:"runs"`
	Change *Change  `json:"difference,omitempty"`
}

// Change is the mean of the differences between paired runs. It has a 95 % confidence interval, computed with
// Student's t. With only one pair of runs there is no confidence interval, and the change is never significant.
type Change struct {
	Pairs       int      `json:"pairs"`
	Mean        float64  `json:"mean"`
	Percent     *float64 `json:"percent"` // percentage of the first policy's mean over the same seeds; nil if that mean is 0 and the difference is not
	Low         *float64 `json:"low"`     // nil with one pair, like High
	High        *float64 `json:"high"`
	Significant bool     `json:"significant"` // the interval excludes 0
	Better      bool     `json:"better"`
}

// figureOf reads a figure from a report. The second result is false if the report does not have
// the figure.
type figureOf func(*Report) (float64, bool)

func always(of func(*Report) float64) figureOf {
	return func(r *Report) (float64, bool) { return of(r), true }
}

func waitFigure(of func(*Distribution) float64) figureOf {
	return func(r *Report) (float64, bool) { return optional(r.Wait, of) }
}

func completionFigure(of func(*Distribution) float64) figureOf {
	return func(r *Report) (float64, bool) { return optional(r.Complete, of) }
}

func delayFigure(of func(*Distribution) float64) figureOf {
	return func(r *Report) (float64, bool) { return optional(r.Delay, of) }
}

// delayFigureOf reads the p99 delay of one group of jobs. Jobs are grouped by their number of GPUs.
func delayFigureOf(gpus string) figureOf {
	return func(r *Report) (float64, bool) {
		g := r.GPUsNamed(gpus)
		if g == nil {
			return 0, false
		}
		return optional(g.Delay, func(s *Distribution) float64 { return s.P99 })
	}
}

func fairnessFigure(of func(*Fairness) float64) figureOf {
	return func(r *Report) (float64, bool) { return optional(r.Fairness, of) }
}

func optional[T any](from *T, of func(*T) float64) (float64, bool) {
	if from == nil {
		return 0, false
	}
	return of(from), true
}

// This table lists the figures of a report that are compared.
var figures = []struct {
	name, words, unit string
	more              bool
	of                figureOf
}{
	{"waiting_seconds.mean", "waiting, mean", "s", false, waitFigure(func(s *Distribution) float64 { return s.Mean })},
	{"waiting_seconds.p50", "waiting, p50", "s", false, waitFigure(func(s *Distribution) float64 { return s.P50 })},
	{"waiting_seconds.p95", "waiting, p95", "s", false, waitFigure(func(s *Distribution) float64 { return s.P95 })},
	{"waiting_seconds.p99", "waiting, p99", "s", false, waitFigure(func(s *Distribution) float64 { return s.P99 })},
	{"completion_seconds.mean", "completion, mean", "s", false, completionFigure(func(s *Distribution) float64 { return s.Mean })},
	{"completion_seconds.p50", "completion, p50", "s", false, completionFigure(func(s *Distribution) float64 { return s.P50 })},
	{"completion_seconds.p95", "completion, p95", "s", false, completionFigure(func(s *Distribution) float64 { return s.P95 })},
	{"completion_seconds.p99", "completion, p99", "s", false, completionFigure(func(s *Distribution) float64 { return s.P99 })},
	{"delay_seconds.mean", "delay, mean", "s", false, delayFigure(func(s *Distribution) float64 { return s.Mean })},
	{"by_gpu_count.1.delay_seconds.p99", "delay, p99, 1 GPU", "s", false, delayFigureOf("1")},
	{"by_gpu_count.2-4.delay_seconds.p99", "delay, p99, 2 to 4", "s", false, delayFigureOf("2-4")},
	{"by_gpu_count.5-8.delay_seconds.p99", "delay, p99, 5 to 8", "s", false, delayFigureOf("5-8")},
	{"by_gpu_count.9+.delay_seconds.p99", "delay, p99, 9 and more", "s", false, delayFigureOf("9+")},
	{"placed", "jobs placed", "", true, always(func(r *Report) float64 { return float64(r.Placed) })},
	{"ended", "jobs ended", "", true, always(func(r *Report) float64 { return float64(r.Ended) })},
	{"gpu_use_percent", "GPUs in use", "%", true, always(func(r *Report) float64 { return r.Use })},
	{"stranded_percent", "GPUs stranded", "%", false, always(func(r *Report) float64 { return r.Stranded })},
	{"fairness.jain.mean", "Jain's index", "", true, fairnessFigure(func(f *Fairness) float64 { return f.Jain.Mean })},
	{"fairness.mean_largest_gap_percent", "gap to fair shares", "%", false, fairnessFigure(func(f *Fairness) float64 { return f.GapMean })},
	{"preemptions", "preemptions", "", false, always(func(r *Report) float64 { return float64(r.Preempted) })},
	{"preemptions_most", "preemptions of one job", "", false, always(func(r *Report) float64 { return float64(r.PreemptedMost) })},
	{"lost_gpu_seconds", "GPU-seconds lost", "", false, always(func(r *Report) float64 { return r.Lost })},
	{"deadlines.missed", "deadlines missed", "", false, always(func(r *Report) float64 { return float64(r.Deadline.Missed) })},
}

// Labelled is a report with a label for display.
type Labelled struct {
	Label  string
	Report *Report
}

// Compare compares runs; the policy of the first run is the baseline. Compare rejects interrupted runs, and runs of
// different traces or clusters, because their results may differ for reasons other than the policies. If the parameter
// `anyway` is true, Compare accepts them.
func Compare(runs []Labelled, anyway bool) (*Comparison, error) {
	byLabel := map[string]map[uint64]*Report{}
	var labels []string
	for _, run := range runs {
		src := &run.Report.Source
		if why := whyIncomparable(&runs[0].Report.Source, src); why != "" && !anyway {
			return nil, ares.Errorf(ares.Invalid, "%s and %s cannot be compared: %s", runs[0].Label, run.Label, why)
		}
		if byLabel[run.Label] == nil {
			byLabel[run.Label] = map[uint64]*Report{}
			labels = append(labels, run.Label)
		}
		if byLabel[run.Label][src.Seed] != nil {
			return nil, ares.Errorf(ares.Invalid, "policy %s has two runs with seed %d", run.Label, src.Seed)
		}
		byLabel[run.Label][src.Seed] = run.Report
	}
	if len(labels) < 2 {
		return nil, ares.Errorf(ares.Invalid, "all runs have the same policy, %s: a comparison needs at least two policies", labels[0])
	}
	first := byLabel[labels[0]]
	for _, label := range labels[1:] {
		if pairs(first, byLabel[label]) == 0 {
			return nil, ares.Errorf(ares.Invalid, "%s and %s cannot be compared: they have no common seed (their seeds are %s and %s)",
				labels[0], label, seedText(first), seedText(byLabel[label]))
		}
	}
	c := &Comparison{
		Trace:    sources(runs, func(s *Source) (string, string) { return s.Trace.Name, s.Trace.SHA256 }),
		Fleet:    sources(runs, func(s *Source) (string, string) { return s.Fleet.Name, s.Fleet.SHA256 }),
		Policies: labels, Seeds: slices.Sorted(maps.Keys(first)),
	}
	for _, f := range figures {
		out := Figure{Name: f.name, Words: f.words, Unit: f.unit, More: f.more}
		for i, label := range labels {
			b := PolicyMean{Policy: label}
			b.Mean, b.Runs = average(byLabel[label], f.of)
			if i > 0 {
				b.Change = difference(first, byLabel[label], f.of, f.more)
			}
			out.By = append(out.By, b)
		}
		c.Figures = append(c.Figures, out)
	}
	return c, nil
}

// This function returns how many seeds two policies have in common.
func pairs(a, b map[uint64]*Report) int {
	n := 0
	for seed := range a {
		if b[seed] != nil {
			n++
		}
	}
	return n
}

// seedText formats a policy's first few seeds for a message.
func seedText(runs map[uint64]*Report) string {
	const shown = 3
	seeds := slices.Sorted(maps.Keys(runs))
	words := strings.Trim(fmt.Sprint(seeds[:min(len(seeds), shown)]), "[]")
	if len(seeds) > shown {
		words += " …"
	}
	return strings.ReplaceAll(words, " ", ", ")
}

// This function returns the names of the traces, or of the fleets, that the runs used. If the
// runs used more than one trace or fleet, each name is followed by its digest.
func sources(runs []Labelled, of func(*Source) (name, digest string)) string {
	var names, digests []string
	for _, run := range runs {
		name, digest := of(&run.Report.Source)
		if key := cmp.Or(digest, name); !slices.Contains(digests, key) {
			names, digests = append(names, name), append(digests, key)
		}
	}
	if len(names) == 1 {
		return names[0]
	}
	for i := range names {
		names[i] += fmt.Sprintf(" (%.12s)", digests[i])
	}
	return strings.Join(names, ", ")
}

// Pairs describes the comparison of the first policy with another policy. The parameter `at` is the index of the other
// policy. Pairs returns the number of paired runs, and how many runs each of the two policies has.
func (c *Comparison) Pairs(at int) (pairs, first, other int) {
	i := slices.IndexFunc(c.Figures, func(f Figure) bool { return f.Name == "placed" }) // every run has this figure
	by := c.Figures[i].By
	return by[at].Change.Pairs, by[0].Runs, by[at].Runs
}

// whyIncomparable returns why two runs cannot be compared, or "" if they can.
func whyIncomparable(a, b *Source) string {
	switch {
	case cmp.Or(a.Trace.SHA256, a.Trace.Name) != cmp.Or(b.Trace.SHA256, b.Trace.Name) || a.Trace.Format != b.Trace.Format: // built-in workloads have no digest
		return fmt.Sprintf("their traces differ, %s (%.12s) and %s (%.12s)", a.Trace.Name, a.Trace.SHA256, b.Trace.Name, b.Trace.SHA256)
	case cmp.Or(a.Fleet.SHA256, a.Fleet.Name) != cmp.Or(b.Fleet.SHA256, b.Fleet.Name):
		return fmt.Sprintf("their fleets differ, %s (%.12s) and %s (%.12s)", a.Fleet.Name, a.Fleet.SHA256, b.Fleet.Name, b.Fleet.SHA256)
	case a.Resample != b.Resample:
		return fmt.Sprintf("they are resampled differently, by %s and by %s", a.Resample, b.Resample)
	case a.Until != b.Until:
		return fmt.Sprintf("one ends %s, one %s", untilText(a.Until), untilText(b.Until))
	case a.Halted || b.Halted:
		return "a run was interrupted"
	}
	return ""
}

func untilText(secs float64) string {
	if secs == 0 {
		return "with the last job"
	}
	return fmt.Sprintf("after %v s", secs)
}

// This function returns the mean of a figure over the runs that have the
// figure. The second result is the number of these runs.
func average(runs map[uint64]*Report, of figureOf) (*float64, int) {
	sum, n := 0.0, 0
	for _, seed := range slices.Sorted(maps.Keys(runs)) { // a fixed order makes the sum reproducible
		if v, ok := of(runs[seed]); ok {
			sum += v
			n++
		}
	}
	if n == 0 {
		return nil, 0
	}
	return roundedValue(sum / float64(n)), n
}

// roundedValue returns a pointer to the rounded value.
func roundedValue(v float64) *float64 {
	v = rounded(v)
	return &v
}

// This function compares the runs of two policies, paired by seed. The function returns nil if no pair
// of runs has the figure.
func difference(first, other map[uint64]*Report, of figureOf, more bool) *Change {
	var changes []float64
	base := 0.0
	for _, seed := range slices.Sorted(maps.Keys(first)) {
		if other[seed] == nil {
			continue
		}
		before, known := of(first[seed])
		after, too := of(other[seed])
		if known && too {
			changes = append(changes, after-before)
			base += before
		}
	}
	if len(changes) == 0 {
		return nil
	}
	mean, half := ConfidenceInterval(changes)
	d := &Change{Pairs: len(changes), Mean: rounded(mean), Better: mean > 0 == more && mean != 0}
	if base != 0 {
		d.Percent = roundedValue(100 * mean * float64(len(changes)) / base)
	} else if mean == 0 {
		d.Percent = roundedValue(0)
	}
	if len(changes) > 1 {
		d.Low, d.High = roundedValue(mean-half), roundedValue(mean+half)
		d.Significant = math.Abs(mean) > half
	}
	return d
}
