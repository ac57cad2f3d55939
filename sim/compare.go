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

// Comparison is the figures of several policies side by side, each compared
// with the first.
type Comparison struct {
	Trace    string   `json:"trace"` // with digests if there are several
	Fleet    string   `json:"fleet"`
	Seeds    []uint64 `json:"seeds"` // of the first policy
	Policies []string `json:"policies"`
	Figures  []Figure `json:"figures"`
}

// Figure is one figure of a report under every policy.
type Figure struct {
	Name  string       `json:"name"` // as in a report
	Words string       `json:"words"`
	Unit  string       `json:"unit"`
	More  bool         `json:"more_is_better"`
	By    []PolicyMean `json:"by_policy"`
}

// PolicyMean is the mean of a figure over the runs of a policy that have it,
// nil for none. Policies after the first also have the difference over the
// seeds that both were run with.
type PolicyMean struct {
	Policy string   `json:"policy"`
	Mean   *float64 `json:"mean"`
	Runs   int      `json:"runs"`
	Change *Change  `json:"difference,omitempty"`
}

// Change is the mean of the differences between paired runs, with its 95 %
// confidence interval by Student's t. One pair has no interval, and is never
// significant.
type Change struct {
	Pairs       int      `json:"pairs"`
	Mean        float64  `json:"mean"`
	Percent     *float64 `json:"percent"` // of the first policy's mean over the same seeds, nil if that is 0 and the difference is not
	Low         *float64 `json:"low"`     // nil with one pair, like High
	High        *float64 `json:"high"`
	Significant bool     `json:"significant"` // the interval excludes 0
	Better      bool     `json:"better"`
}

// figureOf reads a figure from a report, false if the report does not have it.
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

// delayFigureOf reads the p99 delay of a group of jobs by GPU count.
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

// figures are the figures that are compared.
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

// Labelled is a report with the label to show it under.
type Labelled struct {
	Label  string
	Report *Report
}

// Compare compares runs; the policy of the first run is the baseline. It
// rejects runs of different traces or fleets and interrupted runs, unless
// anyway is set, because they say nothing about policies.
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
			return nil, ares.Errorf(ares.Invalid, "%s has two runs with seed %d", run.Label, src.Seed)
		}
		byLabel[run.Label][src.Seed] = run.Report
	}
	if len(labels) < 2 {
		return nil, ares.Errorf(ares.Invalid, "there is only one policy, %s: nothing to compare", labels[0])
	}
	first := byLabel[labels[0]]
	for _, label := range labels[1:] {
		if pairs(first, byLabel[label]) == 0 {
			return nil, ares.Errorf(ares.Invalid, "%s and %s cannot be compared: they have no seed in common (%s and %s)",
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

// pairs returns how many seeds two policies have in common.
func pairs(a, b map[uint64]*Report) int {
	n := 0
	for seed := range a {
		if b[seed] != nil {
			n++
		}
	}
	return n
}

// seedText lists the first seeds of a policy.
func seedText(runs map[uint64]*Report) string {
	const shown = 3
	seeds := slices.Sorted(maps.Keys(runs))
	words := strings.Trim(fmt.Sprint(seeds[:min(len(seeds), shown)]), "[]")
	if len(seeds) > shown {
		words += " …"
	}
	return strings.ReplaceAll(words, " ", ", ")
}

// sources names the traces or fleets of runs: by name alone if there is only
// one.
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

// Pairs returns over how many pairs of runs the policy at a position is
// compared with the first, and how many runs each of them has.
func (c *Comparison) Pairs(at int) (pairs, first, other int) {
	i := slices.IndexFunc(c.Figures, func(f Figure) bool { return f.Name == "placed" }) // every run has it
	by := c.Figures[i].By
	return by[at].Change.Pairs, by[0].Runs, by[at].Runs
}

// whyIncomparable says why two runs cannot be compared, "" if they can.
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

// average returns the mean over the runs that have a figure, and the number of
// these runs.
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

// difference compares the runs of two policies, paired by seed, nil if no pair
// has the figure.
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
	mean, half := confidenceInterval(changes)
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
