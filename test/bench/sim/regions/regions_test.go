package regions

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

var (
	splits = []int{3, 6}
	loads  = rounds.Sized([]float64{0.7, 0.9, 1.1}, []float64{0.9})
	jobs   = rounds.Sized(3000, 150)
)

// variable reads a number from the environment.
func variable(b *testing.B, name string, whole, tiny int) int {
	b.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(rounds.Sized(whole, tiny))))
	if err != nil || n < 1 {
		b.Fatalf("%s must be a number of at least 1: %v", name, err)
	}
	return n
}

// setting is one load and one number of regions.
type setting struct {
	load    float64
	regions int
	results map[string][]*sim.RegionsResult // by way to choose, one for each seed
}

// BenchmarkRegions simulates every way to choose with every load, split and seed, and prints whether the promises hold.
func BenchmarkRegions(b *testing.B) {
	o, err := read(variable(b, "ARES_REGIONS_NODES", 16, 2))
	if err != nil {
		b.Fatal(err)
	}
	seeds := variable(b, "ARES_REGIONS_SEEDS", 10, 1)
	policy, err := sim.PolicyNamed("ares")
	if err != nil {
		b.Fatal(err)
	}
	for range b.N {
		began, before := time.Now(), rounds.CPU()
		all, err := simulate(o, seeds, policy)
		if err != nil {
			b.Fatal(err)
		}
		title := fmt.Sprintf("openb, %d GPUs, %d jobs, %d seeds: mean wait in seconds, and the ratio of the mean waits to one big cluster (95 %% interval)", o.gpus, jobs, seeds)
		if err := report(os.Stdout, title, all); err != nil {
			b.Fatal(err)
		}
		fmt.Printf("took %.0f s, %.0f s of processor time\n", time.Since(began).Seconds(), (rounds.CPU() - before).Seconds())
	}
}

// simulate runs everything on all processors.
func simulate(o *openb, seeds int, policy sim.Policy) ([]*setting, error) {
	type task struct {
		of     *setting
		choose string
		seed   int
	}
	var (
		all    []*setting
		tasks  = make(chan task)
		wait   sync.WaitGroup
		lock   sync.Mutex
		failed error
	)
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for t := range tasks {
				r := sim.Regions{Count: t.of.regions, Seed: uint64(t.seed + 1)}
				got, err := sim.SimulateRegions(o.draw(jobs, t.of.load, r.Seed), o.fleet, policy, r, t.choose)
				lock.Lock()
				t.of.results[t.choose][t.seed] = got
				if err != nil && failed == nil {
					failed = fmt.Errorf("%d regions, load %.1f, seed %d, %s: %w", t.of.regions, t.of.load, r.Seed, t.choose, err)
				}
				lock.Unlock()
			}
		})
	}
	for _, regions := range splits {
		for _, load := range loads {
			s := &setting{load: load, regions: regions, results: map[string][]*sim.RegionsResult{}}
			all = append(all, s)
			for _, choose := range sim.RegionChoices() {
				s.results[choose] = make([]*sim.RegionsResult, seeds)
			}
			for _, choose := range sim.RegionChoices() {
				for seed := range seeds {
					tasks <- task{s, choose, seed}
				}
			}
		}
	}
	close(tasks)
	wait.Wait()
	return all, failed
}

// waits returns the mean wait of every seed.
func (s *setting) waits(choose string) []float64 {
	out := make([]float64, len(s.results[choose]))
	for i, r := range s.results[choose] {
		out[i] = r.Wait.Mean
	}
	return out
}

// ratio returns the ratio of the mean waits of two ways to choose over all seeds, and half of its 95 % interval. It is no mean of ratios: a
// seed in which almost no job waits would count as much as one in which most do. The interval comes from the pairs of seeds.
func (s *setting) ratio(choose, to string) (ratio, half float64) {
	a, b := s.waits(choose), s.waits(to)
	base := max(mean(b), 0.001)
	ratio = mean(a) / base
	for i := range a {
		a[i] = (a[i] - ratio*b[i]) / base
	}
	_, half = sim.ConfidenceInterval(a)
	return ratio, half
}

