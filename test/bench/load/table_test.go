package load

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// A `sample` is one measurement: operations per second, and processor time per
// operation.
type sample struct {
	rate float64
	cpu  time.Duration
}

// This function calls the function `do` n times, on c goroutines. The parameter
// `each` is the number of operations in one call of `do`.
func measure(c, n, each int, do func(i int)) sample {
	before, start := rounds.CPU(), time.Now()
	var wg sync.WaitGroup
	for w := range c {
		wg.Go(func() {
			for i := w; i < n; i += c {
				do(i)
			}
		})
	}
	wg.Wait()
	ops := float64(n * each)
	return sample{ops / time.Since(start).Seconds(), time.Duration(float64(rounds.CPU()-before) / ops)}
}

// A `series` holds the samples of one of the two compared programs, one sample per
// round.
type series []sample

func (s series) rates() []float64 {
	out := make([]float64, len(s))
	for i := range s {
		out[i] = s[i].rate
	}
	slices.Sort(out)
	return out
}

func (s series) String() string {
	r := s.rates()
	return fmt.Sprintf("%.0f/s (%.0f–%.0f, %.1f µs CPU)", r[len(r)/2], r[0], r[len(r)-1], s.cpu())
}

// cpu returns the median processor time of an operation, in microseconds.
func (s series) cpu() float64 {
	cpus := make([]time.Duration, len(s))
	for i := range s {
		cpus[i] = s[i].cpu
	}
	slices.Sort(cpus)
	return float64(cpus[len(cpus)/2]) / 1000
}

// For each round, this function divides the result of one program by the result of
// the other. It returns the median of these ratios. In each round, both programs
// ran while the machine had the same load.
func ratio(a, b series) float64 {
	rs := make([]float64, len(a))
	for i := range a {
		rs[i] = a[i].rate / b[i].rate
	}
	slices.Sort(rs)
	return rs[len(rs)/2]
}

// This function returns the median and the p99 of the latencies.
func quantiles(ds []time.Duration) (p50, p99 time.Duration) {
	if len(ds) == 0 {
		return 0, 0
	}
	slices.Sort(ds)
	return ds[len(ds)/2], ds[len(ds)*99/100]
}

// This function prints aligned rows under a heading that includes the machine's
// load.
func table(b *testing.B, title string, rows [][]string) {
	if err := rounds.Table(os.Stdout, title, rows); err != nil {
		b.Fatal(err)
	}
}
