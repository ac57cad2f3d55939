// Package historytest is the test suite for every database that history supports. The suite runs on SQLite and on a
// PostgreSQL server that the test starts. The package also provides the jobs that tests of other packages use.
package historytest

import (
	"database/sql"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/history/migrations"
)

// Base is an empty database for a test.
type Base struct {
	Config history.Config
	// Raw is a connection that reads the tables directly.
	Raw *sql.DB
}

// SQLite returns a Base whose database is an SQLite file.
func SQLite(tb testing.TB) Base {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "history.db")
	raw, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
	return base(tb, history.Config{File: file}, raw, err)
}

// New returns a Base with a new database on the PostgreSQL server.
func (p *Postgres) New(tb testing.TB) Base {
	tb.Helper()
	url := p.Database(tb, name())
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	return base(tb, history.Config{URL: url}, stdlib.OpenDB(*cfg), nil)
}

func base(tb testing.TB, cfg history.Config, raw *sql.DB, err error) Base {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := raw.Close(); err != nil {
			tb.Error(err)
		}
	})
	return Base{cfg, raw}
}

// Open opens a history that uses the base's database, and closes it when the test ends.
func (b Base) Open(tb testing.TB) *history.History {
	tb.Helper()
	h, err := history.Open(b.Config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := h.Close(); err != nil {
			tb.Error(err)
		}
	})
	return h
}

// DownTo migrates the tables down to an earlier version.
func (b Base) DownTo(tb testing.TB, version int64) {
	tb.Helper()
	dialect, folder := goose.DialectSQLite3, "sqlite"
	if b.Config.URL != "" {
		dialect, folder = goose.DialectPostgres, "postgres"
	}
	files, err := fs.Sub(migrations.Files, folder)
	if err != nil {
		tb.Fatal(err)
	}
	p, err := goose.NewProvider(dialect, b.Raw, files)
	if err != nil {
		tb.Fatal(err)
	}
	if done, err := p.DownTo(tb.Context(), version); err != nil || len(done) == 0 {
		tb.Fatal(done, err)
	}
}

// Run runs the test suite. The function `open` provides the databases.
func Run(t *testing.T, open func(testing.TB) Base) {
	t.Helper()
	for _, law := range []struct {
		name string
		test func(*testing.T, Base)
	}{
		{"AJobComesBackWhole", aJobComesBackWhole},
		{"AJobIsThereOnce", aJobIsThereOnce},
		{"AnyOrderOfPutsEndsAlike", anyOrderOfPutsEndsAlike},
		{"TwoServersPutTheSame", twoServersPutTheSame},
		{"ListsArePaged", listsArePaged},
		{"ListsAreFiltered", listsAreFiltered},
		{"CountsBeginWithWhatIsThere", countsBeginWithWhatIsThere},
		{"CountsKnowWhatOthersWrite", countsKnowWhatOthersWrite},
		{"AnUpdateOutlivesWhoAsked", anUpdateOutlivesWhoAsked},
		{"ElementsAreListedByIndex", elementsAreListedByIndex},
		{"UseIsSummedUp", useIsSummedUp},
		{"PricesCountFromTheirDay", pricesCountFromTheirDay},
		{"PricesAreChecked", pricesAreChecked},
		{"OldJobsGoTheirUseStays", oldJobsGoTheirUseStays},
		{"AnythingCanBeWritten", anythingCanBeWritten},
		{"TenantsAreShown", tenantsAreShown},
		{"AClosedBillStays", aClosedBillStays},
		{"LiveJobsAreShown", liveJobsAreShown},
		{"ALiveJobIsShownOnce", aLiveJobIsShownOnce},
		{"AnEarlierVersionWritesOn", anEarlierVersionWritesOn},
		{"EndsAreTold", endsAreTold},
		{"AnotherStoreIsRefused", anotherStoreIsRefused},
		{"ARosterOnlyGrows", aRosterOnlyGrows},
	} {
		t.Run(law.name, func(t *testing.T) { law.test(t, open(t)) })
	}
}

// This method returns the single number that an SQL query selects.
func (b Base) count(tb testing.TB, query string) (n int64) {
	tb.Helper()
	var got sql.NullInt64
	if err := b.Raw.QueryRowContext(tb.Context(), query).Scan(&got); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return got.Int64
}

