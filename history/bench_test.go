package history_test

import (
	"database/sql"
	"errors"
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
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// BenchmarkHistory fills SQLite with a year of jobs and runs typical queries. BenchmarkHistory prints how long it took
// to fill the database. It also prints the median and the longest time of each query. ARES_BENCH_JOBS is the number of
// jobs, 5,000,000 by default. ARES_BENCH_DIR is the directory of the database. The database is filled once, and later
// runs reuse it.
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
			ask(b, 50, func(i int) int { // each query reads the next page
				page, more, err := h.Jobs(b.Context(), f)
				if err != nil {
					b.Fatal(err)
				}
				if c.f.Counted() && f.Before == 0 { // only with the first page
					if _, err = h.Count(b.Context(), c.f); err != nil {
						b.Fatal(err)
					}
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
			if _, err := h.Job(b.Context(), benchJob(i, 1000).Job.ID, ""); err != nil {
				b.Fatal(err)
			}
			return 1
		})
	})
}

// BenchmarkPut stores jobs in SQLite and in PostgreSQL as the archiver does, and prints how many
// jobs per second it stored.
func BenchmarkPut(b *testing.B) {
	const together = 200
	parts := rounds.Sized(50, 1)
	for name, open := range map[string]func(testing.TB) historytest.Base{"SQLite": historytest.SQLite, "Postgres": historytest.StartPostgres(b).New} {
		b.Run(name, func(b *testing.B) {
			h, next := open(b).Open(b), 0
			for b.Loop() {
				for range parts {
					part := make([]history.Finished, together)
					for i := range part {
						part[i] = benchJob(next, 1_000_000)
						next++
					}
					if n, err := h.Put(b.Context(), part); err != nil || n != len(part) {
						b.Fatal(n, err)
					}
				}
			}
			b.ReportMetric(float64(next)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// This function runs a query at least the given number of times, and prints the median and the
// longest duration.
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
		return rounds.Sized(5_000_000, 5000)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// This function returns a history with the given number of jobs, spread over one year.
func year(b *testing.B, jobs int) *history.History {
	b.Helper()
	dir := os.Getenv("ARES_BENCH_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	base := historytest.Base{Config: history.Config{File: filepath.Join(dir, fmt.Sprintf("year-%d.db", jobs))}}
	h := base.Open(b)
	if prices, err := h.Prices(b.Context()); err != nil || len(prices) > 0 {
		return h // it was filled by an earlier run
	}
	start := time.Now()
	fill(b, h, base.Config.File, jobs)
	for i, model := range benchModels {
		if err := h.SetPrice(b.Context(), history.Price{Model: model[:4], From: "2026-01-01", PerGPUHour: float64(i + 1), At: historytest.Noon}); err != nil {
			b.Fatal(err)
		}
		if err := h.SetPrice(b.Context(), history.Price{Model: model[:4], Region: "eu", From: "2026-06-01", PerGPUHour: float64(i + 2), At: historytest.Noon}); err != nil {
			b.Fatal(err)
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

// The constant `copies` is the number of times that the stored jobs are copied. Each copy has jobs of a later
// part of the year. Copying a job inside SQLite takes a tenth of the time that is needed to store it.
const copies = 49

// This function stores a part of the jobs in the same way as a server. It then copies these jobs inside the database until the
// whole year is filled. Attempts, placements and transitions are not copied, because none of the queries reads them. The
// database builds its indexes and sums after the copying.
func fill(b *testing.B, h *history.History, file string, jobs int) {
	b.Helper()
	own := jobs / (copies + 1)
	for at := 0; at < own; at += history.MaxPut {
		part := make([]history.Finished, 0, history.MaxPut)
		for i := at; i < min(at+history.MaxPut, own); i++ {
			part = append(part, benchJob(i, jobs))
		}
		if n, err := h.Put(b.Context(), part); err != nil || n != len(part) {
			b.Fatal(n, err)
		}
	}
	b.Logf("put %d jobs", own)
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=cache_size(-262144)&_pragma=synchronous(OFF)")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	exec := func(query string, args ...any) {
		if _, bad := db.ExecContext(b.Context(), query, args...); bad != nil {
			b.Fatalf("%s: %v", query, bad)
		}
	}
	var indexes []string
	rows, err := db.QueryContext(b.Context(), "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND name LIKE 'jobs_by_%'")
	if err != nil {
		b.Fatal(err)
	}
	var drop []string
	for rows.Next() {
		var name, text string
		if err = rows.Scan(&name, &text); err != nil {
			b.Fatal(err)
		}
		drop, indexes = append(drop, name), append(indexes, text)
	}
	if err = errors.Join(rows.Err(), rows.Close()); err != nil {
		b.Fatal(err)
	}
	for _, name := range drop {
		exec("DROP INDEX " + name)
	}
	for k := 1; k <= copies; k++ {
		later := fmt.Sprintf("+%d seconds", int(365*24*3600/(copies+1))*k)
		shift := func(column string) string {
			return "strftime('%Y-%m-%dT%H:%M:%f000Z', " + column + ", '" + later + "')"
		}
		exec("BEGIN")
		exec(`INSERT INTO finished_jobs SELECT seq + ?1, 'job-' || lower(hex(randomblob(12))), accepted_revision + ?2, run_revision + ?2, name, tenant, queue, submitted_by, phase, reason, outcome,
			exit_code, priority, priority_class, members, gpus_per_member, gpu_milli, gpu_model, cpu_cores, memory_mb, image, is_array, array_of, array_index, retry_of,
			`+shift("accepted_at")+", "+shift("started_at")+", "+shift("finished_at")+`, attempts, retries, preemptions, gpu_milliseconds, digest, record, gpu_memory_mb, max_runtime_minutes, gang_scheduling, command, args, environment FROM finished_jobs WHERE seq <= ?3`, own*k, 5*own*k, own)
		exec("INSERT INTO job_usage SELECT job_seq + ?1, date(day, '"+later+"'), model, region, gpu_milliseconds, jobs FROM job_usage WHERE job_seq <= ?2", own*k, own)
		exec("COMMIT")
	}
	exec("DELETE FROM usage_daily")
	exec("DELETE FROM usage_by_tenant")
	exec("DELETE FROM accepted_days")
	exec(`INSERT INTO usage_daily SELECT j.tenant, u.day, j.queue, j.submitted_by, u.model, u.region, k.kind, SUM(u.gpu_milliseconds), SUM(u.jobs)
		FROM job_usage u JOIN finished_jobs j ON j.seq = u.job_seq JOIN kinds k ON k.model = u.model AND k.region = u.region GROUP BY 1, 2, 3, 4, 5, 6`)
	exec("INSERT INTO usage_by_tenant SELECT tenant, day, kind, SUM(gpu_milliseconds), SUM(jobs) FROM usage_daily GROUP BY 1, 2, 3")
	exec("INSERT INTO accepted_days SELECT substr(accepted_at, 1, 10), MIN(accepted_revision), MAX(accepted_revision) FROM finished_jobs GROUP BY 1")
	for _, text := range indexes {
		exec(text)
	}
}

var benchModels = []string{"h100 80GB HBM3", "a100-SXM4-40GB", "l40s PCIe", "v100-SXM2-16GB"}

// benchJob returns the job with number i. The given number of jobs is spread over one year. The jobs belong to 50 tenants. Each tenant
// has 4 queues and 10 users. The jobs use 4 GPU models in 3 regions, and run from some minutes to a day.
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
		Phase: phase, Runs: length, GPUs: []int{1, 1, 1, 1, 1, 2, 2, 4}[r.IntN(8)],
		At:     time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(float64(i) / float64(of) * float64(365*24*time.Hour))),
		Device: benchModels[r.IntN(4)] + "@" + []string{"eu", "us", "asia"}[r.IntN(3)],
	}.Finished()
}

// BenchmarkPutLive writes 250 changed live jobs in one transaction, as the leader does.
func BenchmarkPutLive(b *testing.B) {
	h := historytest.SQLite(b).Open(b)
	jobs := make([]history.LiveJob, 250)
	for i := range jobs {
		f := historytest.Made{ID: fmt.Sprint("live", i), Revision: int64(i + 1), Phase: ares.Running}.Finished()
		jobs[i] = history.LiveJob{Job: f.Job, Run: f.Run}
	}
	for b.Loop() {
		for i := range jobs {
			jobs[i].Run.Revision++
		}
		if err := h.PutLive(b.Context(), jobs, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(jobs)*b.N)/b.Elapsed().Seconds(), "jobs/s")
}
