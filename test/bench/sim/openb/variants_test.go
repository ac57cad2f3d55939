package openb

import (
	"fmt"
	"os"
	"testing"

	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// BenchmarkOpenbDrawn replays variants that are drawn by seed from the default list: many pods that name models, and
// many pods with several GPUs. Both policies get the same pods in the same order. So the benchmark prints the mean of
// the differences with its 95 % confidence interval. The scoring function was tuned on the seeds 100 to 109. The seeds
// 200 to 219 are used for reporting only: never tune any parameter on them.
func BenchmarkOpenbDrawn(b *testing.B) {
	for _, variant := range []string{"gpuspec33", "multigpu40"} {
		for _, seeds := range [][2]int{{100, 110}, {200, 220}} {
			rows := [][]string{{"", "at 100 %", "at 130 %", "decisions/s"}}
			byPolicy := map[string][]Result{}
			for _, name := range []string{"ares", "fgd"} {
				var speed rounds.Figures
				for seed := seeds[0]; seed < seeds[1]; seed++ {
					o, err := DrawVariant(variant, seed)
					if err != nil {
						b.Fatal(err)
					}
					r, arrivals, lap, err := policy{name: name}.replay(o, seed)
					if err != nil {
						b.Fatal(err)
					}
					speed.Rate(arrivals, lap.Thread)
					byPolicy[name] = append(byPolicy[name], r)
				}
				rows = append(rows, append(interval(name, byPolicy[name], "%.2f ± %.2f"), speed.String()))
			}
			difference := make([]Result, len(byPolicy["ares"]))
			for i, r := range byPolicy["ares"] {
				for k := range r {
					difference[i][k] = r[k] - byPolicy["fgd"][i][k]
				}
			}
			rows = append(rows, interval("ares − fgd", difference, "%+.2f ± %.2f"))
			title := fmt.Sprintf("openb %s, drawn from default: GPUs allocated, seeds %d–%d", variant, seeds[0], seeds[1]-1)
			if err := rounds.Table(os.Stdout, title, rows); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// This function formats the mean of results at each load, with its 95 % confidence interval.
func interval(name string, results []Result, format string) []string {
	row := []string{name}
	for k := range Loads {
		values := make([]float64, len(results))
		for i := range results {
			values[i] = results[i][k]
		}
		mean, half := sim.ConfidenceInterval(values)
		row = append(row, fmt.Sprintf(format, mean, half))
	}
	return row
}

// TestDrawVariant checks the drawn variants: the percentages must be met, the same seed must give the same list, and
// another seed another one.
func TestDrawVariant(t *testing.T) {
	if os.Getenv("ARES_TRACES") == "" {
		t.Skip("ARES_TRACES is not set")
	}
	for _, variant := range []string{"gpuspec33", "multigpu40"} {
		lists := map[string]int{}
		for _, seed := range []int{1, 2, 1} {
			o, err := DrawVariant(variant, seed)
			if err != nil {
				t.Fatal(err)
			}
			typed, pods, many, all := 0, 0, 0, 0
			text := ""
			for i := range o.Trace.Arrivals {
				a := &o.Trace.Arrivals[i]
				k := kindOf(a)
				if text += a.Spec.Name + a.Spec.GPUModel; !k.needsGPU() {
					continue
				}
				pods++
				if a.Spec.GPUModel != "" {
					typed++
				}
				all += 1000*k.gpus + k.milli
				if k.gpus > 1 {
					many += 1000 * k.gpus
				}
			}
			lists[text]++
			switch got := 100 * typed / pods; {
			case variant == "gpuspec33" && (got < 31 || got > 35):
				t.Errorf("%s, seed %d: %d %% of the GPU pods name models", variant, seed, got)
			case variant == "multigpu40" && (typed != 0 || 100*many/all != 40):
				t.Errorf("%s, seed %d: %d pods name models, pods with several GPUs request %d of %d", variant, seed, typed, many, all)
			}
		}
		if variant == "gpuspec33" && len(lists) != 2 {
			t.Errorf("%s: seeds 1, 2 and 1 gave %d lists", variant, len(lists))
		}
	}
	if _, err := DrawVariant("multigpu99", 1); err == nil {
		t.Error("an unknown variant was drawn")
	}
}
