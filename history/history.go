package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	ares "github.com/ares-scheduler/ares"
)

// Config selects the database.
type Config struct {
	// URL is the address of a PostgreSQL database, such as postgres://ares:secret@db/ares?sslmode=verify-full. If URL
	// is "", File is used.
	URL string
	// File is the path of the SQLite database. The directory of the file must exist.
	File string
}

// History is a connection to one history database. A History is safe for concurrent use, even by several servers. History connects
// and migrates the tables at the first call, and again after a failure. So a server can start and schedule jobs without the
// database.
type History struct {
	dialect dialect
	open    func() (read, write *sql.DB, err error)

	turn        chan struct{} // guards the fields below
	ready       bool
	closed      bool
	read, write *sql.DB // the same for both, except that SQLite has only one writer
	update      *update // the latest migration, nil before the first
}

// Open prepares a history without connecting to the database. Open fails only if the configuration is wrong.
func Open(cfg Config) (*History, error) {
	if cfg.URL != "" {
		return openPostgres(cfg.URL)
	}
	return openSQLite(cfg.File), nil
}

// CheckURL returns an error if a database URL is not valid. The error of CheckURL does not contain the password.
func CheckURL(url string) error {
	_, err := Open(Config{URL: url})
	return err
}

// Close closes the connections to the database. Close rolls back a running migration.
func (h *History) Close() error {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	h.closed, h.ready = true, false
	if h.update != nil {
		h.update.cancel()
		<-h.update.done
	}
	return h.closeDatabases()
}

func (h *History) closeDatabases() error {
	if h.read == nil {
		return nil
	}
	err := h.read.Close()
	if h.write != h.read {
		err = errors.Join(err, h.write.Close())
	}
	h.read, h.write = nil, nil
	return err
}

// This function marks a database error as temporary. The error text for the caller names the
// operation that failed. The cause is only logged.
func unavailable(doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*ares.Error](err); ok {
		return err
	}
	return &databaseError{doing: doing, cause: err}
}

// databaseError is an error that the database returned. The error text for callers does not reveal
// the database's address.
type databaseError struct {
	doing string
	cause error
}

func (o *databaseError) Error() string { return o.doing + ": " + o.cause.Error() }

func (o *databaseError) Unwrap() error { return o.cause }

// As lets errors.As find an error code, so that ares.CodeOf works.
func (o *databaseError) As(target any) bool {
	t, ok := target.(**ares.Error)
	if ok {
		*t = ares.Errorf(ares.Unavailable, "the history database does not respond, but live jobs are not affected: try again")
	}
	return ok
}

// queryRows runs a query and scans each row.
func (h *History) queryRows(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error {
	read, _, err := h.connected(ctx)
	if err != nil {
		return err
	}
	return scanAll(ctx, read, h.dialect.bind(query), args, scan)
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func scanAll(ctx context.Context, q querier, query string, args []any, scan func(*sql.Rows) error) (err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return unavailable("ask history", err)
	}
	defer func() { err = errors.Join(err, unavailable("ask history", rows.Close())) }()
	for rows.Next() {
		if err = scan(rows); err != nil {
			return unavailable("read history", err)
		}
	}
	return unavailable("ask history", rows.Err())
}

// inTransaction runs a function in a transaction. Only one transaction runs at a time, even if several servers share the database. So
// sums are computed from committed rows.
func (h *History) inTransaction(ctx context.Context, do func(*writer) error) error {
	_, write, err := h.connected(ctx)
	if err != nil {
		return err
	}
	tx, err := write.BeginTx(ctx, nil)
	if err != nil {
		return unavailable("begin a transaction of history", err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	w := &writer{tx: tx, dialect: h.dialect, prepared: map[string]*sql.Stmt{}}
	if h.dialect.lock != "" {
		if _, err = tx.ExecContext(ctx, h.dialect.lock); err != nil {
			return unavailable("wait for history's writer", err)
		}
	}
	if err = do(w); err != nil {
		return unavailable("write history", err)
	}
	return unavailable("commit history", tx.Commit())
}

// A writer is a transaction with its prepared statements.
type writer struct {
	tx       *sql.Tx
	dialect  dialect
	prepared map[string]*sql.Stmt
}

// The method `exec` runs a statement. Each statement is prepared only once per transaction.
func (w *writer) exec(ctx context.Context, query string, args ...any) error {
	s := w.prepared[query]
	if s == nil {
		var err error
		if s, err = w.tx.PrepareContext(ctx, w.dialect.bind(query)); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		w.prepared[query] = s
	}
	_, err := s.ExecContext(ctx, args...)
	return err
}

func (w *writer) query(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error {
	return scanAll(ctx, w.tx, w.dialect.bind(query), args, scan)
}
