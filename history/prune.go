package history

import (
	"context"
	"database/sql"
	"errors"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// prunedBefore is the setting that says up to when jobs were removed.
const prunedBefore = "pruned_before"

// maxPrune is how many jobs are removed in one transaction.
const maxPrune = 500

// Prune removes jobs that ended before a time, and returns how many. What they
// used stays in the sums. A job that ended before then is not taken in again,
// so whoever calls it knows that every such job was put.
func (h *History) Prune(ctx context.Context, before time.Time) (removed int, err error) {
	for {
		n := 0
		err = h.writing(ctx, func(w *writer) error {
			if err := w.prune(ctx, before, &n); err != nil {
				return err
			}
			at := before.UTC().Format(isoLayout)
			was, err := w.setting(ctx, prunedBefore)
			if err != nil || was >= at {
				return err
			}
			return w.exec(ctx, "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", prunedBefore, at)
		})
		if err != nil {
			return removed, err
		}
		if removed += n; n < maxPrune {
			return removed, nil
		}
	}
}

func (w *writer) prune(ctx context.Context, before time.Time, n *int) error {
	var seqs []any
	err := w.query(ctx, "SELECT seq FROM jobs WHERE finished_at < ? ORDER BY finished_at LIMIT ?", []any{w.dialect.at(before), maxPrune}, func(r *sql.Rows) error {
		var seq int64
		err := r.Scan(&seq)
		seqs = append(seqs, seq)
		return err
	})
	if err != nil || len(seqs) == 0 {
		return err
	}
	*n = len(seqs)
	return w.removeRows(ctx, marks(len(seqs)), seqs)
}

func (w *writer) setting(ctx context.Context, name string) (value string, err error) {
	err = w.query(ctx, "SELECT value FROM settings WHERE name = ?", []any{name}, func(r *sql.Rows) error { return r.Scan(&value) })
	return value, err
}

// Owner ties the database to one live store, by the store's name, and refuses
// another: their revisions, which order jobs, cannot be compared.
func (h *History) Owner(ctx context.Context, store string) error {
	const owner = "store"
	return h.writing(ctx, func(w *writer) error {
		was, err := w.setting(ctx, owner)
		switch {
		case err != nil:
			return err
		case was == "":
			return w.exec(ctx, "INSERT INTO settings (name, value) VALUES (?, ?)", owner, store)
		case was != store:
			return errors.Join(errOwned, ares.Errorf(ares.Conflict, "this database has the history of another store (%s, not %s): give each its own database", was, store))
		}
		return nil
	})
}

var errOwned = errors.New("history is another store's")
