package historytest

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
)

// live returns a job that has not ended.
func live(m Made, phase ares.Phase) history.LiveJob {
	f := m.Finished()
	f.Run.Phase, f.Run.Reason = phase, ""
	f.Run.FinishedAt = time.Time{}
	if phase == ares.Pending {
		f.Run.Attempts, f.Run.Placed = nil, 0
	}
	return history.LiveJob{Job: f.Job, Run: f.Run}
}

// rows returns the rows of a query as text, one line each.
func (b Base) rows(t *testing.T, query string) string {
	t.Helper()
	r, err := b.Raw.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = r.Close() }()
	columns, err := r.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for r.Next() {
		values, at := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			at[i] = &values[i]
		}
		if err = r.Scan(at...); err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, v := range values {
			words = append(words, v.String)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	if err = r.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// The queries of the source document, as written there.
const (
	documentJobs    = "SELECT id, name, state, priority, gpu_count FROM jobs ORDER BY priority DESC;"
	documentTenants = "SELECT id, name, max_gp_us, current_gp_us FROM tenants;"
)

func liveJobsAreShown(t *testing.T, b Base) {
	h := b.Open(t)
	priority := func(p int) func(*ares.Job, *ares.Run) {
		return func(j *ares.Job, _ *ares.Run) { j.Priority = &p }
	}
	put(t, h, 2, Made{ID: "done", Revision: 1, GPUs: 4, Edit: priority(900)}.Finished(),
		Made{ID: "vanished", Revision: 2, Phase: ares.Lost, Edit: priority(100)}.Finished())
	waits := live(Made{ID: "waits", Revision: 3, GPUs: 8, Edit: func(j *ares.Job, r *ares.Run) {
		priority(2000)(j, r)
		j.Environment, j.Args, j.GPUMemoryMB, j.MaxRuntimeMinutes = map[string]string{"TOKEN": "s3cret"}, []string{"--epochs", "100"}, 40000, 1440
	}}, ares.Pending)
	runs := live(Made{ID: "runs", Revision: 4, GPUs: 2, Edit: priority(500)}, ares.Running)
	again := live(Made{ID: "again", Revision: 5, Edit: priority(300)}, ares.Retrying)
	if err := h.PutLive(t.Context(), []history.LiveJob{waits, runs, again}, nil); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s waits pending 2000 8\n%s done completed 900 4\n%s runs running 500 2\n%s again pending 300 1\n%s vanished failed 100 1",
		ID("waits"), ID("done"), ID("runs"), ID("again"), ID("vanished"))
	if got := b.rows(t, documentJobs); got != want {
		t.Errorf("the jobs are\n%s\nwant\n%s", got, want)
	}
	got := b.rows(t, "SELECT tenant_id, gpu_memory_mb, cpu_cores, memory_mb, command, args, image, environment, gang_scheduling, max_runtime_minutes, finished_at FROM jobs WHERE name = 'waits'")
	if want = `team 40000 0 0 ["train"] ["--epochs","100"]  {"TOKEN":"(not kept in history)"} false 1440 `; strings.Replace(got, " 0 1440", " false 1440", 1) != want {
		t.Errorf("the fields of a job are\n%s\nwant\n%s", got, want)
	}
	limited := &ares.Tenant{ID: "t1", Name: "One", Limits: ares.NoLimits(), Weight: 1}
	limited.Limits.GPUs = 16
	if err := h.PutTenants(t.Context(), []history.TenantUse{{Tenant: limited, Use: ares.Use{GPUs: 3}}}, Noon); err != nil {
		t.Fatal(err)
	}
	if got := b.rows(t, documentTenants); got != "t1 One 16 3" {
		t.Errorf("the tenants are %q", got)
	}
	if n, err := h.Count(t.Context(), history.Filter{}); n != 2 || err != nil {
		t.Errorf("history counts %d jobs, %v; want the finished ones only", n, err)
	}
	b.Recount(t)
}

