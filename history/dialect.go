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
	_ "modernc.org/sqlite" // registers the driver

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history/migrations"
)

// dialect is where the two databases differ.
type dialect struct {
	name     goose.Dialect
	folder   string // of its migrations
	numbered bool   // parameters are $1, $2, …
	isoTimes bool   // times and days are text
	lock     string // has other writers wait; "" where a transaction does
	date     string // makes a parameter a day
}

// writersLock is the number of the advisory lock that history's writers take.
const writersLock = 0x61726573 // "ares"

func openPostgres(url string) (*History, error) {
	cfg, err := pgx.ParseConfig(url)
	if file, ok := errors.AsType[*fs.PathError](err); ok { // of a certificate or a key
		return nil, ares.Errorf(ares.Invalid, "names a file that cannot be read: %s", file)
	}
	if err != nil || !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		return nil, ares.Errorf(ares.Invalid, "is not the URL of a PostgreSQL database: write it as postgres://user:password@host:5432/database?sslmode=verify-full")
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
		// Made before SQLite would make it for others to read; its journals follow it.
		f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, nil, err
		}
		if err = f.Close(); err != nil {
			return nil, nil, err
		}
		// What is written must be on the disk before the live store lets go of it.
		if write, err = sqliteAt(file, "_txlock=immediate", "synchronous(FULL)", "journal_mode(WAL)"); err != nil {
			return nil, nil, err
		}
		write.SetMaxOpenConns(1)
		if read, err = sqliteAt(file, "", "query_only(1)"); err != nil {
			_ = write.Close()
			return nil, nil, err
		}
		read.SetMaxOpenConns(4)
		return read, write, nil
	}}
}

func sqliteAt(file, option string, pragmas ...string) (*sql.DB, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	values := []string{"_pragma=busy_timeout(10000)", "_pragma=cache_size(-65536)"}
	for _, p := range pragmas {
		values = append(values, "_pragma="+p)
	}
	if option != "" {
		values = append(values, option)
	}
	at := url.URL{Scheme: "file", Path: file, RawQuery: strings.Join(values, "&")}
	return sql.Open("sqlite", at.String())
}

// steps is how the tables came to be.
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

// outdated says whether steps are to be taken.
func (d dialect) outdated(ctx context.Context, db *sql.DB) (bool, error) {
	p, err := d.steps(db)
	if err != nil {
		return false, err
	}
	return p.HasPending(ctx)
}

// migrate brings the tables up to date.
func (d dialect) migrate(ctx context.Context, db *sql.DB) error {
	p, err := d.steps(db)
	if err != nil {
		return err
	}
	for range 3 { // another process with the same file may have been faster
		if _, err = p.Up(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// bind writes the parameters of a query as the database wants them.
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

// isoLayout has a fixed width, so that times sort as text.
const isoLayout = "2006-01-02T15:04:05.000000Z"

// at is a time as a parameter; nil for none.
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

// stamp reads a time, or a day, of either database.
type stamp struct{ time.Time }

// Scan implements sql.Scanner.
func (s *stamp) Scan(v any) (err error) {
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
		err = fmt.Errorf("history: %T is no time", v)
	}
	return err
}

func (s stamp) day() string { return s.Format(time.DateOnly) }

// text makes a value that both databases take: PostgreSQL refuses a NUL, and
// what is not UTF-8.
func text(s string) string {
	if strings.IndexByte(s, 0) < 0 {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}
