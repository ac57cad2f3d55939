package audit

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkRecord measures how fast a thousand concurrent callers can record entries. The benchmark compares two ways of writing:
// one fsync for all entries that arrive at the same time, and one fsync for each entry. The benchmark prints entries per second
// and entries per sync.
func BenchmarkRecord(b *testing.B) {
	for _, callers := range []int{1, 64, 1000} {
		for name, grouped := range map[string]bool{"grouped": true, "each": false} {
			b.Run(name+"/callers="+strconv.Itoa(callers), func(b *testing.B) {
				var syncs atomic.Int64
				l := start(b, b.TempDir(), func(c *Config) { c.Observe = func(int, time.Duration, error) { syncs.Add(1) } })
				var alone sync.Mutex
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ResetTimer()
				var wg sync.WaitGroup
				for range callers {
					wg.Go(func() {
						for n := left.Add(-1); n >= 0; n = left.Add(-1) {
							if !grouped {
								alone.Lock()
							}
							if err := l.Record(b.Context(), testEntry(int(n))); err != nil {
								b.Error(err)
							}
							if !grouped {
								alone.Unlock()
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
				b.ReportMetric(float64(b.N)/float64(syncs.Load()), "entries/fsync")
			})
		}
	}
}

// BenchmarkVerify measures how fast a whole log is verified.
func BenchmarkVerify(b *testing.B) {
	l := start(b, b.TempDir())
	batch := make([]Entry, 1000)
	for i := range batch {
		batch[i] = testEntry(i)
	}
	for range 20 {
		if err := l.Record(b.Context(), batch...); err != nil {
			b.Fatal(err)
		}
	}
	l.stop()
	for b.Loop() {
		good(b, l.Dir())
	}
	b.ReportMetric(20_000*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}
