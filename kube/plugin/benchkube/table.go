package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// throughputTable prints the medians of every side, and how they compare: the sides take turns, so a ratio is the median of the
// ratios of the rounds.
func throughputTable(s settings, all map[string][]result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Throughput: %d nodes × %d GPUs, %d pods created before the side starts, median of %d\n\n", s.nodes, gpusPerNode, s.pods, s.rounds)
	b.WriteString("| side | bound | 8-GPU pods left | bound/s from start | bound/s from first binding | CPU per bound pod | rate ÷ kube-scheduler | rate ÷ bindings | CPU ÷ kube-scheduler |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	upstream, bare := all["kube-scheduler"], all["bindings"]
	for _, name := range s.sides {
		results := all[name]
		if len(results) == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %.0f | %.2f ms | %s | %s | %s |\n", name,
			medianOf(results, func(r result) float64 { return float64(r.bound) }),
			medianOf(results, func(r result) float64 { return float64(r.wholeNodes) }),
			medianOf(results, rateOf), medianOf(results, func(r result) float64 { return r.fromFirst }), medianOf(results, cpuOf),
			ratio(results, upstream, rateOf), ratio(results, bare, rateOf), ratio(results, upstream, cpuOf))
	}
	return b.String()
}

func rateOf(r result) float64 { return r.fromStart }

// cpuOf is in milliseconds.
func cpuOf(r result) float64 { return float64(r.cpu.Microseconds()) / 1000 / float64(r.bound) }

func latencyTable(s settings, all map[string][]time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Created → bound at %d pods/s, %d nodes\n\n| side | pods | p50 | p90 | p99 | max |\n|---|--:|--:|--:|--:|--:|\n", s.rate, s.nodes)
	for _, name := range latencySides {
		times := all[name]
		slices.Sort(times)
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s |\n", name, len(times), milliseconds(quantile(times, 0.50)),
			milliseconds(quantile(times, 0.90)), milliseconds(quantile(times, 0.99)), milliseconds(quantile(times, 1)))
	}
	return b.String()
}

func recoveryTable(s settings, all []recovery) string {
	var exist, placed, bound []time.Duration
	for _, r := range all {
		exist, placed, bound = append(exist, r.exist), append(placed, r.placed), append(bound, r.bound)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "A node of a gang of %d pods is lost, %d times, ares (node lease %s, toleration %s)\n\n", s.gang, len(all), recoverLease, recoverToleration)
	b.WriteString("| | median | max |\n|---|--:|--:|\n")
	for _, row := range []struct {
		name  string
		times []time.Duration
	}{{"node lost → replacements exist", exist}, {"replacements exist → bound", placed}, {"node lost → bound", bound}} {
		slices.Sort(row.times)
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row.name, milliseconds(quantile(row.times, 0.5)), milliseconds(quantile(row.times, 1)))
	}
	return b.String()
}

// medianOf returns NaN for a side that did not run.
func medianOf(results []result, of func(result) float64) float64 {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = of(r)
	}
	return median(values)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}

// quantile of sorted values: the smallest that at least that part of them does not exceed.
func quantile[T cmp.Ordered](sorted []T, part float64) T {
	if len(sorted) == 0 {
		var none T
		return none
	}
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(part*float64(len(sorted))))-1))]
}

// ratio returns the median and the range of the ratios of two sides in the same rounds.
func ratio(of, to []result, value func(result) float64) string {
	var all []float64
	for i := range min(len(of), len(to)) {
		all = append(all, value(of[i])/value(to[i]))
	}
	if len(all) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", median(all), slices.Min(all), slices.Max(all))
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%d ms", d.Milliseconds())
}
