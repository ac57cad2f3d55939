package perf

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/perf/rounds"
)

// sample is one measurement: operations a second and processor time for each.
type sample struct {
	rate float64
	cpu  time.Duration
}

// measure runs n operations over c goroutines; each call of do is `each` of
// them.
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

// series are the rounds of one side.
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
	cpus := make([]time.Duration, len(s))
	for i := range s {
		cpus[i] = s[i].cpu
	}
	slices.Sort(cpus)
	return fmt.Sprintf("%.0f/s (%.0f–%.0f, %.1f µs CPU)", r[len(r)/2], r[0], r[len(r)-1], float64(cpus[len(cpus)/2])/1000)
}

// ratio is the median of the rounds' ratios: both sides of a round met the
// same load of the machine.
func ratio(a, b series) float64 {
	rs := make([]float64, len(a))
	for i := range a {
		rs[i] = a[i].rate / b[i].rate
	}
	slices.Sort(rs)
	return rs[len(rs)/2]
}

// quantiles are of latencies.
func quantiles(ds []time.Duration) (p50, p99 time.Duration) {
	if len(ds) == 0 {
		return 0, 0
	}
	slices.Sort(ds)
	return ds[len(ds)/2], ds[len(ds)*99/100]
}

// table prints rows aligned, under a heading with the machine's load.
func table(b *testing.B, title string, rows [][]string) {
	if err := rounds.Table(os.Stdout, title, rows); err != nil {
		b.Fatal(err)
	}
}
