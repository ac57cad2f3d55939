package store

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// BenchmarkFlights measures how fast several callers create jobs in the embedded store, one job per
// call. The benchmark compares two settings of the batcher. With the first setting, any waiting job
// starts another transaction. With the second setting, only a full batch starts another
// transaction. The benchmark prints medians and ratios.
func BenchmarkFlights(b *testing.B) {
	s, err := Open(b.Context(), Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	tenant, err := s.CreateTenant(b.Context(), ares.Tenant{ID: "t", Limits: ares.NoLimits()})
	if err != nil {
		b.Fatal(err)
	}
	made := 0
	lap := func(eager, callers, n int) (rate, cpu float64) {
		s.creates.eager = eager
		made++
		before, start := rounds.CPU(), time.Now()
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for i := c; i < n; i += callers {
					id := ares.NewJobID("t", fmt.Sprintf("%d-%d", made, i))
					job := &ares.Job{Spec: ares.Spec{Tenant: "t", Command: []string{"true"}}.WithDefaults(), ID: id}
					if got := s.Create(b.Context(), []Creation{{Job: job, TenantRevision: tenant.Revision}})[0]; got.Err != nil {
						b.Error(got.Err)
					}
				}
			})
		}
		wg.Wait()
		return float64(n) / time.Since(start).Seconds(), float64(rounds.CPU()-before) / float64(n)
	}
	rows := [][]string{{"callers", "eager/s", "patient/s", "ratio", "CPU µs, eager", "patient"}}
	for _, callers := range []int{1, 4, 16, 64, 256} {
		var rates, cpus [2]rounds.Figures
		for range rounds.Count {
			for k, eager := range []int{maxFlushes, 1} {
				rate, cpu := lap(eager, callers, rounds.Sized(min(500*callers, 3000), callers))
				rates[k], cpus[k] = append(rates[k], rate), append(cpus[k], cpu)
			}
		}
		rows = append(rows, []string{
			strconv.Itoa(callers), rates[0].String(), rates[1].String(), rates[1].Over(rates[0]).Text(1, 2),
			cpus[0].Text(1000, 0), cpus[1].Text(1000, 0),
		})
	}
	if err := rounds.Table(os.Stdout, "Jobs created in the embedded store", rows); err != nil {
		b.Fatal(err)
	}
}
