package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// expired makes a log whose first entries were removed because of their age, with a head of each day.
func expired(t *testing.T) (dir string, heads []Head) {
	t.Helper()
	l := start(t, t.TempDir(), func(c *Config) { c.Keep = 48 * time.Hour })
	for range 6 {
		l.record(2)
		head, err := l.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, head)
		pass(24 * time.Hour)
	}
	l.stop()
	return l.Dir(), heads
}

// TestForgedFloor removes the first entries of a log and signs, with the server's own key, that they were removed because of their age. The log
// has no entry about it, so the removal is found. Without the forged statement, the same log is good.
func TestForgedFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, _ := expired(t)
		r := good(t, dir)
		if !slices.ContainsFunc(r.NotCompared, func(s string) bool { return strings.Contains(s, "removed because of their age") }) {
			t.Errorf("the report does not say that entries were removed: %v", r.NotCompared)
		}
		forgeFloor(t, dir)
		wantFault(t, verify(t, dir), "somebody removed them")
	})
}

// forgeFloor removes the first segment and signs that its entries were removed because of their age.
func forgeFloor(t *testing.T, dir string) Entry {
	t.Helper()
	all, err := segments(dir)
	if err != nil || len(all) < 2 {
		t.Fatal(all, err)
	}
	last, err := lastEntry(all[0].path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSigner(dir, "s1", all)
	if err != nil {
		t.Fatal(err)
	}
	if err = s.lower(last.Sequence, last.Hash, last.Time.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{all[0].path, filepath.Join(dir, headsName(all[0].first))} {
		if err = os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

// TestHeadOfARemovedEntry checks that a report never says that a log was compared with a head whose entry was removed. A head that is too
// young for its entry to be removed is a fault.
func TestHeadOfARemovedEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, heads := expired(t)
		r := against(t, dir, Check{Heads: heads[:1]})
		if !r.OK() || len(r.Compared) != 0 || !slices.Contains(r.NotCompared, OutsideHead) {
			t.Errorf("an old head: %v, compared with %v, not with %v", r.Faults, r.Compared, r.NotCompared)
		}
		if r = against(t, dir, Check{Heads: heads[len(heads)-1:]}); !r.OK() || !slices.Contains(r.Compared, OutsideHead) {
			t.Errorf("a young head: %v, compared with %v", r.Faults, r.Compared)
		}
		last := forgeFloor(t, dir)
		young := heads[slices.IndexFunc(heads, func(h Head) bool { return h.Sequence >= last.Sequence-1 })]
		young.Sequence = last.Sequence - 1 // below the floor
		v := &verifier{Report: &Report{First: last.Sequence + 1}, low: Head{Sequence: last.Sequence}, expiry: young.Time.Add(-2 * ageSlack)}
		if !v.isCompared("the outside head", young.Sequence, young.Hash, young.Time) || v.OK() {
			t.Error("an entry that was removed too early is not missed")
		}
	})
}

// TestFloorHidesNoMark forges a statement that the marked entry was removed because of its age. The marker must not believe it.
func TestFloorHidesNoMark(t *testing.T) {
	dir, _ := written(t)
	mark := markOf(t, dir)
	mark.Sequence, mark.Hash, mark.Time = 2, strings.Repeat("a", 64), time.Now()
	forgeFloor(t, dir)
	l := start(t, dir, small, func(c *Config) { c.Keep = 24 * time.Hour })
	for _, c := range []struct {
		name string
		mark Mark
		want bool
	}{
		{"a young mark", mark, false},
		{"an old mark", Mark{Sequence: 2, Hash: mark.Hash, Time: time.Now().Add(-25 * time.Hour)}, true},
		{"the floor with another hash", Mark{Sequence: l.signer.floor.Sequence, Hash: mark.Hash, Time: mark.Time.Add(-25 * time.Hour)}, false},
		{"the floor", Mark{Sequence: l.signer.floor.Sequence, Hash: l.signer.floor.Hash, Time: mark.Time}, true},
	} {
		if got, err := l.Contains(t.Context(), c.mark); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
}

// TestMarkerNoticesAnotherKeyAndARemovedMark checks that neither a replaced key nor a mark that was removed from the store is accepted
// silently.
func TestMarkerNoticesAnotherKeyAndARemovedMark(t *testing.T) {
	l := start(t, t.TempDir())
	m, scope := &marks{}, "c1/"
	step := func() string {
		l.record(1)
		marker := &Marker{Log: l.Log, Store: m, Now: time.Now, Scope: scope}
		marker.Step(t.Context(), true)
		l.record(1) // what the marker noted is then on disk, too
		return marker.Problem()
	}
	if why := step(); why != "" || m.stored.Sequence == 0 {
		t.Fatalf("%q, %+v", why, m.stored)
	}
	stored := m.stored
	m.stored.Key = "another"
	if why := step(); !strings.Contains(why, "another key") {
		t.Errorf("a replaced key: %q", why)
	}
	m.stored = Mark{}
	if why := step(); !strings.Contains(why, "somebody removed the mark") || m.stored.Sequence != 0 {
		t.Errorf("a removed mark: %q, and the store has %+v", why, m.stored)
	}
	m.stored = stored
	if why := step(); why != "" {
		t.Errorf("the mark is back: %q", why)
	}
	l.stop()
	l = start(t, l.Dir())
	for _, scope = range []string{"c1/r1", "c2/"} {
		m.stored = Mark{}
		if why := step(); why != "" || m.stored.Sequence == 0 {
			t.Errorf("%s: a store that was restored, or has another identity, never had a mark: %q, %+v", scope, why, m.stored)
		}
		m.stored = Mark{}
		if why := step(); !strings.Contains(why, "somebody removed the mark") {
			t.Errorf("%s: a removed mark: %q", scope, why)
		}
	}
}

// TestFilesUnderARunningServer removes, replaces, cuts and extends the file that a server is writing. The server must reject changes, because
// their entries would be lost.
func TestFilesUnderARunningServer(t *testing.T) {
	for what, attack := range map[string]func(path string) error{
		"removed":                    os.Remove,
		"removed with its directory": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"replaced": func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return writeSafely(path, data)
		},
		"cut":      func(path string) error { return os.Truncate(path, 300) },
		"extended": func(path string) error { return appendSafely(path, []byte("{}\n")) },
	} {
		dir := filepath.Join(t.TempDir(), "audit")
		l := start(t, dir)
		t.Cleanup(func() { _ = os.MkdirAll(dir, 0o700) }) // for the last head
		l.record(3)
		if err := attack(filepath.Join(dir, segmentName(1))); err != nil {
			t.Fatal(err)
		}
		if err := l.Record(t.Context(), testEntry(1)); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "somebody") {
			t.Errorf("%s: an entry was recorded: %v", what, err)
		}
		if ares.CodeOf(l.Ready()) != ares.Unavailable {
			t.Errorf("%s: changes are accepted", what)
		}
		if r, err := l.Verify(Check{}); err != nil || what != "replaced" && what != "extended" && r.OK() {
			t.Errorf("%s: verified as %+v, %v", what, r, err)
		}
	}
}