// Recount checks that each job is stored once, and that every row of the other tables belongs to a stored job. It also checks that
// the usage sums match the jobs. Recount also checks that each server's audit log is an unbroken chain.
func (b Base) Recount(tb testing.TB) {
	tb.Helper()
	if err := errors.Join(
		b.same(tb, "jobs twice", "SELECT COUNT(*) FROM (SELECT job_id, accepted_revision FROM finished_jobs GROUP BY job_id, accepted_revision HAVING COUNT(*) > 1) d", "SELECT 0"),
		b.same(tb, "jobs twice among all", "SELECT COUNT(*) FROM (SELECT job_id, accepted_revision FROM jobs GROUP BY job_id, accepted_revision HAVING COUNT(*) > 1) d", "SELECT 0"),
		b.same(tb, "attempts of no job", "SELECT COUNT(*) FROM attempts WHERE job_seq NOT IN (SELECT seq FROM finished_jobs)", "SELECT 0"),
		b.same(tb, "placements of no job", "SELECT COUNT(*) FROM placements WHERE job_seq NOT IN (SELECT seq FROM finished_jobs)", "SELECT 0"),
		b.same(tb, "transitions of no job", "SELECT COUNT(*) FROM transitions WHERE job_seq NOT IN (SELECT seq FROM finished_jobs)", "SELECT 0"),
		b.same(tb, "audit entries that follow no other", "SELECT COUNT(*) FROM audit a WHERE NOT EXISTS (SELECT 1 FROM audit p WHERE p.server = a.server AND p.sequence = a.sequence - 1 AND p.hash = a.previous_hash)",
			"SELECT COUNT(DISTINCT server) FROM audit"),
		b.same(tb, "use of no job", "SELECT COUNT(*) FROM job_usage WHERE job_seq NOT IN (SELECT seq FROM finished_jobs)", "SELECT 0"),
		b.same(tb, "jobs without an array, and those counted", "SELECT SUM(jobs) FROM usage_daily", "SELECT SUM(jobs) FROM job_usage"),
		b.same(tb, "use of jobs", "SELECT SUM(gpu_milliseconds) FROM finished_jobs", "SELECT SUM(gpu_milliseconds) FROM job_usage"),
		b.same(tb, "differences of the daily sums", "SELECT COUNT(*) FROM ("+
			"SELECT j.tenant, u.day, j.queue, j.submitted_by, u.model, u.region, SUM(u.gpu_milliseconds) AS ms, SUM(u.jobs) AS n FROM job_usage u JOIN finished_jobs j ON j.seq = u.job_seq GROUP BY 1, 2, 3, 4, 5, 6"+
			" EXCEPT SELECT tenant, day, queue, submitted_by, model, region, gpu_milliseconds, jobs FROM usage_daily) d", "SELECT 0"),
		b.same(tb, "rows of the daily sums", "SELECT COUNT(*) FROM usage_daily WHERE gpu_milliseconds <> 0 OR jobs <> 0",
			"SELECT COUNT(*) FROM (SELECT DISTINCT j.tenant, u.day, j.queue, j.submitted_by, u.model, u.region FROM job_usage u JOIN finished_jobs j ON j.seq = u.job_seq) d"),
		b.same(tb, "differences of the tenants' sums", "SELECT COUNT(*) FROM ("+
			"SELECT u.tenant, u.day, k.kind, SUM(u.gpu_milliseconds) AS ms, SUM(u.jobs) AS n FROM usage_daily u JOIN kinds k ON k.model = u.model AND k.region = u.region GROUP BY 1, 2, 3"+
			" EXCEPT SELECT tenant, day, kind, gpu_milliseconds, jobs FROM usage_by_tenant) d", "SELECT 0"),
		b.same(tb, "differences of the counts", "SELECT COUNT(*) FROM (SELECT tenant, queue, submitted_by, phase, COUNT(*) AS n FROM finished_jobs WHERE array_of = '' GROUP BY 1, 2, 3, 4"+
			" EXCEPT SELECT tenant, queue, submitted_by, phase, jobs FROM job_counts) d", "SELECT 0"),
		b.same(tb, "jobs, and the sum of the counts", "SELECT COUNT(*) FROM finished_jobs WHERE array_of = ''", "SELECT COALESCE(SUM(jobs), 0) FROM job_counts"),
		b.same(tb, "rows that count no jobs", "SELECT COUNT(*) FROM job_counts WHERE jobs <= 0", "SELECT 0"),
	); err != nil {
		tb.Error(err)
	}
}

func (b Base) same(tb testing.TB, what, one, other string) error {
	tb.Helper()
	if x, y := b.count(tb, one), b.count(tb, other); x != y {
		return errors.New(what + " do not agree: " + one)
	}
	return nil
}
