package predict

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// BenchmarkForecastByRuns prints how wide the predicted intervals are and how many runs they cover, by the number
// of earlier runs of the same job, beside the forecaster that Ares had before.
func BenchmarkForecastByRuns(b *testing.B) {
	h, err := philly()
	if err != nil {
		b.Fatal(err)
	}
	named := sweeps(h)
	for b.Loop() {
		fmt.Printf("%-24s %-9s %-12s %6s %7s %9s %11s %6s %11s %6s\n", "history", "earlier", "predictor", "runs", "covered", "p90/p50", "p90-p50", "shown", "loss", "log")
		row := func(source, earlier string, of func(result) result, list map[string][]outcome) {
			for _, c := range []candidate{former, now} {
				if list[c.name] == nil {
					continue
				}
				r := of(measure(list[c.name]))
				fmt.Printf("%-24s %-9s %-12s %6d %6.1f%% %9.2f %11s %5.0f%% %11s %6.3f\n", source, earlier, c.name, r.runs, 100*r.covered, r.factor,
					r.width.Round(time.Second), 100*r.shown, r.loss.Round(time.Second), r.lossLog)
			}
		}
		who := []candidate{former, now}
		if os.Getenv("ONLY") != "" {
			who = who[1:]
		}
		show := func(source string, hs [][]past, parts ...[2]float64) {
			all := map[string][]outcome{}
			for _, h := range hs {
				for _, c := range who {
					all[c.name] = append(all[c.name], replay(h, c.make(), 0, 1)...)
				}
			}
			same := func(r result) result { return r }
			for _, part := range parts {
				name := fmt.Sprintf("%s %v-%v", source, part[0], part[1])
				for _, n := range []int{-1, 0, 1, 2, 5, 20} {
					list := map[string][]outcome{}
					for _, c := range who {
						for _, o := range all[c.name] {
							if o.part >= part[0] && o.part <= part[1] && (n < 0 || n == o.earlier) {
								list[c.name] = append(list[c.name], o)
							}
						}
					}
					row(name, fmt.Sprint(n), same, list)
				}
			}
		}
		gen := func(seeds ...uint64) (out [][]past) {
			for _, s := range seeds {
				out = append(out, generated(s, 20000))
			}
			return
		}
		nolimit := func(hs [][]past) [][]past {
			for _, h := range hs {
				for i := range h {
					h[i].ask.Limit = 0
				}
			}
			return hs
		}
		if os.Getenv("ONLY") == "" {
			show("philly", [][]past{h}, [2]float64{0, 0.2}, [2]float64{0.8, 1})
		}
		show("sweeps", [][]past{named}, [2]float64{0, 0.6}, [2]float64{0.6, 0.8}, [2]float64{0, 1})
		show("generated 1-2", gen(1, 2), [2]float64{0.2, 1})
		show("nolimit 1-2", nolimit(gen(1, 2)), [2]float64{0.2, 1})
	}
}