func mean(of []float64) (sum float64) {
	for _, v := range of {
		sum += v / float64(len(of))
	}
	return sum
}

// within says whether a ratio is at most a limit: also with its interval, or only by itself.
func within(ratio, half, limit float64) string {
	switch {
	case ratio+half <= limit:
		return "yes"
	case ratio <= limit:
		return "yes, its interval does not"
	}
	return "NO"
}

func report(to io.Writer, title string, all []*setting) error {
	rows := [][]string{{"regions", "load", "choose", "mean wait, s", "÷ one", "p95, s", "GPUs used, %", "compute cost", "egress cost", "moved, GiB", "residency violations"}}
	verdict := [][]string{{"promise", "regions", "load", "holds", "measured"}}
	add := func(s *setting, promise, to string, limit float64) {
		ratio, half := s.ratio(sim.ChooseBoth, to)
		verdict = append(verdict, []string{promise, fmt.Sprint(s.regions), fmt.Sprintf("%.1f", s.load), within(ratio, half, limit), fmt.Sprintf("%.3f ± %.3f", ratio, half)})
	}
	for _, s := range all {
		for _, choose := range sim.RegionChoices() {
			rows = append(rows, s.row(choose))
		}
		add(s, "summary and bid: at most 10 % above one big cluster", sim.ChooseOne, 1.10)
		for _, other := range []string{sim.ChooseRandom, sim.ChooseNearest} {
			add(s, "summary and bid: better than "+other, other, 1)
		}
	}
	if err := rounds.Table(to, title, rows); err != nil {
		return err
	}
	return rounds.Table(to, "What must hold", verdict)
}

// row returns the row of one way to choose.
func (s *setting) row(choose string) []string {
	average := func(of func(r *sim.RegionsResult) float64) float64 {
		sum := 0.0
		for _, r := range s.results[choose] {
			sum += of(r)
		}
		return sum / float64(len(s.results[choose]))
	}
	ratio, half := s.ratio(choose, sim.ChooseOne)
	wait, spread := sim.ConfidenceInterval(s.waits(choose))
	return []string{
		fmt.Sprint(s.regions), fmt.Sprintf("%.1f", s.load), choose, fmt.Sprintf("%.1f ± %.1f", wait, spread), fmt.Sprintf("%.3f ± %.3f", ratio, half),
		fmt.Sprintf("%.0f", average(func(r *sim.RegionsResult) float64 { return r.Wait.P95 })),
		fmt.Sprintf("%.1f", average(func(r *sim.RegionsResult) float64 { return r.Use })),
		fmt.Sprintf("%.0f", average(func(r *sim.RegionsResult) float64 { return r.Compute })),
		fmt.Sprintf("%.1f", average(func(r *sim.RegionsResult) float64 { return r.Egress })),
		fmt.Sprintf("%.0f", average(func(r *sim.RegionsResult) float64 { return r.MovedGB })),
		fmt.Sprintf("%.0f", average(func(r *sim.RegionsResult) float64 { return float64(r.Violations) })),
	}
}

// TestReport checks that the verdict says whether the promises hold.
func TestReport(t *testing.T) {
	t.Parallel()
	s := &setting{load: 0.9, regions: 3, results: map[string][]*sim.RegionsResult{}}
	for choose, wait := range map[string]float64{sim.ChooseOne: 100, sim.ChooseBoth: 105, sim.ChooseSummary: 108, sim.ChooseBid: 120, sim.ChooseRandom: 300, sim.ChooseNearest: 104} {
		for seed := range 3 {
			s.results[choose] = append(s.results[choose], &sim.RegionsResult{Wait: &sim.Distribution{Mean: wait * (1 + float64(seed)/100)}})
		}
	}
	var out strings.Builder
	if err := report(&out, "test", []*setting{s}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"at most 10 % above one big cluster | 3       | 0.9  | yes", "better than random                 | 3       | 0.9  | yes", "better than nearest                | 3       | 0.9  | NO"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
