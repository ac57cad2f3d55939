package simplace

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/test/perf/rounds"
)

var (
	variants = []string{"default", "cpu100", "gpushare40", "gpuspec10", "multigpu20"}
	seeds    = []int{42, 43, 44, 45, 46}
	policies = []policy{
		{"Ares", engine.PlaceAres, ""},
		{"Random", engine.PlaceRandom, "Random"},
		{"DotProd", engine.PlaceDotProduct, "DotProd"},
		{"Clustering", engine.PlaceClustering, "GpuClustering"},
		{"Packing", engine.PlacePacking, "GpuPacking"},
		{"BestFit", engine.PlaceBestFit, "BestFit"},
		{"FGD", engine.PlaceFGD, "FGD"},
	}
)

// policy is a way to place, and what the authors call it.
type policy struct {
	name      string
	place     engine.Placement
	published string
}

// in is the policy for a trace and a seed. The authors took the kinds of jobs
// that make up 95 % of the trace as typical.
func (p policy) in(o *Openb, seed int) sim.Policy {
	cfg := engine.Default()
	cfg.Placement, cfg.Seed = p.place, int64(seed)
	if p.place == engine.PlaceFGD {
		cfg.Typical = o.Trace.Typical(95)
	}
	return sim.Policy{Name: p.name, Engine: cfg}
}

// BenchmarkOpenb replays every variant in the authors' orders: the mean of the
// seeds at both loads, beside what was published, and how fast each decides.
// With -v, every seed. Decisions a second are by the processor time of the one
// thread, with all that the world does between them.
func BenchmarkOpenb(b *testing.B) {
	published, err := ReadPublished()
	if err != nil {
		b.Fatal(err)
	}
	for _, variant := range variants {
		o, err := Read(variant)
		if err != nil {
			b.Fatal(err)
		}
		rows := [][]string{{"policy", "at 100 %", "published", "off by", "at 130 %", "published", "off by", "decisions/s"}}
		for _, p := range policies {
			rows = append(rows, p.seeds(b, o, published[variant][p.published])...)
		}
		if err := rounds.Table(os.Stdout, fmt.Sprintf("openb %s: GPUs allocated, mean of seeds %d–%d", variant, seeds[0], seeds[len(seeds)-1]), rows); err != nil {
			b.Fatal(err)
		}
	}
}

// seeds replays a policy with every seed and makes its rows of the table.
func (p policy) seeds(b *testing.B, o *Openb, published map[int]Result) (rows [][]string) {
	var got, want Result
	var speed rounds.Figures
	for _, seed := range seeds {
		order, err := o.Order(seed)
		if err != nil {
			b.Fatal(err)
		}
		var lap rounds.Lap
		var r Result
		lap.Time(func() { r, err = o.Replay(p.in(o, seed), seed, order) })
		if err != nil {
			b.Fatal(err)
		}
		speed.Rate(len(order), lap.Thread)
		for i := range r {
			got[i] += r[i] / float64(len(seeds))
			want[i] += published[seed][i] / float64(len(seeds))
		}
		if testing.Verbose() {
			rows = append(rows, row(fmt.Sprintf("  seed %d", seed), r, published[seed], ""))
		}
	}
	return append(rows, row(p.name, got, want, speed.String()))
}

func row(name string, got, want Result, speed string) []string {
	out := []string{name}
	for i := range got {
		if want[i] == 0 {
			out = append(out, fmt.Sprintf("%.2f", got[i]), "", "")
		} else {
			out = append(out, fmt.Sprintf("%.2f", got[i]), fmt.Sprintf("%.2f", want[i]), fmt.Sprintf("%+.2f", got[i]-want[i]))
		}
	}
	return append(out, speed)
}

// BenchmarkWhole is the whole replay of the default variant, with the reading of
// its files.
func BenchmarkWhole(b *testing.B) {
	var wall, thread rounds.Figures
	decisions := 0
	for range rounds.Count {
		var lap rounds.Lap
		lap.Time(func() {
			o, err := Read("default")
			if err != nil {
				b.Fatal(err)
			}
			order, err := o.Order(seeds[0])
			if err != nil {
				b.Fatal(err)
			}
			if _, err = o.Replay(policies[0].in(o, seeds[0]), seeds[0], order); err != nil {
				b.Fatal(err)
			}
			decisions = len(order)
		})
		wall.Each(1, lap.Wall)
		thread.Each(1, lap.Thread)
	}
	err := rounds.Table(os.Stdout, fmt.Sprintf("openb default, one replay with its files read: %d decisions; median of %d rounds (range)", decisions, rounds.Count), [][]string{
		{"", "s"},
		{"by the clock", wall.Text(float64(time.Second), 2)},
		{"of the thread's processor time", thread.Text(float64(time.Second), 2)},
	})
	if err != nil {
		b.Fatal(err)
	}
}
