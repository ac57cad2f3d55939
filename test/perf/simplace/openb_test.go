package simplace

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/test/perf/rounds"
)

var (
	variants = []string{"default", "cpu100", "gpushare40", "gpuspec10", "multigpu20"}
	seeds    = []int{42, 43, 44, 45, 46}
	policies = []policy{
		{"ares", ""},
		{"random", "Random"},
		{"dotprod", "DotProd"},
		{"clustering", "GpuClustering"},
		{"packing", "GpuPacking"},
		{"bestfit", "BestFit"},
		{"fgd", "FGD"},
	}
)

// policy is a policy by name, and what the authors call it.
type policy struct{ name, published string }

// replay lets the arrivals of a seed happen under the policy, and says how many
// they were.
func (p policy) replay(o *Openb, seed int) (r Result, arrivals int, err error) {
	order, err := o.Order(seed)
	if err != nil {
		return r, 0, err
	}
	chosen, err := sim.PolicyNamed(p.name)
	if err != nil {
		return r, 0, err
	}
	r, err = o.Replay(chosen, seed, order)
	return r, len(order), err
}

// BenchmarkOpenb replays every variant in the authors' orders: the mean of the
// seeds at both loads, beside what was published, and how fast each decides.
// With -v, every seed. Decisions a second are by the processor time of the one
// thread, with the making of the world and all that it does between them.
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
		var lap rounds.Lap
		var r Result
		var arrivals int
		var err error
		lap.Time(func() { r, arrivals, err = p.replay(o, seed) })
		if err != nil {
			b.Fatal(err)
		}
		speed.Rate(arrivals, lap.Thread)
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
			if _, decisions, err = policies[0].replay(o, seeds[0]); err != nil {
				b.Fatal(err)
			}
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
