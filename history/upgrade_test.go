package history_test

import (
	"compress/gzip"
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/history"
)

// TestAnEarlierDatabaseGoesOn checks that this version can read a database made by commit 949e3a0 (server/testdata/upgrade/make). If a
// column or a field of a record was renamed, data is missing and the test fails.
func TestAnEarlierDatabaseGoesOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.db")
	unzip(t, "testdata/949e3a0.db.gz", file)
	h, err := history.Open(history.Config{File: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	ctx := t.Context()
	jobs, more, err := h.Jobs(ctx, history.Filter{Tenant: "vision", Limit: 100})
	if err != nil || more || len(jobs) != 4 {
		t.Fatalf("history lists %d jobs, more %v: %v; want 4", len(jobs), more, err)
	}
	names := map[string]*history.Job{}
	for i := range jobs {
		names[jobs[i].Job.Spec.Name] = &jobs[i]
	}
	if j := names["retried"]; j == nil || j.Run.Phase != "failed" || len(j.Run.Attempts) != 2 || j.Run.Attempts[1].ExitCode != 4 ||
		j.Run.Attempts[1].Seats[0].Node != "here" || j.Job.Spec.Queue != "training" || j.Job.Owner == "" {
		t.Errorf("the job that was retried is %+v", j)
	}
	if j := names["succeeded"]; j == nil || j.Run.Phase != "succeeded" || j.Job.Spec.Labels["team"] != "a" {
		t.Errorf("the job that succeeded is %+v", j)
	} else if whole, missing := h.Job(ctx, j.Job.ID, "vision"); missing != nil || len(whole.Run.Transitions) < 3 {
		t.Errorf("its transitions are %+v, %v", whole.Run.Transitions, missing)
	}
	view, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = view.Close() }()
	states := ""
	if err = view.QueryRowContext(ctx, "SELECT group_concat(name || ' ' || state, ', ' ORDER BY name) FROM jobs WHERE tenant_id = 'vision' AND command IS NULL").Scan(&states); err != nil ||
		!strings.Contains(states, "succeeded completed") || !strings.Contains(states, "retried failed") {
		t.Errorf("the view of all jobs has %q, %v", states, err)
	}
	prices, err := h.Prices(ctx)
	if err != nil || len(prices) != 2 {
		t.Errorf("the prices are %v, %v", prices, err)
	}
	used, err := h.Usage(ctx, history.UsageQuery{By: []history.Dimension{history.ByTenant, history.ByModel}})
	if err != nil || len(used) != 1 || used[0].Jobs < 4 || used[0].GPUMilliseconds <= 0 {
		t.Errorf("the use is %+v, %v", used, err)
	}

	// If a job is written again with a newer revision, it replaces the earlier version.
	j := names["failed"]
	j.Run.Revision++
	j.Run.Reason = "written again"
	kinds := func(string, string) history.Kind { return history.Kind{Model: "V100"} }
	if n, failed := h.Put(ctx, []history.Finished{{Job: &j.Job, Run: &j.Run, Kinds: kinds}}); n != 1 || failed != nil {
		t.Fatalf("%d jobs were written, %v", n, failed)
	}
	again, err := h.Job(ctx, j.Job.ID, "vision")
	if err != nil || again.Run.Reason != "written again" {
		t.Errorf("the job is %q, %v", again.Run.Reason, err)
	}
}

func unzip(t *testing.T, from, to string) {
	t.Helper()
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
