package predict

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// earlierRuns are the numbers of earlier runs for which the table has rows.
var earlierRuns = []int{0, 1, 2, 5, 20}

// BenchmarkForecastByRuns prints how many runs the p90 covers and how wide the predicted intervals are, beside the
// forecaster that Ares had before: for parts of the Philly trace, and by the number of runs of the same job that had
// ended before.
func BenchmarkForecastByRuns(b *testing.B) {
	h, err := philly()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		rows := &intervals{{"history", "earlier", "runs", "p90 covers", "median p90/p50", "median p90-p50", "shown", "mean loss", "of logarithms"}}
		plain := compare([][]past{h})
		rows.add("Philly, first fifth", "any", plain.between(0, 0.2))
		last := plain.between(0.8, 1)
		if now := rows.add("Philly, last fifth", "any", last)[0]; !rounds.Tiny() && (now.covered < 0.88 || now.covered > 0.92) {
			b.Errorf("the p90 covers %.1f %% of Philly's last fifth", 100*now.covered)
		}
		named := compare([][]past{sweeps(h)})
		rows.add("Philly with sweeps, first fifth", "any", named.between(0, 0.2))
		rows.add("Philly with sweeps, last fifth", "any", named.between(0.8, 1))
		rows.byRuns(b, "Philly with sweeps", named, true)
		rows.byRuns(b, "generated, no limits", compare(generations(false)), false)
		rows.byRuns(b, "generated", compare(generations(true)), false)
		if err := rounds.Table(os.Stdout, "Intervals from p50 to p90, now (and before); wanted: p90 covers 88–92 % of Philly's last fifth, and 1, 2 and 5 earlier runs give a third of the width", *rows); err != nil {
			b.Fatal(err)
		}
	}
}

// `generations` returns the generated histories that were not used for tuning.
func generations(limits bool) (out [][]past) {
	for seed := uint64(11); seed <= 15; seed++ {
		h := generated(seed, historyLength)
		for i := range h {
			if !limits {
				h[i].ask.Limit = 0
			}
		}
		out = append(out, h)
	}
	return out
}

// `pair` holds the predictions of the forecaster now, and of the one before.
type pair [2][]outcome

// `compare` runs histories through both forecasters.
func compare(histories [][]past) (out pair) {
	for _, h := range histories {
		for i, c := range []candidate{now, former} {
			out[i] = append(out[i], replay(h, c.make(), 0, 1)...)
		}
	}
	return out
}

func (p pair) filter(keep func(*outcome) bool) (out pair) {
	for i := range p {
		for k := range p[i] {
			if keep(&p[i][k]) {
				out[i] = append(out[i], p[i][k])
			}
		}
	}
	return out
}

// The method `between` returns the predictions in a part of the history.
func (p pair) between(from, to float64) pair {
	return p.filter(func(o *outcome) bool { return o.part >= from && o.part <= to })
}

// The type `intervals` holds the rows of the table.
type intervals [][]string

// byRuns adds one row for each number of earlier runs.
func (rows *intervals) byRuns(b *testing.B, source string, p pair, narrow bool) {
	b.Helper()
	rows.add(source, "any", p)
	for _, n := range earlierRuns {
		got := rows.add(source, fmt.Sprint(n), p.filter(func(o *outcome) bool { return o.earlier == n }))
		if narrow && !rounds.Tiny() && (n == 1 || n == 2 || n == 5) && (3*got[0].factor > got[1].factor || 3*got[0].width > got[1].width) {
			b.Errorf("%s, %d earlier runs: the width is %.1f and %s, before %.1f and %s", source, n, got[0].factor, got[0].width, got[1].factor, got[1].width)
		}
	}
}

// The method `add` adds a row with the measures of both forecasters, and returns them.
func (rows *intervals) add(source, earlier string, p pair) (out [2]result) {
	out = [2]result{measure(p[0]), measure(p[1])}
	now, was := &out[0], &out[1]
	*rows = append(*rows, []string{
		source, earlier, fmt.Sprint(now.runs),
		fmt.Sprintf("%.1f%% (%.1f%%)", 100*now.covered, 100*was.covered), fmt.Sprintf("%.3g (%.3g)", now.factor, was.factor),
		fmt.Sprintf("%s (%s)", brief(now.width), brief(was.width)), fmt.Sprintf("%.0f%% (%.0f%%)", 100*now.shown, 100*was.shown),
		fmt.Sprintf("%s (%s)", brief(now.loss), brief(was.loss)), fmt.Sprintf("%.3f (%.3f)", now.lossLog, was.lossLog),
	})
	return out
}

// `brief` writes a duration with one unit.
func brief(d time.Duration) string {
	switch {
	case d >= 10*time.Hour:
		return fmt.Sprintf("%.0fh", d.Hours())
	case d >= time.Hour:
		return fmt.Sprintf("%.1fh", d.Hours())
	case d >= time.Minute:
		return fmt.Sprintf("%.0fm", d.Minutes())
	}
	return fmt.Sprintf("%.0fs", d.Seconds())
}
