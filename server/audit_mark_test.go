package server_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/sim"
)

// auditedServer starts a server without a node on a data directory. While the server runs, it calls `use`.
func auditedServer(t *testing.T, data string, use func(context.Context, *client.Client)) {
	t.Helper()
	cfg := server.Default()
	cfg.DataDir = data
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s, err := server.Start(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	must(t, err)
	defer s.Close()
	c, err := client.New(client.Options{Addresses: []string{s.Endpoints.GRPC}, TokenFile: s.AdminToken})
	must(t, err)
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	use(ctx, c)
}

// verifiedAudit returns what the server says about its own log, after the log's entries have reached history. Both ways of
// verification, the whole log and only its end, must agree.
func verifiedAudit(ctx context.Context, t *testing.T, c *client.Client) *apipb.VerifyAuditResponse {
	t.Helper()
	must(t, c.AuditEntries(ctx, &apipb.ListAuditEntriesRequest{}, func(*apipb.ListAuditEntriesResponse) (bool, error) { return false, nil })) // ships
	got, err := c.VerifyAudit(ctx)
	must(t, err)
	end, err := c.VerifyAuditEnd(ctx)
	must(t, err)
	if got.Ok != end.Ok {
		t.Errorf("the whole log is %v, its end %v", got, end)
	}
	return got
}

func texts(r *apipb.VerifyAuditResponse) string {
	var out []string
	for _, f := range r.Faults {
		out = append(out, f.Text)
	}
	return strings.Join(out, "\n")
}

// TestAnAuditLogThatWasPutBackIsFound puts an older copy of the audit directory back. The files alone verify clean. The server
// must say that its log is behind the mark in the store and behind history, even after the log has grown.
func TestAnAuditLogThatWasPutBackIsFound(t *testing.T) {
	data := t.TempDir()
	dir := server.AuditDir(data)
	tenant := func(ctx context.Context, c *client.Client, id string) {
		_, err := c.CreateTenant(ctx, &apipb.Tenant{Id: id, Name: id})
		must(t, err)
	}
	auditedServer(t, data, func(ctx context.Context, c *client.Client) {
		tenant(ctx, c, "one")
		verifiedAudit(ctx, t, c)
	})
	yesterday := t.TempDir()
	must(t, os.CopyFS(yesterday, os.DirFS(dir)))
	auditedServer(t, data, func(ctx context.Context, c *client.Client) {
		for _, id := range []string{"two", "three", "four"} {
			tenant(ctx, c, id)
		}
		got := verifiedAudit(ctx, t, c)
		if !got.Ok || len(got.Compared) != 3 || !slices.Equal(got.NotCompared, []string{audit.OutsideHead}) {
			t.Errorf("an unchanged log: %v", got)
		}
	})
	must(t, os.RemoveAll(dir))
	must(t, os.CopyFS(dir, os.DirFS(yesterday)))
	if r, err := audit.Verify(dir, audit.Check{}); err != nil || !r.OK() {
		t.Fatalf("the files alone should show nothing: %+v, %v", r, err)
	}
	for life := range 2 { // the log grows beyond the mark in the second one
		auditedServer(t, data, func(ctx context.Context, c *client.Client) {
			for i := range 20 {
				_ = c.DeleteQueue(ctx, "default", "none"+strings.Repeat("x", i)) // is refused, which is an entry
			}
			got := verifiedAudit(ctx, t, c)
			if said := texts(got); got.Ok || !strings.Contains(said, "the mark in the store") || !strings.Contains(said, "history") {
				t.Errorf("life %d: a log that was put back verifies as %v", life+1, got)
			}
			status, err := c.ClusterStatus(ctx)
			if err != nil || !strings.Contains(status.GetAlert(), "an older copy was put back") {
				t.Errorf("life %d: the alert is %q, %v", life+1, status.GetAlert(), err)
			}
		})
	}
}

// TestDecisionsAreChained runs jobs on a server with the default configuration, and kills nothing. The recordings must agree
// with the signed log, and the engine must decide the same again. A recording that is changed or missing must be found, even if
// the log is unchanged.
func TestDecisionsAreChained(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	data := t.TempDir()
	recorded(ctx, t, data, "", func(c *client.Client) { busy(ctx, t, c, 0) })
	dir, recordings := server.AuditDir(data), server.RecordingDir(data)
	entries := func() ([]audit.Entry, error) { return audit.Find(dir, audit.Query{Object: sim.RecordingObject}) }
	verify := func() *sim.DecisionsReport {
		t.Helper()
		r, err := sim.VerifyDecisions(recordings, entries, server.Version)
		must(t, err)
		return r
	}
	if log, err := audit.Verify(dir, audit.Check{}); err != nil || !log.OK() {
		t.Fatalf("%+v, %v", log, err)
	}
	if r := verify(); !r.OK() || r.Files != 1 || r.Decisions < 10 || r.Equal != r.Decisions || r.Uncovered != 0 {
		t.Fatalf("%+v", r)
	}
	files, err := filepath.Glob(filepath.Join(recordings, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	was, err := os.ReadFile(files[0])
	must(t, err)
	changed := slices.Clone(was)
	changed[len(changed)/2] ^= 1
	must(t, os.WriteFile(files[0], changed, 0o600))
	if r := verify(); r.OK() || !strings.Contains(r.Faults[0], "was changed") {
		t.Errorf("a changed recording: %+v", r)
	}
	must(t, os.WriteFile(files[0], was[:len(was)/2], 0o600))
	if r := verify(); r.OK() || !strings.Contains(r.Faults[0], "was cut") {
		t.Errorf("a cut recording: %+v", r)
	}
	must(t, os.Remove(files[0]))
	if r := verify(); r.OK() || !strings.Contains(r.Faults[0], "is missing") {
		t.Errorf("a missing recording: %+v", r)
	}
}

// TestABrokenRecordingIsAWarning checks that a server whose recordings cannot be written goes on, and that the cluster's status says so.
func TestABrokenRecordingIsAWarning(t *testing.T) {
	data := t.TempDir()
	must(t, os.WriteFile(server.RecordingDir(data), nil, 0o600)) // a file where the directory would be
	auditedServer(t, data, func(ctx context.Context, c *client.Client) {
		_, err := c.CreateTenant(ctx, &apipb.Tenant{Id: "one", Name: "one"})
		must(t, err)
		for {
			status, err := c.ClusterStatus(ctx)
			must(t, err)
			if strings.Contains(status.GetAlert(), "decisions are not being recorded") {
				return
			}
		}
	})
}
