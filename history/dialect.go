package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"modernc.org/sqlite" // also registers the driver
	sqlite3 "modernc.org/sqlite/lib"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history/migrations"
	"github.com/ares-scheduler/ares/pause"
)

// A dialect describes the differences between SQLite and PostgreSQL.
type dialect struct {
	name     goose.Dialect
	folder   string // directory of its migrations
	numbered bool   // parameters are $1, $2, …
	isoTimes bool   // times and days are text
	lock     string // locks out other writers; "" if a transaction does that by itself
	date     string // converts a parameter to a day
}

// writersLock is the number of the advisory lock that writers of history take.
const writersLock = 0x61726573 // "ares"

func openPostgres(url string) (*History, error) {
	cfg, err := pgx.ParseConfig(url)
	if file, ok := errors.AsType[*fs.PathError](err); ok { // the file of a certificate or a key
		return nil, ares.Errorf(ares.Invalid, "the PostgreSQL URL refers to a file that cannot be read: %s", file)
	}
	if err != nil || !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		return nil, ares.Errorf(ares.Invalid, "the value is not the URL of a PostgreSQL database: write it as postgres://user:password@host:5432/database?sslmode=verify-full")
	}
	cfg.RuntimeParams["timezone"] = "UTC"
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "ares"
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 5 * time.Second
	}
	d := dialect{
		name: goose.DialectPostgres, folder: "postgres", numbered: true,
		lock: fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", writersLock), date: "CAST(? AS date)",
	}
	return &History{dialect: d, turn: make(chan struct{}, 1), open: func() (*sql.DB, *sql.DB, error) {
		db := stdlib.OpenDB(*cfg)
		db.SetMaxOpenConns(8)
		db.SetConnMaxIdleTime(5 * time.Minute)
		return db, db, nil
	}}, nil
}

func openSQLite(file string) *History {
	d := dialect{name: goose.DialectSQLite3, folder: "sqlite", isoTimes: true, date: "?"}
	return &History{dialect: d, turn: make(chan struct{}, 1), open: func() (read, write *sql.DB, err error) {
		// Create the database file before SQLite does, because SQLite would make it readable for other users. SQLite
		// gives its journal files the same file mode as the database.
		f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, nil, err
		}
		if err = f.Close(); err != nil {
			return nil, nil, err
		}
		// A commit must be on disk before the live store deletes the job.
		if write, err = sqliteAt(file, "_txlock=immediate", "synchronous(FULL)", "journal_mode(WAL)"); err != nil {
			return nil, nil, err
		}
		write.SetMaxOpenConns(1)
		if read, err = sqliteAt(file, "", "query_only(1)"); err != nil {
			_ = write.Close()
			return nil, nil, err
		}
		read.SetMaxOpenConns(4)
		read.SetConnMaxIdleTime(time.Minute) // each connection has a cache
		return read, write, nil
	}}
}

// sqliteCacheKB is the size of the page cache of one connection to SQLite. SQLite never gives it back, and there are up
// to five connections. Pages that are not in it are read from the system's file cache.
const sqliteCacheKB = "16384"

func sqliteAt(file, option string, pragmas ...string) (*sql.DB, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	values := []string{"_pragma=busy_timeout(10000)", "_pragma=cache_size(-" + sqliteCacheKB + ")"}
	for _, p := range pragmas {
		values = append(values, "_pragma="+p)
	}
	if option != "" {
		values = append(values, option)
	}
	at := url.URL{Scheme: "file", Path: file, RawQuery: strings.Join(values, "&")}
	return sql.Open("sqlite", at.String())
}

// This method returns the migrations of the database tables.
func (d dialect) steps(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations.Files, d.folder)
	if err != nil {
		return nil, err
	}
	var options []goose.ProviderOption
	if d.numbered { // several servers may start at once
		locker, bad := lock.NewPostgresSessionLocker()
		if bad != nil {
			return nil, bad
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	return goose.NewProvider(d.name, db, files, options...)
}

// The method `outdated` reports whether migrations are pending.
func (d dialect) outdated(ctx context.Context, db *sql.DB) (bool, error) {
	p, err := d.steps(db)
	if err != nil {
		return false, err
	}
	for tries := 0; ; tries++ {
		pending, err := p.HasPending(ctx)
		if !isBusy(err) || tries == busyTries || !pause.For(ctx, busyPause) {
			return pending, err
		}
	}
}

// While a connection changes the journal mode of a new file, SQLite does not wait for the busy timeout of another one, but answers
// at once that the file is locked. Two servers that start with the same new file would meet this.
const (
	busyTries = 100
	busyPause = 20 * time.Millisecond
)

func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY
}

// The method `migrate` applies pending migrations.
func (d dialect) migrate(ctx context.Context, db *sql.DB) error {
	p, err := d.steps(db)
	if err != nil {
		return err
	}
	for range 3 { // another process with the same file may have applied a migration first
		if _, err = p.Up(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// The method `bind` rewrites the placeholders for the parameters of a query, in the form that
// the database expects.
func (d dialect) bind(query string) string {
	if !d.numbered {
		return query
	}
	var b strings.Builder
	n := 0
	for _, r := range query {
		if r != '?' {
			b.WriteRune(r)
			continue
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
	}
	return b.String()
}

// isoLayout is a time format of fixed width. Texts in this format sort in the same order as the times.
const isoLayout = "2006-01-02T15:04:05.000000Z"

// This method converts a time to a query parameter. A zero time becomes nil.
func (d dialect) at(t time.Time) any {
	switch {
	case t.IsZero():
		return nil
	case d.isoTimes:
		return t.UTC().Format(isoLayout)
	default:
		return t.UTC()
	}
}

// scannedTime reads a time or a day from a column of either database.
type scannedTime struct{ time.Time }

// Scan implements sql.Scanner.
func (s *scannedTime) Scan(v any) (err error) {
	switch v := v.(type) {
	case nil:
		s.Time = time.Time{}
	case time.Time:
		s.Time = v.UTC()
	case string:
		layout := isoLayout
		if len(v) == len(time.DateOnly) {
			layout = time.DateOnly
		}
		s.Time, err = time.Parse(layout, v)
	default:
		err = fmt.Errorf("history: a value of type %T is not a time", v)
	}
	return err
}

func (s scannedTime) day() string { return s.Format(time.DateOnly) }

// This function replaces NUL characters and invalid UTF-8 in a string, because PostgreSQL rejects
// them.
func text(s string) string {
	if strings.IndexByte(s, 0) < 0 {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}
