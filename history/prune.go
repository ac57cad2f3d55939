package history

import (
	"context"
	"database/sql"
	"time"
)

// prunedBefore is the name of a stored setting. Its value is a time, and all jobs that ended before
// that time were removed.
const prunedBefore = "pruned_before"

// maxPrune is the maximum number of jobs that one transaction removes.
const maxPrune = 500

// Prune removes all jobs that ended before a given time, and returns their number. The usage sums still include the
// removed jobs. From then on, Put ignores jobs that ended before the given time. Therefore the caller must be sure
// that every such job is already stored.
func (h *History) Prune(ctx context.Context, before time.Time) (removed int, err error) {
	for {
		n := 0
		err = h.inTransaction(ctx, func(w *writer) error {
			if bad := w.prune(ctx, before, &n); bad != nil {
				return bad
			}
			at := before.UTC().Format(isoLayout)
			was, bad := w.setting(ctx, prunedBefore)
			if bad != nil || was >= at {
				return bad
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
	err := w.query(ctx, "SELECT seq FROM finished_jobs WHERE finished_at < ? ORDER BY finished_at LIMIT ?", []any{w.dialect.at(before), maxPrune}, func(r *sql.Rows) error {
		var seq int64
		err := r.Scan(&seq)
		seqs = append(seqs, seq)
		return err
	})
	if err != nil || len(seqs) == 0 {
		return err
	}
	*n = len(seqs)
	return w.removeRows(ctx, placeholders(len(seqs)), seqs)
}

func (w *writer) setting(ctx context.Context, name string) (value string, err error) {
	err = w.query(ctx, "SELECT value FROM settings WHERE name = ?", []any{name}, func(r *sql.Rows) error { return r.Scan(&value) })
	return value, err
}
