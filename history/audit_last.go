package history

import (
	"context"
	"database/sql"

	"github.com/ares-scheduler/ares/audit"
)

// LastMark returns the last entry of a server's log that was shipped to history, as a mark. Each entry contains the hash of the one before
// it, so a log that contains the last shipped entry also contains all entries before it. Without entries, the sequence number is 0.
func (d AuditEntries) LastMark(ctx context.Context, server string) (m audit.Mark, err error) {
	m = audit.Mark{Server: server, Origin: "history"}
	err = d.History.queryRows(ctx, "SELECT sequence, hash, at FROM audit WHERE server = ? ORDER BY sequence DESC LIMIT 1", []any{server}, func(r *sql.Rows) error {
		var at scannedTime
		scanned := r.Scan(&m.Sequence, &m.Hash, &at)
		m.Time = at.Time
		return scanned
	})
	return m, err
}

// copiesAtOnce is how many entries From reads at once.
const copiesAtOnce = 2000

// From returns entries of one server's log as history has them, in the order of their sequence numbers and beginning with the given one. They are
// compared with the log itself, because `ares audit list` shows the entries in history.
func (d AuditEntries) From(ctx context.Context, server string, from uint64) (page []audit.Entry, err error) {
	sqlText := "SELECT " + auditColumns + " FROM audit WHERE server = ? AND sequence >= ? ORDER BY sequence LIMIT ?"
	err = d.History.queryRows(ctx, sqlText, []any{server, int64(from), copiesAtOnce}, func(r *sql.Rows) error {
		e, bad := scanAudit(r)
		page = append(page, e)
		return bad
	})
	return page, err
}

// scanAudit reads a row with all columns.
func scanAudit(r *sql.Rows) (e audit.Entry, err error) {
	var at, since scannedTime
	err = r.Scan(&e.Server, &e.Sequence, &at, &e.Cluster, &e.Action, &e.User, &e.Tenant, &e.Outside, &e.Object, &e.Source, &e.Door, &e.Request, &e.Before, &e.After,
		&e.Status, &e.Code, &e.RequestID, &e.Detail, &e.Count, &since, &e.Previous, &e.Hash)
	e.Time, e.Since = at.Time, since.Time
	return e, err
}
