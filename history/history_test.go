package history_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/audit/sinktest"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/history/historytest"
)

func TestSQLite(t *testing.T) { historytest.Run(t, historytest.SQLite) }

func TestPostgres(t *testing.T) {
	server := historytest.StartPostgres(t)
	historytest.Run(t, server.New)
}

// TestAudit runs the audit tests on both databases.
func TestAudit(t *testing.T) {
	for name, open := range map[string]func(testing.TB) historytest.Base{"SQLite": historytest.SQLite, "Postgres": historytest.StartPostgres(t).New} {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, func(t *testing.T) audit.Sink { return history.AuditEntries{History: open(t).Open(t)} }, entriesOf)
			t.Run("ServersAreListedTogether", func(t *testing.T) { serversAreListedTogether(t, history.AuditEntries{History: open(t).Open(t)}) })
			t.Run("TheLastEntryIsAMark", func(t *testing.T) { theLastEntryIsAMark(t, history.AuditEntries{History: open(t).Open(t)}) })
			t.Run("QueriesFindWhatTheLogWould", func(t *testing.T) { queriesFindWhatTheLogWould(t, history.AuditEntries{History: open(t).Open(t)}) })
			t.Run("AnotherLogIsRefused", func(t *testing.T) { anotherLogIsRefused(t, history.AuditEntries{History: open(t).Open(t)}) })
			t.Run("OldEntriesGo", func(t *testing.T) { oldEntriesGo(t, history.AuditEntries{History: open(t).Open(t)}) })
		})
	}
}

// TestPostgresComesBack kills the database server and starts it again. After the restart, every acknowledged job must still be stored.
// The history must reconnect by itself.
func TestPostgresComesBack(t *testing.T) {
	server := historytest.StartPostgres(t)
	base := server.New(t)
	h := base.Open(t)
	if n, err := h.Put(t.Context(), []history.Finished{historytest.Made{ID: "before"}.Finished()}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	server.Kill()
	after := historytest.Made{ID: "after", Revision: 200}.Finished()
	if _, err := h.Put(t.Context(), []history.Finished{after}); ares.CodeOf(err) != ares.Unavailable {
		t.Fatalf("without a server: %v", err)
	}
	late := base.Open(t) // an Ares server that starts meanwhile
	if err := late.Ready(t.Context()); ares.CodeOf(err) != ares.Unavailable {
		t.Fatalf("without a server: %v", err)
	}
	server.Start()
	for _, one := range []*history.History{h, late} {
		if _, err := one.Put(t.Context(), []history.Finished{after}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"before", "after"} {
			if _, err := one.Job(t.Context(), historytest.ID(name), ""); err != nil {
				t.Error(err)
			}
		}
	}
	base.Recount(t)
}

// TestPostgresCountsWhatIsUnderWay migrates the tables while another server writes jobs without
// updating the stored job counts.
func TestPostgresCountsWhatIsUnderWay(t *testing.T) {
	base := historytest.StartPostgres(t).New(t)
	if _, err := base.Open(t).Put(t.Context(), []history.Finished{historytest.Made{ID: "before"}.Finished()}); err != nil {
		t.Fatal(err)
	}
	base.DownTo(t, 2)
	tx, err := base.Raw.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = tx.ExecContext(t.Context(), "DELETE FROM jobs"); err != nil {
		t.Fatal(err)
	}
	counted := make(chan int64, 1)
	h := base.Open(t)
	go func() {
		n, bad := h.Count(t.Context(), history.Filter{})
		if bad != nil {
			t.Error(bad)
		}
		counted <- n
	}()
	awaitLock(t, base)
	if err = tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := <-counted; n != 0 {
		t.Errorf("%d are counted, want none", n)
	}
}

// TestPostgresReadersReadTheView migrates a database in which a role could read the table of jobs.
func TestPostgresReadersReadTheView(t *testing.T) {
	base := historytest.StartPostgres(t).New(t)
	if err := base.Open(t).Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	base.DownTo(t, 4)
	for _, query := range []string{`CREATE ROLE "an analyst"`, `GRANT SELECT ON ALL TABLES IN SCHEMA public TO "an analyst"`} {
		if _, err := base.Raw.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := base.Open(t).Put(t.Context(), []history.Finished{historytest.Made{ID: "a"}.Finished()}); err != nil {
		t.Fatal(err)
	}
	tx, err := base.Raw.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err = tx.ExecContext(t.Context(), `SET LOCAL ROLE "an analyst"`); err != nil {
		t.Fatal(err)
	}
	n := 0
	if err = tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM jobs WHERE state = 'completed'").Scan(&n); err != nil || n != 1 {
		t.Errorf("the reader sees %d jobs, %v", n, err)
	}
}

// TestCloseEndsAnUpdate stops a server while its tables are migrated.
func TestCloseEndsAnUpdate(t *testing.T) {
	base := historytest.StartPostgres(t).New(t)
	if err := base.Open(t).Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	base.DownTo(t, 2)
	tx, err := base.Raw.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = tx.ExecContext(t.Context(), "DELETE FROM jobs"); err != nil {
		t.Fatal(err)
	}
	h := base.Open(t)
	ended := make(chan error, 1)
	go func() { ended <- h.Ready(t.Context()) }()
	awaitLock(t, base)
	if err = h.Close(); err != nil {
		t.Fatal(err)
	}
	if err = <-ended; ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("who waited is told %v", err)
	}
	if err = tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err = base.Open(t).Ready(t.Context()); err != nil {
		t.Errorf("the next server: %v", err)
	}
}

// awaitLock waits until some database session is blocked by a lock on the table of jobs.
func awaitLock(t *testing.T, base historytest.Base) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for waits := 0; waits == 0; <-tick.C {
		if err := base.Raw.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM pg_locks WHERE relation = 'jobs'::regclass AND NOT granted").Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheFileIsItsOwners checks that other users cannot read the database file. The database contains the specs of
// jobs.
func TestTheFileIsItsOwners(t *testing.T) {
	base := historytest.SQLite(t)
	h := base.Open(t)
	if _, err := h.Put(t.Context(), []history.Finished{historytest.Made{ID: "mine"}.Finished()}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(base.Config.File + "*")
	if err != nil || len(files) < 2 { // the journal is in the same directory
		t.Fatal(files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
	}
}

// TestTooManyPrices sets one price more than the limit. The error code must not be "exhausted". With that code, clients would repeat
// the call, although it cannot succeed.
func TestTooManyPrices(t *testing.T) {
	h := historytest.SQLite(t).Open(t)
	for i := range history.MaxPrices + 1 {
		err := h.SetPrice(t.Context(), history.Price{Model: "h100", Region: fmt.Sprint("r", i), From: "2026-01-01", PerGPUHour: 1, At: historytest.Noon})
		if last := i == history.MaxPrices; last && ares.CodeOf(err) != ares.LimitReached || !last && err != nil {
			t.Fatalf("price %d: %v", i, err)
		}
	}
}

func TestBadURLs(t *testing.T) {
	for _, url := range []string{"mysql://x", "host=x", "postgres://u:s3cret@h/db?sslmode=wild", "postgres://[", "postgres://u:s3cret@[", "/tmp/file", "postgres://u:s3cret@h/db?sslmode=verify-full&sslrootcert=/none"} {
		err := history.CheckURL(url)
		if ares.CodeOf(err) != ares.Invalid || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s is answered %v", url, err)
		}
	}
	if err := history.CheckURL("postgres://u:p@h/db?sslmode=verify-full&sslrootcert=/etc/ssl/certs/ca-certificates.crt"); err != nil {
		t.Error(err)
	}
}
