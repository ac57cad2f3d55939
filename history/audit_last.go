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
