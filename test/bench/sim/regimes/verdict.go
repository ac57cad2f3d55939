package regimes

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares/sim"
)

// interval is the mean of a ratio over seeds, with its 95 % confidence interval.
type interval struct{ mean, low, high float64 }

// paired returns the geometric mean of the ratios of two figures, seed by seed. Ratios are averaged as logarithms, so
// that 2 and ½ cancel out.
func paired(figures, base []float64) interval {
	logs := make([]float64, len(figures))
	for i := range logs {
		logs[i] = math.Log(figures[i] / base[i])
	}
	mean, half := sim.ConfidenceInterval(logs)
	return interval{math.Exp(mean), math.Exp(mean - half), math.Exp(mean + half)}
}

// above says whether the interval lies above 1.00. A difference of less than a thousandth is no difference.
func (i interval) above() bool { return i.low >= 1.0005 }

// String writes the mean and the interval. With a single seed, there is no interval.
func (i interval) String() string {
	if i.low == i.mean && i.high == i.mean {
		return fmt.Sprintf("%.3f", i.mean)
	}
	return fmt.Sprintf("%.3f (%.3f–%.3f)", i.mean, i.low, i.high)
}

// ratio returns a figure of a column divided by that of the baseline.
func (r *result) ratio(column int, of func(*replayed) float64) interval {
	return paired(r.figure(column, of), r.figure(baseline, of))
}

// slowdownLimit is the highest allowed p99 of the bounded slowdown, relative to FIFO + backfill.
func slowdownLimit(load float64) float64 {
	if load > 1.5 {
		return 2
	}
	return 1.5
}

const (
	classLimit   = 1.5  // the highest allowed ratio of a class
	gainLimit    = 0.25 // the least median gain over the learnable regimes
	preemptLimit = 0.1  // the most preemptions, relative to the Tiresias-style order
)

// plainRows returns the table of the policies that do not preempt.
func plainRows(all []*result) [][]string {
	rows := [][]string{{
		"regime", "load", "learnable", "FIFO + backfill, s", "judged, ratio (95 %)", "bound", "p99 slowdown, ratio", "worst GPU count, ratio", "longest delay, h (ratio)",
	}}
	for _, r := range all {
		mean, _ := sim.ConfidenceInterval(r.figure(baseline, completion))
		class, over := r.worstClass(judged)
		rows = append(rows, []string{
			r.regime.Name, fmt.Sprintf("%.1f", r.regime.Load), map[bool]string{true: "yes", false: "no"}[r.regime.Learnable], fmt.Sprintf("%.0f", mean),
			r.ratio(judged, completion).String(), fmt.Sprintf("%.3f", r.ratio(bound, completion).mean),
			fmt.Sprintf("%.2f", r.ratio(judged, slowdown).mean), fmt.Sprintf("%s: %.2f", class, over),
			fmt.Sprintf("%.0f (%.2f)", slices.Max(r.figure(judged, delay))/3600, r.ratio(judged, delay).mean),
		})
	}
	return rows
}

// preemptRows returns the table of the policies that preempt.
func preemptRows(all []*result) [][]string {
	rows := [][]string{{
		"regime", "judged, ratio (95 %)", "Tiresias-style", "p99 slowdown, ratio", "Tiresias-style", "worst GPU count, ratio", "preemptions (most)", "Tiresias-style",
	}}
	for _, r := range all {
		stops, stopsMost := r.preemptions(preemptible)
		turns, turnsMost := r.preemptions(tiresias)
		class, over := r.worstClass(preemptible)
		rows = append(rows, []string{
			r.regime.Name, r.ratio(preemptible, completion).String(), r.ratio(tiresias, completion).String(),
			fmt.Sprintf("%.2f", r.ratio(preemptible, slowdown).mean), fmt.Sprintf("%.2f", r.ratio(tiresias, slowdown).mean), fmt.Sprintf("%s: %.2f", class, over),
			fmt.Sprintf("%d (%d)", stops, stopsMost), fmt.Sprintf("%d (%d)", turns, turnsMost),
		})
	}
	return rows
}

// verdictRows returns whether each promise about the default policy holds on the given regimes.
func verdictRows(all []*result) [][]string {
	rows := [][]string{{"promise", "holds", "measured"}}
	add := func(promise string, holds bool, form string, args ...any) {
		rows = append(rows, []string{promise, map[bool]string{true: "yes", false: "**no**"}[holds], fmt.Sprintf(form, args...)})
	}
	var worse, slow, unfair, worsePreempt, slowPreempt []string
	var gains, bounds, preempting, turning []float64
	stops, turns, most, turnsMost := 0, 0, 0, 0
	for _, r := range all {
		name, limit := r.regime.Name, slowdownLimit(r.regime.Load)
		if i := r.ratio(judged, completion); i.above() {
			worse = append(worse, name+" "+i.String())
		}
		if i := r.ratio(preemptible, completion); i.above() {
			worsePreempt = append(worsePreempt, name+" "+i.String())
		}
		if i := r.ratio(judged, slowdown); i.mean > limit {
			slow = append(slow, fmt.Sprintf("%s %.2f", name, i.mean))
		}
		if i := r.ratio(preemptible, slowdown); i.mean > limit {
			slowPreempt = append(slowPreempt, fmt.Sprintf("%s %.2f", name, i.mean))
		}
		if class, over := r.worstClass(judged); over > classLimit {
			unfair = append(unfair, fmt.Sprintf("%s, %s GPUs %.2f", name, class, over))
		}
		if r.regime.Learnable {
			gains, bounds = append(gains, 1-r.ratio(judged, completion).mean), append(bounds, 1-r.ratio(bound, completion).mean)
		}
		preempting, turning = append(preempting, r.ratio(preemptible, completion).mean), append(turning, r.ratio(tiresias, completion).mean)
		n, m := r.preemptions(preemptible)
		stops, most = stops+n, max(most, m)
		n, m = r.preemptions(tiresias)
		turns, turnsMost = turns+n, max(turnsMost, m)
	}
	add("mean completion: no interval lies above 1.00", len(worse) == 0, "%s", list(worse))
	add("p99 of the bounded slowdown: at most 1.5 times, 2 times at loads above 1.5", len(slow) == 0, "%s", list(slow))
	add(fmt.Sprintf("worst class by GPU count: at most %.1f times", classLimit), len(unfair) == 0, "%s", list(unfair))
	if len(gains) > 0 {
		add(fmt.Sprintf("median gain over the learnable regimes: at least %.0f %%", 100*gainLimit), median(gains) >= gainLimit,
			"%.1f %% of %d regimes; the bound with true durations: %.1f %%", 100*median(gains), len(gains), 100*median(bounds))
	}
	add("with preemption, median of mean completion: at most that of the Tiresias-style order", median(preempting) <= median(turning), "%.3f and %.3f", median(preempting), median(turning))
	add("with preemption, mean completion: no interval lies above 1.00", len(worsePreempt) == 0, "%s", list(worsePreempt))
	add("with preemption, p99 of the bounded slowdown: at most 1.5 times, 2 times at loads above 1.5", len(slowPreempt) == 0, "%s", list(slowPreempt))
	add("preemptions: at most a tenth of the Tiresias-style order", float64(stops) <= preemptLimit*float64(turns), "%d (most of one job %d) and %d (%d)", stops, most, turns, turnsMost)
	return rows
}

// list writes a number of regimes with their names.
func list(of []string) string {
	if len(of) == 0 {
		return "none above"
	}
	return fmt.Sprintf("%d above: %s", len(of), strings.Join(of, "; "))
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
