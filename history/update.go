package history

import (
	"context"
	"database/sql"
	"errors"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// ErrUpdating is the error that calls return while the tables are being migrated.
var ErrUpdating = ares.Errorf(ares.Unavailable, "the tables of the history database are being migrated, but live jobs are not affected: try again in a few minutes")

// updateWithin is the maximum duration of a migration of the tables. The larger the tables are, the longer a
// migration takes. If a migration does not finish in this time, it is rolled back.
const updateWithin = time.Hour

// An update is a running migration of the tables. If the caller that started the migration gives up, the migration
// continues. So the next caller need not start it again.
type update struct {
	cancel context.CancelFunc
	done   chan struct{} // closed at its end
	err    error         // set once it is done
}

func (u *update) isDone() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// This method waits until the tables are migrated, and returns the connections for reading and for
// writing.
func (h *History) connected(ctx context.Context) (read, write *sql.DB, err error) {
	for {
		var under *update
		if read, write, under, err = h.findDatabase(ctx); err != nil || under == nil {
			return read, write, err
		}
		select {
		case <-under.done:
			if under.err != nil {
				return nil, nil, under.err
			}
		case <-ctx.Done():
			return nil, nil, ErrUpdating
		}
	}
}

// findDatabase returns the database, or the migration that is still running.
func (h *History) findDatabase(ctx context.Context) (read, write *sql.DB, under *update, err error) {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return nil, nil, nil, unavailable("wait for history", ctx.Err())
	}
	switch {
	case h.closed:
		return nil, nil, nil, ares.Errorf(ares.Unavailable, "history is closed")
	case h.ready:
		return h.read, h.write, nil, nil
	case h.update != nil && !h.update.isDone():
		return nil, nil, h.update, nil
	}
	if h.read == nil {
		if h.read, h.write, err = h.open(); err != nil {
			return nil, nil, nil, unavailable("open history", err)
		}
	}
	outdated, err := h.dialect.outdated(ctx, h.write)
	if err != nil {
		return nil, nil, nil, unavailable("check history's tables", errors.Join(err, h.closeDatabases()))
	}
	if !outdated {
		h.ready = true
		return h.read, h.write, nil, nil
	}
	h.update = h.dialect.begin(ctx, h.write)
	return nil, nil, h.update, nil
}

// The method `begin` starts a migration of the tables. Close ends it.
func (d dialect) begin(ctx context.Context, db *sql.DB) *update {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), updateWithin)
	u := &update{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		defer cancel()
		u.err = unavailable("migrate history's tables", d.migrate(ctx, db))
	}()
	return u
}

// Ready returns an error if history does not answer. While the tables are being migrated, the error is ErrUpdating.
func (h *History) Ready(ctx context.Context) error {
	read, _, err := h.connected(ctx)
	if err != nil {
		return err
	}
	return unavailable("reach history", read.PingContext(ctx))
}
