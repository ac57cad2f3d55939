package history

import (
	"context"
	"database/sql"
	"errors"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// ErrUpdating is the answer while the tables are brought up to date.
var ErrUpdating = ares.Errorf(ares.Unavailable, "history's tables are being brought up to date, which may take minutes after an upgrade: live jobs are not affected; try again")

// updateWithin bounds one try to bring the tables up to date, which takes the
// longer the more is in them. What a try does not finish is undone.
const updateWithin = time.Hour

// update brings the tables up to date. It does not end with the patience of
// whoever asked first: it would be undone, and begin anew with the next.
type update struct {
	cancel context.CancelFunc
	done   chan struct{} // closed at its end
	err    error         // once it is done
}

func (u *update) over() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// connected is the database for reading and the one for writing, once the
// tables are up to date.
func (h *History) connected(ctx context.Context) (read, write *sql.DB, err error) {
	for {
		var under *update
		if read, write, under, err = h.look(ctx); err != nil || under == nil {
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

// look finds the database, or the update of its tables that is under way.
func (h *History) look(ctx context.Context) (read, write *sql.DB, under *update, err error) {
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
	case h.update != nil && !h.update.over():
		return nil, nil, h.update, nil
	}
	if h.read == nil {
		if h.read, h.write, err = h.open(); err != nil {
			return nil, nil, nil, unavailable("open history", err)
		}
	}
	outdated, err := h.dialect.outdated(ctx, h.write)
	if err != nil {
		return nil, nil, nil, unavailable("look at history's tables", errors.Join(err, h.drop()))
	}
	if !outdated {
		h.ready = true
		return h.read, h.write, nil, nil
	}
	h.update = h.dialect.begin(ctx, h.write)
	return nil, nil, h.update, nil
}

// begin begins an update. Close ends it.
func (d dialect) begin(ctx context.Context, db *sql.DB) *update {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), updateWithin)
	u := &update{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		defer cancel()
		u.err = unavailable("bring history's tables up to date", d.migrate(ctx, db))
	}()
	return u
}

// Ready says whether history answers: ErrUpdating while its tables are brought up
// to date.
func (h *History) Ready(ctx context.Context) error {
	read, _, err := h.connected(ctx)
	if err != nil {
		return err
	}
	return unavailable("reach history", read.PingContext(ctx))
}
