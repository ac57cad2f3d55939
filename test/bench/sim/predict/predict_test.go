package predict

import (
	"fmt"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/forecast"
	"github.com/ares-scheduler/ares/test/bench/sim/predict/previous"
)

// A `candidate` is one predictor in the comparison.
type candidate struct {
	name string
	make func() predictor
}

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
		fmt.Printf("\nRuntimes predicted at submission; wanted: p90 covers 88–92 %%, median error below the last two's and the limit's\n")
		fmt.Printf("%-26s %-26s %6s  %10s  %12s  %12s  %8s  %8s\n", "history", "predictor", "runs", "p90 covers", "median error", "of runtime", "predict", "observe")
		judge(b, "philly, 60–80 % (tuned)", h, 0.6, 0.8)
		judge(b, "philly, last 20 %", h, 0.8, 1)
		for _, seed := range []uint64{1, 2, 3, 11, 12, 13, 14, 15} {
			source := fmt.Sprintf("generated, seed %d", seed)
			if seed <= 3 {
				source += " (tuned)"
			}
			judge(b, source, generated(seed, 20000), 0.8, 1)
		}
	}
}

// `judge` prints a table that compares the predictors on one history. It also
// reports every expectation that the results do not meet.
func judge(b *testing.B, source string, h []past, from, to float64) {
	b.Helper()
	var first result
	for i, r := range candidates() {
		by := r.make()
		got := measure(replay(h, by, from, to))
		covers, cost := "", "                  "
		if o, ok := by.(*ours); ok {
			covers = fmt.Sprintf("%.1f %%", 100*got.covered)
			cost = fmt.Sprintf("%6.1fµs  %6.1fµs", micros(o.predicting, o.calls), micros(o.learning, o.runs))
		}
		fmt.Printf("%-26s %-26s %6d  %10s  %12s  %12.3f  %s\n", source, r.name, got.runs, covers, got.absolute.Round(time.Second), got.relative, cost)
		switch {
		case i == 0:
			first = got
			if got.covered < 0.88 || got.covered > 0.92 {
				b.Errorf("%s: the p90 covers %.1f %%", source, 100*got.covered)
			}
		case first.absolute >= got.absolute || first.relative >= got.relative:
			b.Errorf("%s: %s is nearer", source, r.name)
		}
	}
}

func micros(d time.Duration, n int) float64 { return float64(d.Microseconds()) / float64(n) }
