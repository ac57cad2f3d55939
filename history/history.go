package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	ares "github.com/ares-scheduler/ares"
)

// Config says where history is kept.
type Config struct {
	// URL of a PostgreSQL database, such as
	// postgres://ares:secret@db/ares?sslmode=verify-full; "" for the file.
	URL string
	// File of the SQLite database. Its directory must be there.
	File string
}

// History is one database. It is safe for concurrent use, by several servers
// too. It connects and brings the tables up to date when it is first asked, and
// again after it could not: a server starts and decides without it.
type History struct {
	dialect dialect
	open    func() (read, write *sql.DB, err error)

	turn        chan struct{} // taken for what follows
	ready       bool
	closed      bool
	read, write *sql.DB // one and the same but for SQLite, which has one writer
	update      *update // the last, nil before the first
}

// Open prepares a history. It fails only when the configuration is wrong.
func Open(cfg Config) (*History, error) {
	if cfg.URL != "" {
		return openPostgres(cfg.URL)
	}
	return openSQLite(cfg.File), nil
}

// CheckURL says what is wrong with a database's URL. It does not repeat a
// password.
func CheckURL(url string) error {
	_, err := Open(Config{URL: url})
	return err
}

// Close closes the database. An update of its tables that is under way is undone.
func (h *History) Close() error {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	h.closed, h.ready = true, false
	if h.update != nil {
		h.update.cancel()
		<-h.update.done
	}
	return h.drop()
}

func (h *History) drop() error {
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

// unavailable makes a failure of the database one that may pass. Whoever
// called is told what was done, the reason is for the log.
func unavailable(doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*ares.Error](err); ok {
		return err
	}
	return &outage{doing: doing, cause: err}
}

// outage is an error of the database. Its text for callers does not tell where
// the database is.
type outage struct {
	doing string
	cause error
}

func (o *outage) Error() string { return o.doing + ": " + o.cause.Error() }

func (o *outage) Unwrap() error { return o.cause }

// As lets ares.CodeOf see it.
func (o *outage) As(target any) bool {
	t, ok := target.(**ares.Error)
	if ok {
		*t = ares.Errorf(ares.Unavailable, "history does not answer: live jobs are not affected; try again")
	}
	return ok
}

// reading runs a query and scans each row.
func (h *History) reading(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error {
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

// writing runs a transaction. One runs at a time, whichever server has it, so
// that sums are made of what is there.
func (h *History) writing(ctx context.Context, do func(*writer) error) error {
	_, write, err := h.connected(ctx)
	if err != nil {
		return err
	}
	tx, err := write.BeginTx(ctx, nil)
	if err != nil {
		return unavailable("begin to write history", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing is left to do after a commit
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

// writer is a transaction with the statements it has used.
type writer struct {
	tx       *sql.Tx
	dialect  dialect
	prepared map[string]*sql.Stmt
}

// exec runs a statement, prepared once for all of the transaction.
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
