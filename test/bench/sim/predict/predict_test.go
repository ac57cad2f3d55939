package predict

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/forecast"
	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/bench/sim/predict/previous"
)

// A `candidate` is one predictor in the comparison.
type candidate struct {
	name string
	make func() predictor
}

// historyLength is the number of runs of a generated history.
var historyLength = rounds.Sized(20_000, 300)

var (
	now    = candidate{"ares", func() predictor { return &ours{Forecaster: forecast.New(forecast.Config{})} }}
	former = candidate{"ares before", func() predictor { return before{previous.New()} }}
)

func candidates() []candidate {
	two := func(who func(*forecast.Features) string) func() predictor {
		return func() predictor { return &lastTwo{who, map[string][]time.Duration{}} }
	}
	return []candidate{
		now,
		{"last two of the submitter", two(func(a *forecast.Features) string { return a.Tenant + "/" + a.User })},
		{"last two alike", two(func(a *forecast.Features) string { return fmt.Sprint(a.Tenant, "/", a.User, "/", a.Name, "/", a.Milli) })},
		{"the user's limit", func() predictor { return byLimit{} }},
	}
}

// BenchmarkForecast prints how well runtimes are predicted. For runs of the
// Philly trace, the virtual cluster is used as the submitter. Runs of the same
// virtual cluster with the same number of GPUs count as similar.
func BenchmarkForecast(b *testing.B) {
	h, err := philly()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		rows := [][]string{{"history", "predictor", "runs", "p90 covers", "median error", "÷ runtime", "µs to predict", "µs to learn"}}
		rows = append(rows, judge(b, "Philly, 60–80 % (tuned)", h, 0.6, 0.8)...)
		rows = append(rows, judge(b, "Philly, last 20 %", h, 0.8, 1)...)
		for _, seed := range []uint64{1, 2, 3, 11, 12, 13, 14, 15} {
			source := fmt.Sprintf("generated, seed %d", seed)
			if seed <= 3 {
				source += " (tuned)"
			}
			rows = append(rows, judge(b, source, generated(seed, historyLength), 0.8, 1)...)
		}
		if err := rounds.Table(os.Stdout, "Runtimes predicted at submission; wanted: p90 covers 88–92 %, and the median error is the smallest", rows); err != nil {
			b.Fatal(err)
		}
	}
}

// `judge` compares the predictors on one history and returns the rows of the table. It also reports every expectation
// that the results do not meet.
func judge(b *testing.B, source string, h []past, from, to float64) (rows [][]string) {
	b.Helper()
	var first result
	for i, r := range candidates() {
		by := r.make()
		got := measure(replay(h, by, from, to))
		row := []string{source, r.name, fmt.Sprint(got.runs), "", got.absolute.Round(time.Second).String(), fmt.Sprintf("%.3f", got.relative), "", ""}
		if o, ok := by.(*ours); ok {
			row[3] = fmt.Sprintf("%.1f %%", 100*got.covered)
			row[6], row[7] = fmt.Sprintf("%.1f", micros(o.predicting, o.calls)), fmt.Sprintf("%.1f", micros(o.learning, o.runs))
		}
		rows = append(rows, row)
		switch {
		case rounds.Tiny(): // too few runs to judge
		case i == 0:
			first = got
			if got.covered < 0.88 || got.covered > 0.92 {
				b.Errorf("%s: the p90 covers %.1f %%", source, 100*got.covered)
			}
		case first.absolute >= got.absolute || first.relative >= got.relative:
			b.Errorf("%s: %s is nearer", source, r.name)
		}
	}
	return rows
}

func micros(d time.Duration, n int) float64 { return float64(d.Microseconds()) / float64(n) }
