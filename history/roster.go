package history

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
)

// Roster lists the clusters of a hub. If the hub is restored from a backup that does not know one of them, the restore
// learns of it here.
type Roster struct {
	Hub     string // the ID of the hub's store
	Version int64  // a revision of the hub's store
	// Clusters is not interpreted by this package.
	Clusters json.RawMessage
}

// rosterSetting is the name of the setting that holds the roster.
const rosterSetting = "roster"

// PutRoster writes the roster of a hub, unless the database has this one or a later one. The database must belong to the
// hub's store, or to none yet.
func (h *History) PutRoster(ctx context.Context, r Roster) error {
	if err := h.CheckOwner(ctx, r.Hub); err != nil {
		return err
	}
	value, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode roster: %w", err)
	}
	return h.inTransaction(ctx, func(w *writer) error {
		was, err := w.setting(ctx, rosterSetting)
		if err != nil {
			return err
		}
		old, err := readRoster(was)
		if err != nil || old != nil && old.Version >= r.Version {
			return err
		}
		return w.exec(ctx, "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", rosterSetting, string(value))
	})
}

// Roster reads the roster. It is nil if there is none.
func (h *History) Roster(ctx context.Context) (*Roster, error) {
	text := ""
	err := h.queryRows(ctx, "SELECT value FROM settings WHERE name = ?", []any{rosterSetting}, func(r *sql.Rows) error { return r.Scan(&text) })
	if err != nil {
		return nil, err
	}
	return readRoster(text)
}

func readRoster(text string) (*Roster, error) {
	if text == "" {
		return nil, nil
	}
	r := &Roster{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("read the roster in history: %w", err)
	}
	return r, nil
}
