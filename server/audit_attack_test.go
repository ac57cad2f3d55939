package server_test

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
)

// TestAnEntryChangedInHistoryIsFound changes and removes entries only in the history database, which `ares audit list` reads.
func TestAnEntryChangedInHistoryIsFound(t *testing.T) {
	data := t.TempDir()
	auditedServer(t, data, func(ctx context.Context, c *client.Client) {
		_, err := c.CreateTenant(ctx, &apipb.Tenant{Id: "one", Name: "one"})
		must(t, err)
		verifiedAudit(ctx, t, c)
	})
	for _, c := range []struct{ change, want string }{
		{"UPDATE audit SET done_by = 'somebody-else' WHERE action = 'CREATE_TENANT'", "differs from the entry in history"},
		{"DELETE FROM audit WHERE action = 'CREATE_TENANT'", "history lacks entry"},
	} {
		db, err := sql.Open("sqlite", filepath.Join(data, "history.db"))
		must(t, err)
		got, err := db.ExecContext(t.Context(), c.change)
		must(t, err)
		if n, _ := got.RowsAffected(); n != 1 {
			t.Fatalf("%s changed %d rows", c.change, n)
		}
		must(t, db.Close())
		auditedServer(t, data, func(ctx context.Context, cl *client.Client) {
			r, err := cl.VerifyAudit(ctx)
			must(t, err)
			if r.Ok || !strings.Contains(texts(r), c.want) {
				t.Errorf("%s: verified as %v", c.change, r)
			}
		})
	}
}

// TestALogThatJustEndsIsNamed gives a server a new name and a new log. The old log just ends. The report must name it, and the old log must not be
// continued under the new name.
func TestALogThatJustEndsIsNamed(t *testing.T) {
	data := t.TempDir()
	auditedServer(t, data, func(context.Context, *client.Client) {})
	was, err := os.ReadFile(filepath.Join(data, "server.id"))
	must(t, err)
	must(t, os.Remove(filepath.Join(data, "server.id")))
	cfg := server.Default()
	cfg.DataDir = data
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	if s, bad := server.Start(t.Context(), cfg, slog.New(slog.DiscardHandler)); bad == nil || !strings.Contains(bad.Error(), "is the log of server") {
		if bad == nil {
			s.Close()
		}
		t.Errorf("the log was continued under another name: %v", bad)
	}
	must(t, os.Rename(server.AuditDir(data), filepath.Join(data, "evidence")))
	auditedServer(t, data, func(ctx context.Context, c *client.Client) {
		r, err := c.VerifyAudit(ctx)
		must(t, err)
		want := "the log of server " + strings.TrimSpace(string(was)) + ", which reached entry"
		if !slices.ContainsFunc(r.NotCompared, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("the log that ended is not named: %v", r.NotCompared)
		}
	})
}

// TestAWholeDataDirectoryThatWasPutBack puts back log, store and history alike. They agree, so only an outside head reveals it. The output must say that
// the log was not compared with one.
func TestAWholeDataDirectoryThatWasPutBack(t *testing.T) {
	data, yesterday := t.TempDir(), t.TempDir()
	auditedServer(t, data, func(ctx context.Context, c *client.Client) { verifiedAudit(ctx, t, c) })
	must(t, os.CopyFS(yesterday, os.DirFS(data)))
	var head *apipb.AuditHead
	auditedServer(t, data, func(ctx context.Context, c *client.Client) {
		for _, id := range []string{"one", "two", "three", "four"} {
			_, err := c.CreateTenant(ctx, &apipb.Tenant{Id: id, Name: id})
			must(t, err)
		}
		var err error
		head, err = c.AuditHead(ctx)
		must(t, err)
	})
	auditedServer(t, yesterday, func(ctx context.Context, c *client.Client) {
		r := verifiedAudit(ctx, t, c)
		if !r.Ok || !slices.Contains(r.NotCompared, audit.OutsideHead) {
			t.Errorf("without an outside head: %v", r)
		}
		r, err := c.VerifyAudit(ctx, head)
		if err != nil || r.Ok {
			t.Errorf("with an outside head: %v, %v", r, err)
		}
	})
}

// TestARemovedAuditLogStopsChanges removes the audit directory under a running server. Changes are rejected, and verification fails.
func TestARemovedAuditLogStopsChanges(t *testing.T) {
	data := t.TempDir()
	auditedServer(t, data, func(ctx context.Context, c *client.Client) {
		must(t, os.RemoveAll(server.AuditDir(data)))
		for i := range 2 { // the first call finds it, the second one is rejected before it does anything
			if _, err := c.CreateTenant(ctx, &apipb.Tenant{Id: "one" + strings.Repeat("x", i), Name: "one"}); ares.CodeOf(err) != ares.Unavailable {
				t.Errorf("call %d: %v", i+1, err)
			}
		}
		r, err := c.VerifyAudit(ctx)
		if err != nil || r.Ok {
			t.Errorf("verified as %v, %v", r, err)
		}
		must(t, os.MkdirAll(server.AuditDir(data), 0o700)) // for the last head
	})
	must(t, os.RemoveAll(server.AuditDir(data)))
	auditedServer(t, data, func(ctx context.Context, c *client.Client) {
		status, err := c.ClusterStatus(ctx)
		if err != nil || !strings.Contains(status.GetAlert(), "it was cut, or an older copy was put back") {
			t.Errorf("after a restart: %q, %v", status.GetAlert(), err)
		}
		page, err := audit.Find(server.AuditDir(data), audit.Query{Action: audit.ActionBehind})
		if err != nil || len(page) != 1 {
			t.Errorf("the new log says %v, %v", page, err)
		}
	})
}
