package historytest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
)

// This function formats usage rows as text, one row per line.
func answer(used []history.Used) string {
	var lines []string
	for _, u := range used {
		at := strings.Trim(strings.Join([]string{u.Period, u.Tenant, u.Queue, u.User, u.Model, u.Region}, " "), " ")
		lines = append(lines, fmt.Sprintf("%s: %d jobs %.2f h cost %.2f unpriced %.2f h",
			strings.Join(strings.Fields(at), " "), u.Jobs, u.GPUHours(), u.Cost, float64(u.Unpriced)/3_600_000))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// This function fills a history with jobs of two tenants over three days.
func used(t *testing.T, h *history.History) {
	t.Helper()
	put(t, h, 4,
		// The job runs for a day from 12:01 on the 2nd, so its usage is split over two days.
		Made{ID: "u1", Revision: 1, Tenant: "t1", Queue: "q1", User: "ann", Runs: 24 * time.Hour, GPUs: 2}.Finished(),
		Made{ID: "u2", Revision: 2, Tenant: "t1", Queue: "q2", User: "bob", Runs: time.Hour, Device: "a100@us"}.Finished(),
		Made{ID: "u3", Revision: 3, Tenant: "t2", Queue: "q1", User: "ann", Runs: 2 * time.Hour, At: Noon.AddDate(0, 1, 0)}.Finished(),
		// this job never ran
		Made{ID: "u4", Revision: 4, Tenant: "t2", Queue: "q1", User: "ann", Phase: ares.Cancelled, Edit: func(_ *ares.Job, r *ares.Run) { r.Attempts = nil }}.Finished())
}

func useIsSummedUp(t *testing.T, b Base) {
	h := b.Open(t)
	if got, err := h.Usage(t.Context(), history.UsageQuery{By: []history.Dimension{history.ByTenant}}); err != nil || len(got) != 0 {
		t.Fatalf("before the first job: %v, %v", got, err)
	}
	used(t, h)
	for _, c := range []struct {
		what  string
		query history.UsageQuery
		want  string
	}{
		{"all", history.UsageQuery{}, ": 4 jobs 51.00 h cost 0.00 unpriced 51.00 h"},
		{"by tenant", history.UsageQuery{By: []history.Dimension{history.ByTenant}}, "t1: 2 jobs 49.00 h cost 0.00 unpriced 49.00 h\nt2: 2 jobs 2.00 h cost 0.00 unpriced 2.00 h"},
		{"by day", history.UsageQuery{Period: history.ByDay, Tenant: "t1"}, "2030-01-02: 1 jobs 24.97 h cost 0.00 unpriced 24.97 h\n2030-01-03: 1 jobs 24.03 h cost 0.00 unpriced 24.03 h"},
		{"by month and tenant", history.UsageQuery{Period: history.ByMonth, By: []history.Dimension{history.ByTenant}}, "2030-01 t1: 2 jobs 49.00 h cost 0.00 unpriced 49.00 h\n2030-01 t2: 1 jobs 0.00 h cost 0.00 unpriced 0.00 h\n2030-02 t2: 1 jobs 2.00 h cost 0.00 unpriced 2.00 h"},
		{"by user and queue", history.UsageQuery{By: []history.Dimension{history.ByUser, history.ByQueue}}, "q1 ann: 3 jobs 50.00 h cost 0.00 unpriced 50.00 h\nq2 bob: 1 jobs 1.00 h cost 0.00 unpriced 1.00 h"},
		{"by model and region", history.UsageQuery{By: []history.Dimension{history.ByModel, history.ByRegion}}, ": 1 jobs 0.00 h cost 0.00 unpriced 0.00 h\na100 us: 1 jobs 1.00 h cost 0.00 unpriced 1.00 h\nh100 eu: 2 jobs 50.00 h cost 0.00 unpriced 50.00 h"},
		{"from", history.UsageQuery{From: "2030-01-03"}, ": 2 jobs 26.03 h cost 0.00 unpriced 26.03 h"},
		{"to", history.UsageQuery{To: "2030-01-02"}, ": 2 jobs 24.97 h cost 0.00 unpriced 24.97 h"},
		{"a user", history.UsageQuery{User: "bob"}, ": 1 jobs 1.00 h cost 0.00 unpriced 1.00 h"},
		{"a queue", history.UsageQuery{Queue: "q2"}, ": 1 jobs 1.00 h cost 0.00 unpriced 1.00 h"},
		{"a model", history.UsageQuery{Model: "A1"}, ": 1 jobs 1.00 h cost 0.00 unpriced 1.00 h"},
		{"nobody's", history.UsageQuery{Tenant: "t3"}, ""},
		{"within a tenant", history.UsageQuery{Within: []history.Scope{{Tenant: "t1"}}}, ": 2 jobs 49.00 h cost 0.00 unpriced 49.00 h"},
		{"within a queue", history.UsageQuery{Within: []history.Scope{{Tenant: "t1", Queue: "q2"}}}, ": 1 jobs 1.00 h cost 0.00 unpriced 1.00 h"},
		{"within many queues", history.UsageQuery{Within: manyScopes("q2")}, ": 1 jobs 1.00 h cost 0.00 unpriced 1.00 h"},
		{"within many tenants", history.UsageQuery{Within: manyScopes("")}, ": 2 jobs 49.00 h cost 0.00 unpriced 49.00 h"},
		{"within nothing", history.UsageQuery{Within: []history.Scope{}}, ""},
	} {
		got, err := h.Usage(t.Context(), c.query)
		if err != nil || answer(got) != c.want {
			t.Errorf("%s:\n%s\nwant\n%s (%v)", c.what, answer(got), c.want, err)
		}
	}
	b.Recount(t)
}

func pricesCountFromTheirDay(t *testing.T, b Base) {
	h := b.Open(t)
	used(t, h)
	for _, p := range []history.Price{
		{Model: "", Region: "", From: "2030-01-01", PerGPUHour: 1},
		{Model: "H100", Region: "", From: "2030-01-01", PerGPUHour: 2},
		{Model: "h100", Region: "eu", From: "2030-01-03", PerGPUHour: 4},
		{Model: "h100", Region: "us", From: "2030-01-01", PerGPUHour: 99},
		{Model: "h100", Region: "", From: "2030-02-01", PerGPUHour: 8}, // the price for the region still applies
		{Model: "a100", Region: "us", From: "2031-01-01", PerGPUHour: 99},
	} {
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		p.By, p.At = "token:admin", Noon
		for range 2 { // repeating a call changes nothing
			if err := h.SetPrice(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	q := history.UsageQuery{By: []history.Dimension{history.ByTenant}, Period: history.ByDay}
	got, err := h.Usage(t.Context(), q)
	// The cost is the sum of four parts: 2 GPUs for 11:59 h at price 2, 2 GPUs for 12:01 h at price 4, one GPU for 1 h
	// at price 1, and one GPU for 2 h at price 4.
	want := "2030-01-02 t1: 1 jobs 24.97 h cost 48.93 unpriced 0.00 h\n2030-01-02 t2: 1 jobs 0.00 h cost 0.00 unpriced 0.00 h\n" +
		"2030-01-03 t1: 1 jobs 24.03 h cost 96.13 unpriced 0.00 h\n2030-02-02 t2: 1 jobs 2.00 h cost 8.00 unpriced 0.00 h"
	if err != nil || answer(got) != want {
		t.Errorf("got\n%s\nwant\n%s (%v)", answer(got), want, err)
	}
	prices, err := h.Prices(t.Context())
	if err != nil || len(prices) != 6 {
		t.Fatalf("%v, %v", prices, err)
	}
	total, byJob := 0.0, 0.0
	for _, u := range got {
		total += u.Cost
	}
	page, _, err := h.Jobs(t.Context(), history.Filter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range page {
		cost, unpriced := prices.Cost(j.Parts)
		if byJob += cost; unpriced != 0 {
			t.Errorf("%s has no price for %d ms", j.Job.Name, unpriced)
		}
	}
	var byView float64
	if err = b.Raw.QueryRowContext(t.Context(), "SELECT SUM(cost) FROM usage_costs").Scan(&byView); err != nil {
		t.Fatal(err)
	}
	if math.Abs(total-byJob) > 1e-6 || math.Abs(total-byView) > 1e-6 {
		t.Errorf("the cost is %v by day, %v by job and %v by the view", total, byJob, byView)
	}
	if err = h.DeletePrice(t.Context(), "h100", "eu", "2030-01-03"); err != nil {
		t.Fatal(err)
	}
	if err = h.DeletePrice(t.Context(), "h100", "eu", "2030-01-03"); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("a price that is gone: %v", err)
	}
	if got, err = h.Usage(t.Context(), history.UsageQuery{Tenant: "t2"}); err != nil || answer(got) != ": 2 jobs 2.00 h cost 16.00 unpriced 0.00 h" {
		t.Errorf("after a price went: %s, %v", answer(got), err)
	}
}

func pricesAreChecked(t *testing.T, _ Base) {
	for _, p := range []history.Price{
		{From: "yesterday"},
		{From: "2030-13-01"},
		{From: "2030-01-01", PerGPUHour: -1},
		{From: "2030-01-01", PerGPUHour: math.NaN()},
		{From: "2030-01-01", PerGPUHour: math.Inf(1)},
		{From: "2030-01-01", Model: "a\x00"},
		{From: "2030-01-01", Region: strings.Repeat("x", 10_000)},
	} {
		if err := p.Check(); ares.CodeOf(err) != ares.Invalid {
			t.Errorf("%v is answered %v", p, err)
		}
	}
	for _, q := range []history.UsageQuery{{From: "x"}, {To: "2030-1-1"}, {By: []history.Dimension{"job"}}, {Period: "week"}} {
		if err := q.Check(); ares.CodeOf(err) != ares.Invalid {
			t.Errorf("%v is answered %v", q, err)
		}
	}
}

func oldJobsGoTheirUseStays(t *testing.T, b Base) {
	h := b.Open(t)
	var jobs []history.Finished
	for i := range 700 {
		jobs = append(jobs, Made{ID: fmt.Sprintf("old-%d", i), Revision: int64(i + 1), At: Noon.Add(time.Duration(i) * time.Hour)}.Finished())
	}
	put(t, h, 700, jobs...)
	before, err := h.Usage(t.Context(), history.UsageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	cut := Noon.Add(601 * time.Hour)
	if n, bad := h.Prune(t.Context(), cut); bad != nil || n != 600 {
		t.Fatalf("%d were removed, %v; want 600", n, bad)
	}
	if n := b.count(t, "SELECT COUNT(*) FROM finished_jobs"); n != 100 {
		t.Errorf("%d jobs are left, want 100", n)
	}
	for _, table := range []string{"attempts", "placements", "job_usage"} {
		if n := b.count(t, "SELECT COUNT(DISTINCT job_seq) FROM "+table); n != 100 {
			t.Errorf("rows of %d jobs are left of %s, want 100", n, table)
		}
	}
	put(t, h, 0, jobs...) // none is counted twice
	after, err := h.Usage(t.Context(), history.UsageQuery{})
	if err != nil || !slices.Equal(before, after) {
		t.Errorf("the use was %v and is %v, %v", before, after, err)
	}
	if n, bad := h.Prune(t.Context(), cut.Add(-time.Hour)); bad != nil || n != 0 {
		t.Errorf("nothing is older: %d, %v", n, bad)
	}
	put(t, h, 0, jobs[0])
}

func tenantsAreShown(t *testing.T, b Base) {
	h := b.Open(t)
	limited := &ares.Tenant{ID: "t1", Name: "One", Limits: ares.NoLimits(), Weight: 1.5, GPUHours: 100}
	limited.Limits.GPUs = 8
	for range 2 {
		err := h.PutTenants(t.Context(), []history.TenantUse{
			{Tenant: limited, Use: ares.Use{GPUs: 3, GPUMilli: 500, Jobs: 2}, Waiting: 4},
			{Tenant: &ares.Tenant{ID: "t2", Limits: ares.NoLimits(), Weight: 1}},
		}, Noon)
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := b.count(t, "SELECT COUNT(*) FROM tenants"); n != 2 {
		t.Errorf("%d tenants, want 2", n)
	}
	if n := b.count(t, "SELECT COUNT(*) FROM tenants WHERE max_gpus = 8 AND max_cpu_cores IS NULL AND gpus_in_use = 3.5 AND jobs_waiting = 4 AND gpu_hours_per_month = 100"); n != 1 {
		t.Error("the tenant is shown otherwise")
	}
}
