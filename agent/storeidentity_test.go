package agent

import (
	"log/slog"
	"os"
	"testing"

	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
)

// The function `opened` returns a server's answer to a request for a new session.
func opened(store, restore string, session int64) *apipb.OpenSessionResponse {
	return &apipb.OpenSessionResponse{StoreId: store, RestoreId: restore, Session: session}
}

// TestSeatsOfAnotherStoreAreForeign checks that seats started before a restore, or under another store, get no more renewals.
// After a restart of the agent, these seats must still get no renewals.
func TestSeatsOfAnotherStoreAreForeign(t *testing.T) {
	dir := t.TempDir()
	start := func(fences ...int64) *Agent {
		a := &Agent{cfg: Config{Dir: dir}, log: slog.New(slog.DiscardHandler), seats: map[run.Key]*seat{}, store: readStoreIdentity(dir)}
		for _, f := range fences {
			key := run.Key{Job: "job", Fence: f}
			a.seats[key] = &seat{agent: a, key: key, foreign: f < a.store.since}
		}
		return a
	}
	for _, c := range []struct {
		name    string
		resp    *apipb.OpenSessionResponse
		fence   int64 // fence of an existing seat
		foreign bool
		told    storeIdentity // the stored identity afterwards
	}{
		{"a server that does not tell", opened("", "", 3), 2, false, storeIdentity{}},
		{"the first that tells", opened("one", "", 5), 2, false, storeIdentity{"one", "", 0, 5}},
		{"again", opened("one", "", 9), 7, false, storeIdentity{"one", "", 0, 9}},
		{"restored", opened("one", "r1", 1000), 9, true, storeIdentity{"one", "r1", 1000, 1000}},
		{"again, found after a restart", opened("one", "r1", 1010), 9, true, storeIdentity{"one", "r1", 1000, 1010}},
		{"placed since", opened("one", "r1", 1020), 1015, false, storeIdentity{"one", "r1", 1000, 1020}},
		{"restored once more", opened("one", "r2", 2000), 1015, true, storeIdentity{"one", "r2", 2000, 2000}},
		{"another store", opened("two", "", 4), 2000, true, storeIdentity{"two", "", 4, 4}},
	} {
		a := start(c.fence)
		if err := a.noteStore(c.resp); err != nil {
			t.Fatal(err)
		}
		for _, s := range a.seats {
			if s.foreign != c.foreign {
				t.Errorf("%s: foreign is %v", c.name, s.foreign)
			}
		}
		if got := readStoreIdentity(dir); got != c.told || a.store != c.told {
			t.Errorf("%s: knows %+v, on disk %+v, want %+v", c.name, a.store, got, c.told)
		}
	}
}

// TestTheHighestFenceIsKept checks that the agent remembers the highest fence. The highest fence shows whether a store
// was reset to an earlier time.
func TestTheHighestFenceIsKept(t *testing.T) {
	dir := t.TempDir()
	a := &Agent{cfg: Config{Dir: dir}, log: slog.New(slog.DiscardHandler)}
	if err := a.noteStore(opened("one", "", 5)); err != nil {
		t.Fatal(err)
	}
	for _, fence := range []int64{7, 6} {
		a.orders = []*apipb.SeatOrder{{Seat: &apipb.SeatRef{Fence: fence}}}
		a.noteFences()
	}
	next := &Agent{store: readStoreIdentity(dir)}
	if req := next.openSessionRequest(); req.GetHighestFence() != 7 || req.GetStoreId() != "one" || req.GetWallClock() == nil {
		t.Errorf("it tells %v", req)
	}
}

func TestOverwrittenFence(t *testing.T) {
	dir := t.TempDir()
	l := storeIdentity{store: "store-1", since: 3, highest: 9}
	check := func(what string) {
		t.Helper()
		if err := l.overwrite(dir); err != nil {
			t.Fatal(what, ": ", err)
		}
		if got := readStoreIdentity(dir); got != l {
			t.Errorf("%s: %+v, want %+v", what, got, l)
		}
	}
	check("no file")
	before, err := os.Stat(storeIdentityPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, l.highest = range []int64{10, 1 << 62, 11} {
		check("a file")
	}
	if after, err := os.Stat(storeIdentityPath(dir)); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file is another one: %v", err)
	}
	if err := os.WriteFile(storeIdentityPath(dir), []byte("store-1 - 3 9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("a file of an earlier version")
}
