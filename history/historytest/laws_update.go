package historytest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/history"
)

// A caller may start a migration and then time out. anUpdateOutlivesWhoAsked checks that the migration continues. The caller's error
// must say that a migration is running, and the migration must not be rolled back.
func anUpdateOutlivesWhoAsked(t *testing.T, b Base) {
	put(t, b.Open(t), 1, Made{ID: "a"}.Finished())
	const version = "SELECT MAX(version_id) FROM goose_db_version"
	latest := b.count(t, version)
	b.DownTo(t, 2)
	another, err := b.Raw.BeginTx(t.Context(), nil) // a long write transaction
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = another.Rollback() }()
	if _, err = another.ExecContext(t.Context(), "DELETE FROM jobs WHERE seq = 0"); err != nil {
		t.Fatal(err)
	}
	h := b.Open(t)
	for err = nil; !errors.Is(err, history.ErrUpdating); { // either caller may start the migration
		err = func() error {
			hasty, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			return h.Ready(hasty)
		}()
	}
	if n := b.count(t, version); n != 2 {
		t.Fatalf("the tables are of version %d while another writes", n)
	}
	if err = another.Rollback(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for b.count(t, version) != latest { // no caller is needed for this
		<-tick.C
	}
	if n, bad := h.Count(t.Context(), history.Filter{}); bad != nil || n != 1 {
		t.Errorf("%d are counted, want 1; %v", n, bad)
	}
	if err = h.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
