package history

import (
	"context"
	"database/sql"
	"errors"

	ares "github.com/ares-scheduler/ares"
)

// owner is the name of the setting that holds the identity of the store.
const owner = "store"

// CheckOwner ties the database to one live store, which it recognises by the store's identity. It rejects any other store. Jobs
// are ordered by store revisions, and the revisions of different stores cannot be compared.
func (h *History) CheckOwner(ctx context.Context, store string) error {
	return h.inTransaction(ctx, func(w *writer) error {
		was, err := w.setting(ctx, owner)
		switch {
		case err != nil:
			return err
		case was == "":
			return w.exec(ctx, "INSERT INTO settings (name, value) VALUES (?, ?)", owner, store)
		case was != store:
			return errors.Join(errOwned, ares.Errorf(ares.Conflict, "this database contains the history of store %s, not of store %s: use a separate database for each store", was, store))
		}
		return nil
	})
}

var errOwned = errors.New("the history database belongs to another store")

// Owner returns the identity of the store that the database belongs to, or "" before the first write.
func (h *History) Owner(ctx context.Context) (store string, err error) {
	err = h.queryRows(ctx, "SELECT value FROM settings WHERE name = ?", []any{owner}, func(r *sql.Rows) error { return r.Scan(&store) })
	return store, err
}
