package server

import (
	"reflect"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/history/historytest"
	"github.com/ares-scheduler/ares/store"
)

// TestRestoreReadsTheRoster writes the roster of a hub into history, as the hub's leader does. A restore must read the same.
func TestRestoreReadsTheRoster(t *testing.T) {
	base := historytest.SQLite(t)
	s := &Server{Accounting: accounting.NewAccounting(cache.NewView(time.Now), base.Open(t), time.Now)}
	want := &store.Roster{Hub: "hub", Version: 9, Clusters: []store.RosterEntry{{Name: "east", Store: "s1", Since: 7, CertifiedFrom: 5}, {Name: "west", Since: 8}}}
	if err := s.recordRoster(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	var got store.Restoration
	if err := (&Restoration{History: base.Config.File}).readHistory(t.Context(), &got); err != nil || !reflect.DeepEqual(got.Roster, want) {
		t.Errorf("the restore reads %+v, %v", got.Roster, err)
	}
}
