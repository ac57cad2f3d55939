package history_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/history/historytest"
)

// BenchmarkHistory fills SQLite with a year of jobs and asks what people ask.
// It prints how long the filling took, and each question's median and worst time.
// ARES_BENCH_JOBS is how many jobs, default 5,000,000; ARES_BENCH_DIR where the
// file is, and stays, so that it is filled once.
func BenchmarkHistory(b *testing.B) {
	h := year(b, benchJobs(b))
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	days := history.UsageQuery{By: []history.Dimension{history.ByTenant}, Period: history.ByDay, From: "2026-01-01", To: "2026-12-31"}
	b.Run("UsageAndCostByTenantAndDayForAYear", func(b *testing.B) {
		ask(b, 5, func(int) int {
			rows, err := h.Usage(b.Context(), days)
			if err != nil || rows[0].Cost == 0 {
				b.Fatal(len(rows), err)
			}
			return len(rows)
		})
	})
	b.Run("UsageOfATenantByUserAndMonth", func(b *testing.B) {
		q := history.UsageQuery{Tenant: "tenant-7", By: []history.Dimension{history.ByUser, history.ByModel}, Period: history.ByMonth}
		ask(b, 5, func(int) int {
			rows, err := h.Usage(b.Context(), q)
			if err != nil {
				b.Fatal(err)
			}
			return len(rows)
		})
	})
	for _, c := range []struct {
		name string
		f    history.Filter
	}{
		{"All", history.Filter{}},
		{"OfATenant", history.Filter{Tenant: "tenant-7"}},
		{"OfATenantsQueueThatFailed", history.Filter{Tenant: "tenant-7", Queue: "queue-2", Phases: []ares.Phase{ares.Failed}}},
		{"OfAUser", history.Filter{User: "oidc:user-7-3"}},
		{"ThatWereLost", history.Filter{Phases: []ares.Phase{ares.Lost}}},
		{"OfADayLongAgo", history.Filter{From: first.AddDate(0, 2, 0), To: first.AddDate(0, 2, 1)}},
		{"OfATenantLongAgo", history.Filter{Tenant: "tenant-7", To: first.AddDate(0, 1, 0)}},
	} {
		b.Run("Page/"+c.name, func(b *testing.B) {
			f := c.f
			f.Limit = 100
			ask(b, 50, func(i int) int { // each time the page behind the last
				page, more, err := h.Jobs(b.Context(), f)
				if err != nil {
					b.Fatal(err)
				}
				if f.Before, f.After = 0, ""; more {
					last := page[len(page)-1].Job
					f.Before, f.After = last.Revision, last.ID
				}
				return len(page)
			})
		})
	}
	b.Run("OneJob", func(b *testing.B) {
		ask(b, 50, func(i int) int {
			if _, err := h.Job(b.Context(), benchJob(i*101, 1000).Job.ID, ""); err != nil {
				b.Fatal(err)
			}
			return 1
		})
	})
}

// ask asks so often at least, and prints the median and the worst time.
func ask(b *testing.B, times int, question func(i int) int) {
	b.Helper()
	var took []time.Duration
	rows := 0
	for b.Loop() {
		for i := range times {
			start := time.Now()
			rows = question(i)
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(rows), "rows")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-worst")
}

func benchJobs(b *testing.B) int {
	b.Helper()
	text := os.Getenv("ARES_BENCH_JOBS")
	if text == "" {
		return 5_000_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// year is a history of so many jobs over a year.
func year(b *testing.B, jobs int) *history.History {
	b.Helper()
	dir := os.Getenv("ARES_BENCH_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	base := historytest.Base{Config: history.Config{File: filepath.Join(dir, fmt.Sprintf("year-%d.db", jobs))}}
	h := base.Open(b)
	if _, err := h.Job(b.Context(), benchJob(jobs-1, jobs).Job.ID, ""); err == nil {
		return h // it was filled before
	}
	for i, model := range benchModels {
		if err := h.SetPrice(b.Context(), history.Price{Model: model[:4], From: "2026-01-01", PerGPUHour: float64(i + 1), At: historytest.Noon}); err != nil {
			b.Fatal(err)
		}
		if err := h.SetPrice(b.Context(), history.Price{Model: model[:4], Region: "eu", From: "2026-06-01", PerGPUHour: float64(i + 2), At: historytest.Noon}); err != nil {
			b.Fatal(err)
		}
	}
	start := time.Now()
	const together = 5000
	for at := 0; at < jobs; at += together {
		part := make([]history.Finished, 0, together)
		for i := at; i < min(at+together, jobs); i++ {
			part = append(part, benchJob(i, jobs))
		}
		if n, err := h.Put(b.Context(), part); err != nil || n != len(part) {
			b.Fatal(n, err)
		}
	}
	took := time.Since(start)
	size := int64(0)
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(base.Config.File + suffix); err == nil {
			size += info.Size()
		}
	}
	b.Logf("filled with %d jobs in %s, %.0f a second; %d MiB, %d bytes a job", jobs, took.Round(time.Second), float64(jobs)/took.Seconds(), size>>20, size/int64(jobs))
	return h
}

var benchModels = []string{"h100 80GB HBM3", "a100-SXM4-40GB", "l40s PCIe", "v100-SXM2-16GB"}

// benchJob is the i-th of so many jobs of a year: of 50 tenants with 4 queues and
// 10 users each, on 4 models in 3 regions, for some minutes to a day.
func benchJob(i, of int) history.Finished {
	r := rand.New(rand.NewPCG(uint64(i), 7))
	tenant := r.IntN(50)
	user := r.IntN(10)
	phase := ares.Succeeded
	switch p := r.IntN(1000); {
	case p < 80:
		phase = ares.Failed
	case p < 120:
		phase = ares.Cancelled
	case p < 121:
		phase = ares.Lost
	}
	length := time.Duration(2+r.IntN(60)) * time.Minute
	if r.IntN(20) == 0 {
		length = time.Duration(1+r.IntN(24)) * time.Hour
	}
	return historytest.Made{
		ID: fmt.Sprintf("req-%d", i), Name: fmt.Sprintf("train-%d", i%1000), Revision: int64(1000 + 5*i),
		Tenant: fmt.Sprintf("tenant-%d", tenant), Queue: fmt.Sprintf("queue-%d", user%4), User: fmt.Sprintf("oidc:user-%d-%d", tenant, user),
		Phase: phase, Runs: length, GPUs: 1 << r.IntN(3),
		At:     time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(float64(i) / float64(of) * float64(365*24*time.Hour))),
		Device: benchModels[r.IntN(4)] + "@" + []string{"eu", "us", "asia"}[r.IntN(3)],
	}.Finished()
}
