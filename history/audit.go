package history

import (
	"context"
	"database/sql"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/audit"
)

// AuditEntries stores and lists the entries of the servers' audit logs. AuditEntries implements
// audit.Sink.
type AuditEntries struct{ History *History }

// auditColumns lists the columns of the database table "audit".
const auditColumns = "server, sequence, at, cluster, action, done_by, tenant, outside, object, source, door, request_digest, before_digest, after_digest, " +
	"status, code, request_id, detail, stands_for, since, previous_hash, hash"

// Reached implements audit.Sink.
func (d AuditEntries) Reached(ctx context.Context, server string) (seq uint64, err error) {
	err = d.History.queryRows(ctx, "SELECT COALESCE(MAX(sequence), 0) FROM audit WHERE server = ?", []any{server}, func(r *sql.Rows) error { return r.Scan(&seq) })
	return seq, err
}

// Take implements audit.Sink. If entries do not continue the hash chain that is stored for the server, Take rejects
// them, because they belong to another log.
func (d AuditEntries) Take(ctx context.Context, entries []audit.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	server := entries[0].Server
	return d.History.inTransaction(ctx, func(w *writer) error {
		var at uint64
		var hash string
		err := w.query(ctx, "SELECT sequence, hash FROM audit WHERE server = ? ORDER BY sequence DESC LIMIT 1", []any{server}, func(r *sql.Rows) error { return r.Scan(&at, &hash) })
		if err != nil {
			return err
		}
		fresh := &rows{table: "audit", columns: strings.Split(auditColumns, ", ")}
		for i := range entries {
			e := &entries[i]
			switch {
			case e.Server != server:
				return ares.Errorf(ares.Invalid, "one call must not contain audit entries of two servers: %s and %s", server, e.Server)
			case e.Sequence < at:
				continue
			case e.Sequence == at && e.Hash == hash:
				continue
			case e.Sequence == at || at > 0 && e.Sequence == at+1 && e.Previous != hash:
				return ares.Errorf(ares.Conflict, "entry %d of the audit log of server %s differs from the entry in history: check that no other server has the same name", e.Sequence, server)
			case at > 0 && e.Sequence != at+1:
				return ares.Errorf(ares.Conflict, "entry %d of the audit log of server %s must follow the last entry in history, which is entry %d", e.Sequence, server, at)
			}
			d.row(fresh, e)
			at, hash = e.Sequence, e.Hash
		}
		return fresh.insert(ctx, w, "")
	})
}

func (d AuditEntries) row(r *rows, e *audit.Entry) {
	at := d.History.dialect.at
	r.add(e.Server, int64(e.Sequence), at(e.Time), text(e.Cluster), text(e.Action), text(e.User), text(e.Tenant), e.Outside, text(e.Object), text(e.Source), text(e.Door),
		text(e.Request), text(e.Before), text(e.After), string(e.Status), text(e.Code), text(e.RequestID), text(e.Detail), e.Count, at(e.Since), e.Previous, e.Hash)
}

// AuditCursor identifies the last entry of a page, so that the next page can begin after it.
type AuditCursor struct {
	At       time.Time
	Server   string
	Sequence uint64
}

// List finds the entries of all servers, ordered by time. The latest entry is first unless the query asks for the reverse order. The
// result `more` reports whether further entries exist. A page begins after the cursor. For the first page, the cursor is nil. The From
// field of the query is ignored, because it refers to the log of one server.
func (d AuditEntries) List(ctx context.Context, a audit.Query, after *AuditCursor) (page []audit.Entry, more bool, err error) {
	q := query{dialect: d.History.dialect, terms: []string{"1 = 1"}}
	q.auditFilter(&a)
	order, behind := "DESC", "<"
	if a.OldestFirst {
		order, behind = "ASC", ">"
	}
	if after != nil {
		q.and("(at, server, sequence) "+behind+" (?, ?, ?)", q.dialect.at(after.At), after.Server, int64(after.Sequence))
	}
	limit := a.Limit
	if limit <= 0 {
		limit = 100
	}
	sqlText := "SELECT " + auditColumns + " FROM audit WHERE " + q.where() + " ORDER BY at " + order + ", server " + order + ", sequence " + order + " LIMIT ?"
	err = d.History.queryRows(ctx, sqlText, append(q.args, limit+1), func(r *sql.Rows) error {
		e, bad := scanAudit(r)
		page = append(page, e)
		return bad
	})
	if len(page) > limit {
		page, more = page[:limit], true
	}
	return page, more, err
}

// auditFilter adds SQL conditions that select the same entries as audit.Query.Matches.
func (q *query) auditFilter(a *audit.Query) {
	q.equals("done_by", a.User)
	if a.User != "" && a.Unnamed {
		q.and("NOT outside")
	}
	q.equals("UPPER(action)", strings.ToUpper(a.Action))
	q.equals("status", string(a.Status))
	q.equals("code", a.Code)
	if kind := a.Object; strings.HasSuffix(kind, "/") { // in the order of bytes, "0" follows "/"
		q.and("(object = ? OR object > ? AND object < ?)", kind, kind, strings.TrimSuffix(kind, "/")+"0")
	} else {
		q.equals("object", kind)
	}
	if a.Tenants != nil {
		var scopes []Scope
		for _, t := range a.Tenants {
			scopes = append(scopes, Scope{Tenant: t})
		}
		if scopes == nil {
			q.and("1 = 0")
		}
		q.within("tenant", "", scopes)
	}
	if !a.Since.IsZero() {
		q.and("at >= ?", q.dialect.at(a.Since))
	}
	if !a.Until.IsZero() {
		q.and("at < ?", q.dialect.at(a.Until))
	}
}

// Prune removes audit entries that are older than a given time, and returns how many it removed. Prune never removes the last
// entry of a server, because that entry records which part of the server's log has been shipped.
func (d AuditEntries) Prune(ctx context.Context, before time.Time) (removed int, err error) {
	for {
		n := 0
		err = d.History.inTransaction(ctx, func(w *writer) error {
			const old = " FROM audit WHERE at < ? AND sequence < (SELECT MAX(l.sequence) FROM audit l WHERE l.server = audit.server)"
			type key struct {
				server string
				seq    int64
			}
			var found []key
			bad := w.query(ctx, "SELECT server, sequence"+old+" ORDER BY at LIMIT ?", []any{w.dialect.at(before), maxPrune}, func(r *sql.Rows) error {
				var k key
				scanned := r.Scan(&k.server, &k.seq)
				found = append(found, k)
				return scanned
			})
			for _, k := range found {
				if bad == nil {
					bad = w.exec(ctx, "DELETE FROM audit WHERE server = ? AND sequence = ?", k.server, k.seq)
				}
			}
			n = len(found)
			return bad
		})
		if err != nil {
			return removed, err
		}
		if removed += n; n < maxPrune {
			return removed, nil
		}
	}
}