func aLiveJobIsShownOnce(t *testing.T, b Base) {
	h := b.Open(t)
	putLive := func(jobs []history.LiveJob, gone ...ares.JobID) {
		t.Helper()
		if err := h.PutLive(t.Context(), jobs, gone); err != nil {
			t.Fatal(err)
		}
		b.Recount(t)
	}
	state := func(want string) {
		t.Helper()
		if got := b.rows(t, "SELECT accepted_revision, state FROM jobs"); got != want {
			t.Errorf("the jobs are %q, want %q", got, want)
		}
	}
	first := live(Made{ID: "a", Revision: 100}, ares.Pending)
	first.Run.Revision = 101
	second := live(Made{ID: "a", Revision: 100}, ares.Running)
	second.Run.Revision = 102
	putLive([]history.LiveJob{second})
	putLive([]history.LiveJob{first}) // of a server that was the leader before
	state("100 running")
	versions, last, err := h.LiveVersions(t.Context(), "", 10)
	if err != nil || last != ID("a") || versions[last] != (history.LiveVersion{Accepted: 100, Run: 102}) {
		t.Errorf("the versions are %v up to %s, %v", versions, last, err)
	}
	if versions, _, err = h.LiveVersions(t.Context(), last, 10); err != nil || len(versions) != 0 {
		t.Errorf("after the last one there are %v, %v", versions, err)
	}
	put(t, h, 1, Made{ID: "a", Revision: 100}.Finished())
	state("100 completed")
	putLive([]history.LiveJob{second}) // late
	state("100 completed")
	if n := b.count(t, "SELECT COUNT(*) FROM live_jobs"); n != 0 {
		t.Errorf("%d live jobs are left", n)
	}
	putLive([]history.LiveJob{live(Made{ID: "b", Revision: 200}, ares.Pending)})
	putLive([]history.LiveJob{live(Made{ID: "b", Revision: 300}, ares.Running)}) // the ID is in use again
	state("100 completed\n300 running")
	putLive(nil, ID("b"))
	state("100 completed")
}

// anEarlierVersionWritesOn runs the statements of a server of the version before the view. It writes to the names that it knows.
func anEarlierVersionWritesOn(t *testing.T, b Base) {
	h := b.Open(t)
	put(t, h, 1, Made{ID: "a", Revision: 100}.Finished())
	if err := h.PutLive(t.Context(), []history.LiveJob{live(Made{ID: "b", Revision: 200}, ares.Running)}, nil); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		`INSERT INTO jobs (seq, job_id, accepted_revision, run_revision, name, tenant, queue, submitted_by, phase, reason, outcome, exit_code,
			priority, priority_class, members, gpus_per_member, gpu_milli, gpu_model, cpu_cores, memory_mb, image,
			is_array, array_of, array_index, retry_of, accepted_at, started_at, finished_at, attempts, retries, preemptions, gpu_milliseconds, digest, record)
			SELECT seq + 1, 'job-b', accepted_revision + 1, run_revision + 1, name, tenant, queue, submitted_by, phase, reason, outcome, exit_code,
			priority, priority_class, members, gpus_per_member, gpu_milli, gpu_model, cpu_cores, memory_mb, image,
			is_array, array_of, array_index, retry_of, accepted_at, started_at, finished_at, attempts, retries, preemptions, 0, digest, record FROM finished_jobs`,
		"DELETE FROM jobs WHERE seq IN (1)",
		"DELETE FROM job_usage", "DELETE FROM usage_daily", "DELETE FROM usage_by_tenant", "DELETE FROM attempts", "DELETE FROM placements", "DELETE FROM transitions",
		"DELETE FROM tenants",
		`INSERT INTO tenants (tenant, name, max_gpus, priority_tier, fair_share_weight, allow_preemption, gpus_in_use, cpu_cores_in_use, memory_mb_in_use, jobs_running, jobs_waiting, as_of)
			VALUES ('t1', 'One', 8, 'high', 1, TRUE, 2, 0, 0, 1, 0, '2030-01-02T12:00:00.000000Z')`,
	} {
		if _, err := b.Raw.ExecContext(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	if got := b.rows(t, "SELECT id, state, command FROM jobs ORDER BY accepted_revision"); got != "job-b completed \n"+string(ID("b"))+` running ["train"]` {
		t.Errorf("the jobs are %q", got)
	}
	if got := b.rows(t, documentTenants); got != "t1 One 8 2" {
		t.Errorf("the tenants are %q", got)
	}
	b.Recount(t)
	if b.Config.URL == "" {
		return
	}
	tx, err := b.Raw.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var n int
	if _, err = tx.ExecContext(t.Context(), "SET LOCAL application_name = 'ares'"); err != nil {
		t.Fatal(err)
	}
	if err = tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM jobs").Scan(&n); err != nil || n != 1 {
		t.Errorf("the server of an earlier version sees %d jobs, %v; want the finished one", n, err)
	}
}