// TestNoLogIsNoGoodLog checks that an empty directory does not verify.
func TestNoLogIsNoGoodLog(t *testing.T) {
	wantFault(t, verify(t, t.TempDir()), "has no entries")
}

// TestAnotherServersLog puts the log of one server into the directory of another one. The server must not continue it, and a log with entries of
// both must not verify.
func TestAnotherServersLog(t *testing.T) {
	dir, _ := written(t)
	if _, err := Open(Config{Dir: dir, Server: "s2"}); err == nil || !strings.Contains(err.Error(), "is the log of server s1") {
		t.Errorf("another server opened the log: %v", err)
	}
	rechain(t, dir, func(e *Entry) {
		if e.Sequence > 5 {
			e.Server = "s2"
		}
	})
	wantFault(t, verify(t, dir), "two logs were mixed")
}

// TestTornLineIsNoFault checks that the incomplete line of a crash is no fault, unless a signed entry was cut in this way.
func TestTornLineIsNoFault(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir)
	l.record(5)
	head, err := l.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.record(2)
	crashed := copied(t, dir) // without the last head
	path := filepath.Join(crashed, segmentName(1))
	data := read(t, path)
	write(t, path, data[:len(data)-30])
	if r := verify(t, crashed); !r.OK() || r.Last != head.Sequence+1 || !strings.Contains(strings.Join(r.NotCompared, ";"), "incomplete last line") {
		t.Errorf("after a crash: %v, up to %d, not compared with %v", r.Faults, r.Last, r.NotCompared)
	}
	all := lines(data)
	write(t, path, bytes.Join(all[:head.Sequence], nil)[:len(bytes.Join(all[:head.Sequence], nil))-30])
	wantFault(t, verify(t, crashed), "its end was cut off")
}

