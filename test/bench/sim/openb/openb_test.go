package openb

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

var (
	variants = []string{"default", "cpu100", "gpushare40", "gpuspec10", "multigpu20"}
	seeds    = []int{42, 43, 44, 45, 46}
	others   = []int{47, 48, 49, 50, 51} // no results were published for these seeds
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

// The type `policy` holds a policy's name in Ares and the name that the authors
// give it.
type policy struct{ name, published string }

// This method replays the arrivals of one seed under the policy. The method
// returns the result, the number of arrivals, and the time that the replay
// took.
func (p policy) replay(o *Openb, seed int) (r Result, arrivals int, lap rounds.Lap, err error) {
	chosen, err := sim.PolicyNamed(p.name)
	if err != nil {
		return r, 0, lap, err
	}
	d, err := o.Draw(seed)
	if err != nil {
		return r, 0, lap, err
	}
	r, err = o.Replay(chosen, d, &lap)
	return r, len(d.Rows), lap, err
}

// BenchmarkOpenb replays every variant of the trace in the authors' orders of
// arrival. For both loads, the benchmark prints the mean over the seeds next to
// the published figure. It also prints the decisions per second. With ARES_BENCH_DETAILS,
// the benchmark prints every seed. The rate counts decisions per second of
// processor time, on a single thread. The rate includes the simulator's own
// work between decisions.
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
			rows = append(rows, p.rows(b, o, seeds, published[variant][p.published])...)
		}
		table(b, variant, seeds, rows)
	}
}

// BenchmarkOpenbOtherSeeds replays every variant of the trace with seeds that
// are used for reporting only. Never tune any parameter on these seeds.
func BenchmarkOpenbOtherSeeds(b *testing.B) {
	for _, variant := range variants {
		o, err := Read(variant)
		if err != nil {
			b.Fatal(err)
		}
		rows := [][]string{{"policy", "at 100 %", "", "", "at 130 %", "", "", "decisions/s"}}
		for _, name := range []string{"ares", "bestfit", "fgd"} {
			rows = append(rows, policy{name: name}.rows(b, o, others, nil)...)
		}
		table(b, variant, others, rows)
	}
}

func table(b *testing.B, variant string, seeds []int, rows [][]string) {
	b.Helper()
	title := fmt.Sprintf("openb %s: GPUs allocated, mean of seeds %d–%d", variant, seeds[0], seeds[len(seeds)-1])
	if err := rounds.Table(os.Stdout, title, rows); err != nil {
		b.Fatal(err)
	}
}

// This method replays a policy with every seed and returns the policy's rows of
// the table.
func (p policy) rows(b *testing.B, o *Openb, seeds []int, published map[int]Result) (rows [][]string) {
	b.Helper()
	var got, want Result
	var speed rounds.Figures
	for _, seed := range seeds {
		r, arrivals, lap, err := p.replay(o, seed)
		if err != nil {
			b.Fatal(err)
		}
		speed.Rate(arrivals, lap.Thread)
		for i := range r {
			got[i] += r[i] / float64(len(seeds))
			want[i] += published[seed][i] / float64(len(seeds))
		}
		if rounds.Details() {
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

// BenchmarkWhole measures the whole replay of the trace's default variant,
// including the time to read its files.
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
			if _, decisions, _, err = policies[0].replay(o, seeds[0]); err != nil {
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
