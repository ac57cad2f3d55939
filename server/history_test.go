package server_test

import (
	"context"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/history/historytest"
	"github.com/ares-scheduler/ares/server"
)

// TestDocumentQueriesInPSQL runs the queries of the gpu-scheduler's README with psql on the database gpu_scheduler, while one job has
// ended, one runs and one waits.
func TestDocumentQueriesInPSQL(t *testing.T) {
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Fatal("this test needs psql: install Debian's package postgresql-client")
	}
	url := historytest.StartPostgres(t).Database(t, "gpu_scheduler")
	_, c := up(t, "v100-4", func(cfg *server.Config) { cfg.History.URL = url })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	eight := int32(8)
	tenant, err := c.CreateTenant(ctx, &apipb.Tenant{Name: "ML Research Team", MaxGpus: &eight})
	if err != nil {
		t.Fatal(err)
	}
	submit := func(name string, priority, gpus int32, command ...string) string {
		t.Helper()
		resp, err := c.Submit(ctx, &apipb.JobSpec{Name: name, TenantId: tenant.GetId(), Priority: &priority, GpuCount: gpus, Command: command})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetJobId()
	}
	done := submit("done", 100, 1, "true")
	if _, err = c.Wait(ctx, done); err != nil {
		t.Fatal(err)
	}
	runs := submit("runs", 2000, 3, "sleep", "600")
	waits := submit("waits", 500, 4, "true")
	await := func(query, want string) {
		t.Helper()
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			out, err := exec.CommandContext(ctx, psql, "-At", "-F", " ", "-c", query, url).CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", query, err, out)
			}
			if regexp.MustCompile(want).Match(out) {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("%s answers\n%swant\n%s", query, out, want)
			}
		}
	}
	const jobs = "SELECT id, name, state, priority, gpu_count FROM jobs ORDER BY priority DESC;"
	await(jobs, "^"+runs+" runs running 2000 3\n"+waits+" waits pending 500 4\n"+done+" done completed 100 1\n$")
	await("SELECT id, name, max_gp_us, current_gp_us FROM tenants;", "(?m)^"+tenant.GetId()+" ML Research Team 8 3$")
	if _, err = c.Cancel(ctx, runs); err != nil {
		t.Fatal(err)
	}
	await(jobs, "^"+runs+" runs cancelled 2000 3\n"+waits+" waits completed 500 4\n"+done+" done completed 100 1\n$")
}
