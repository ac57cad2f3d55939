package agent

import (
	"log/slog"
	"testing"

	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
)

// opened is what a server answers to a session.
func opened(store, restore string, session int64) *apipb.OpenSessionResponse {
	return &apipb.OpenSessionResponse{StoreId: store, RestoreId: restore, Session: session}
}

// TestSeatsOfAnotherStoreAreForeign: after a restore, or at another store, what
// was started before is renewed no more, over restarts of the agent too.
func TestSeatsOfAnotherStoreAreForeign(t *testing.T) {
	dir := t.TempDir()
	start := func(fences ...int64) *Agent {
		a := &Agent{cfg: Config{Dir: dir}, log: slog.New(slog.DiscardHandler), seats: map[run.Key]*seat{}, store: readLineage(dir)}
		for _, f := range fences {
			key := run.Key{Job: "job", Fence: f}
			a.seats[key] = &seat{agent: a, key: key, foreign: f < a.store.since}
		}
		return a
	}
	for _, c := range []struct {
		name    string
		resp    *apipb.OpenSessionResponse
		fence   int64 // of a seat that is there
		foreign bool
		told    lineage // what is known afterwards
	}{
		{"a server that does not tell", opened("", "", 3), 2, false, lineage{}},
		{"the first that tells", opened("one", "", 5), 2, false, lineage{"one", "", 0, 5}},
		{"again", opened("one", "", 9), 7, false, lineage{"one", "", 0, 9}},
		{"restored", opened("one", "r1", 1000), 9, true, lineage{"one", "r1", 1000, 1000}},
		{"again, found after a restart", opened("one", "r1", 1010), 9, true, lineage{"one", "r1", 1000, 1010}},
		{"placed since", opened("one", "r1", 1020), 1015, false, lineage{"one", "r1", 1000, 1020}},
		{"restored once more", opened("one", "r2", 2000), 1015, true, lineage{"one", "r2", 2000, 2000}},
		{"another store", opened("two", "", 4), 2000, true, lineage{"two", "", 4, 4}},
	} {
		a := start(c.fence)
		if err := a.belong(c.resp); err != nil {
			t.Fatal(err)
		}
		for _, s := range a.seats {
			if s.foreign != c.foreign {
				t.Errorf("%s: foreign is %v", c.name, s.foreign)
			}
		}
		if got := readLineage(dir); got != c.told || a.store != c.told {
			t.Errorf("%s: knows %+v, on disk %+v, want %+v", c.name, a.store, got, c.told)
		}
	}
}

// TestTheHighestFenceIsKept: it is what shows that a store was put back in time.
func TestTheHighestFenceIsKept(t *testing.T) {
	dir := t.TempDir()
	a := &Agent{cfg: Config{Dir: dir}, log: slog.New(slog.DiscardHandler)}
	if err := a.belong(opened("one", "", 5)); err != nil {
		t.Fatal(err)
	}
	for _, fence := range []int64{7, 6} {
		a.orders = []*apipb.SeatOrder{{Seat: &apipb.SeatRef{Fence: fence}}}
		a.noteFences()
	}
	next := &Agent{store: readLineage(dir)}
	if req := next.introduce(); req.GetHighestFence() != 7 || req.GetStoreId() != "one" || req.GetWallClock() == nil {
		t.Errorf("it tells %v", req)
	}
}