// TestClockSetBack sets the clock back, writes an entry and sets it forward again. The log must say so.
func TestClockSetBack(t *testing.T) {
	dir := t.TempDir()
	shift := time.Duration(0)
	clock := func(c *Config) { c.Now = func() time.Time { return time.Now().Add(shift) } }
	l := start(t, dir, clock)
	l.record(2)
	l.stop()
	shift = -3 * time.Hour
	l = start(t, dir, clock)
	l.record(2)
	l.stop()
	shift = 0
	l = start(t, dir, clock)
	l.record(2)
	page, err := l.List(t.Context(), Query{Action: ActionClock})
	if err != nil || len(page.Entries) != 1 || !strings.Contains(page.Entries[0].Detail, "set back by 3h0m") {
		t.Errorf("%+v, %v", page.Entries, err)
	}
	l.stop()
	good(t, dir)
	l = start(t, dir, clock)
	page, err = l.List(t.Context(), Query{Action: "SUBMIT_JOB", Since: time.Now().Add(-time.Hour)})
	if err != nil || len(page.Entries) != 4 {
		t.Errorf("the entries before the clock was set back are hidden: %d are found, %v", len(page.Entries), err)
	}
}

// TestCopyIsCompared changes, and removes, entries of the copy in history. `ares audit list` shows the copy, so verify must find both.
func TestCopyIsCompared(t *testing.T) {
	dir, _ := written(t)
	all, err := Find(dir, Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func([]Entry) []Entry
		since  time.Time
		want   string
	}{
		{"the same", func(e []Entry) []Entry { return e }, time.Time{}, ""},
		{"not yet shipped", func(e []Entry) []Entry { return e[:len(e)-5] }, time.Time{}, ""},
		{"an entry was removed", func(e []Entry) []Entry { return slices.Delete(e, 7, 8) }, time.Time{}, "history lacks entry 8"},
		{"an entry was changed", func(e []Entry) []Entry { e[7].User = "somebody-else"; return e }, time.Time{}, "entry 8 differs from the entry in history"},
		{"the beginning was removed", func(e []Entry) []Entry { return e[3:] }, time.Time{}, "history lacks entry 1"},
		{"the beginning is old", func(e []Entry) []Entry { return e[3:] }, time.Now().Add(time.Hour), ""},
	} {
		kept := c.change(slices.Clone(all))
		r := against(t, dir, Check{CopySince: c.since, Copy: func(from uint64) ([]Entry, error) {
			i := slices.IndexFunc(kept, func(e Entry) bool { return e.Sequence >= from })
			if i < 0 {
				return nil, nil
			}
			return slices.Clone(kept[i:min(i+10, len(kept))]), nil
		}})
		if c.want == "" && !r.OK() {
			t.Errorf("%s: %v", c.name, r.Faults)
		}
		if c.want != "" {
			wantFault(t, r, c.want)
		}
	}
}

// TestOutsideHeadBeyondTheEnd gives a running server, whose log was put back, a head of the log that it had before.
func TestOutsideHeadBeyondTheEnd(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir)
	l.record(3)
	l.stop()
	yesterday := copied(t, dir)
	l = start(t, dir)
	l.record(9)
	head, err := l.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l = start(t, yesterday)
	l.record(1)
	r, err := l.Verify(Check{Heads: []Head{head}})
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, r, "its end was cut off")
}
