package history

import (
	"context"
	"database/sql"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/audit"
)

// Deeds are the entries of the servers' audit logs. They implement audit.Sink.
type Deeds struct{ History *History }

// deedColumns are the columns of the table audit.
const deedColumns = "server, sequence, at, cluster, action, done_by, tenant, outside, object, source, door, request_digest, before_digest, after_digest, " +
	"status, code, request_id, detail, stands_for, since, previous_hash, hash"

// Reached implements audit.Sink.
func (d Deeds) Reached(ctx context.Context, server string) (seq uint64, err error) {
	err = d.History.reading(ctx, "SELECT COALESCE(MAX(sequence), 0) FROM audit WHERE server = ?", []any{server}, func(r *sql.Rows) error { return r.Scan(&seq) })
	return seq, err
}

// Take implements audit.Sink. It refuses entries that do not continue the chain
// of those it holds: they are of another log.
func (d Deeds) Take(ctx context.Context, entries []audit.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	server := entries[0].Server
	return d.History.writing(ctx, func(w *writer) error {
		var at uint64
		var hash string
		err := w.query(ctx, "SELECT sequence, hash FROM audit WHERE server = ? ORDER BY sequence DESC LIMIT 1", []any{server}, func(r *sql.Rows) error { return r.Scan(&at, &hash) })
		if err != nil {
			return err
		}
		fresh := &rows{table: "audit", columns: strings.Split(deedColumns, ", ")}
		for i := range entries {
			e := &entries[i]
			switch {
			case e.Server != server:
				return ares.Errorf(ares.Invalid, "entries of %s and of %s came together", server, e.Server)
			case e.Sequence < at:
				continue
			case e.Sequence == at && e.Hash == hash:
				continue
			case e.Sequence == at || at > 0 && e.Sequence == at+1 && e.Previous != hash:
				return ares.Errorf(ares.Conflict, "entry %d of the audit log of %s is not the one that history has: is this another log of a server with that name?", e.Sequence, server)
			case at > 0 && e.Sequence != at+1:
				return ares.Errorf(ares.Conflict, "entry %d of the audit log of %s does not follow %d", e.Sequence, server, at)
			}
			d.row(fresh, e)
			at, hash = e.Sequence, e.Hash
		}
		return fresh.insert(ctx, w, "")
	})
}

func (d Deeds) row(r *rows, e *audit.Entry) {
	at := d.History.dialect.at
	r.add(e.Server, int64(e.Sequence), at(e.Time), text(e.Cluster), text(e.Action), text(e.User), text(e.Tenant), e.Outside, text(e.Object), text(e.Source), text(e.Door),
		text(e.Request), text(e.Before), text(e.After), string(e.Status), text(e.Code), text(e.RequestID), text(e.Detail), e.Count, at(e.Since), e.Previous, e.Hash)
}

// DeedsAfter is a place in the order of time: the last entry of a page.
type DeedsAfter struct {
	At       time.Time
	Server   string
	Sequence uint64
}

// List finds entries of all servers by their times, the latest first unless asked
// otherwise, and says whether there are more. A page begins behind after, nil for
// the first; From of the query is of one server's log and does not count here.
func (d Deeds) List(ctx context.Context, a audit.Query, after *DeedsAfter) (page []audit.Entry, more bool, err error) {
	q := query{dialect: d.History.dialect, terms: []string{"1 = 1"}}
	q.deeds(&a)
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
	sqlText := "SELECT " + deedColumns + " FROM audit WHERE " + q.where() + " ORDER BY at " + order + ", server " + order + ", sequence " + order + " LIMIT ?"
	err = d.History.reading(ctx, sqlText, append(q.args, limit+1), func(r *sql.Rows) error {
		var e audit.Entry
		var at, since stamp
		bad := r.Scan(&e.Server, &e.Sequence, &at, &e.Cluster, &e.Action, &e.User, &e.Tenant, &e.Outside, &e.Object, &e.Source, &e.Door, &e.Request, &e.Before, &e.After,
			&e.Status, &e.Code, &e.RequestID, &e.Detail, &e.Count, &since, &e.Previous, &e.Hash)
		e.Time, e.Since = at.Time, since.Time
		page = append(page, e)
		return bad
	})
	if len(page) > limit {
		page, more = page[:limit], true
	}
	return page, more, err
}

// deeds asks for what audit.Query.Matches would.
func (q *query) deeds(a *audit.Query) {
	q.equals("done_by", a.User)
	if a.User != "" && a.Unnamed {
		q.and("NOT outside")
	}
	q.equals("UPPER(action)", strings.ToUpper(a.Action))
	q.equals("status", string(a.Status))
	q.equals("code", a.Code)
	if kind := a.Object; strings.HasSuffix(kind, "/") { // "0" is what follows "/" in the order of bytes
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

// Prune removes entries from before a time and returns how many. The last of each
// server stays: it tells how far that server's log has come.
func (d Deeds) Prune(ctx context.Context, before time.Time) (removed int, err error) {
	for {
		n := 0
		err = d.History.writing(ctx, func(w *writer) error {
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
