package audit

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// The function `markOf` returns the mark that the store would have of a closed log.
func markOf(t *testing.T, dir string) Mark {
	t.Helper()
	all, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	last, err := lastEntry(all[len(all)-1].path)
	if err != nil {
		t.Fatal(err)
	}
	return Mark{Server: "s1", Sequence: last.Sequence, Hash: last.Hash, Key: verify(t, dir).Key, Time: last.Time, Origin: "the mark in the store"}
}

func against(t *testing.T, dir string, check Check) *Report {
	t.Helper()
	r, err := Verify(dir, check)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMarkRevealsACutLogWithItsHeads cuts entries and heads alike, and puts an older copy of the whole directory back. The files
// alone then verify clean, so the mark must reveal it. Both ways of reading, the whole log and only its end, must find it.
func TestMarkRevealsACutLogWithItsHeads(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir, small)
	l.record(20)
	l.stop()
	yesterday := copied(t, dir)
	l = start(t, dir, small)
	l.record(20)
	l.stop()
	mark := markOf(t, dir)

	cut := copied(t, dir)
	all, err := segments(cut)
	if err != nil || len(all) < 4 {
		t.Fatal(all, err)
	}
	for _, s := range all[len(all)-2:] {
		for _, name := range []string{s.path, filepath.Join(cut, headsName(s.first))} {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, endOnly := range []bool{false, true} {
		check := Check{Marks: []Mark{mark}, EndOnly: endOnly}
		if r := against(t, dir, check); !r.OK() || len(r.Compared) != 1 {
			t.Errorf("a log that nobody touched: %v, compared with %v", r.Faults, r.Compared)
		}
		for _, old := range []string{yesterday, cut} {
			good(t, old)
			wantFault(t, against(t, old, check), "an older copy of the log was put back")
		}
	}
}

// TestMarkRevealsAForgedLog checks that a log whose hashes and heads were all made again differs from the mark.
func TestMarkRevealsAForgedLog(t *testing.T) {
	dir, _ := written(t)
	mark := markOf(t, dir)
	forge := func(e *Entry) {
		if e.Sequence == 3 {
			e.User = "somebody-else"
		}
	}
	rechain(t, dir, forge)
	resign(t, dir)
	good(t, dir)
	r := against(t, dir, Check{Marks: []Mark{mark}})
	wantFault(t, r, "differs from the entry that the mark in the store remembers")
	wantFault(t, r, "is signed with the key")
	mark.Key = "" // history knows no key
	wantFault(t, against(t, dir, Check{Marks: []Mark{mark}}), "differs from the entry that the mark in the store remembers")
}

// TestEndOnlyLeavesOutTheBeginning checks that a fast verification does not read the segments before the mark.
func TestEndOnlyLeavesOutTheBeginning(t *testing.T) {
	dir, _ := written(t)
	mark := markOf(t, dir)
	path := filepath.Join(dir, segmentName(1))
	write(t, path, bytes.ToUpper(read(t, path)))
	if r := against(t, dir, Check{Marks: []Mark{mark}, EndOnly: true}); !r.OK() || r.First == 1 || r.Last != mark.Sequence {
		t.Errorf("entries %d to %d: %v", r.First, r.Last, r.Faults)
	}
	if against(t, dir, Check{Marks: []Mark{mark}}).OK() {
		t.Error("the whole log was not read")
	}
}

// TestReportNamesWhatIsMissing checks that a report says what the log was not compared with.
func TestReportNamesWhatIsMissing(t *testing.T) {
	dir, head := written(t)
	r := against(t, dir, Check{NotCompared: []string{"history: it is down"}})
	if !slices.Equal(r.NotCompared, []string{"history: it is down", OutsideHead}) || len(r.Compared) != 0 {
		t.Errorf("compared with %v, not with %v", r.Compared, r.NotCompared)
	}
	if r = against(t, dir, Check{Heads: []Head{head}}); len(r.NotCompared) != 0 || !slices.Equal(r.Compared, []string{OutsideHead}) {
		t.Errorf("compared with %v, not with %v", r.Compared, r.NotCompared)
	}
}

// The type `marks` is a MarkStore in memory.
type marks struct {
	mu     sync.Mutex
	stored Mark
	moves  int
	down   error
}

func (m *marks) AuditMark(context.Context, string) (Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stored, m.down
}

func (m *marks) MoveAuditMark(_ context.Context, from, to Mark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down != nil {
		return m.down
	}
	if from.Sequence != m.stored.Sequence || from.Hash != m.stored.Hash {
		return ares.Errorf(ares.Conflict, "another mark")
	}
	m.stored = to
	m.moves++
	return nil
}

// TestMarkerIsRare checks how often the store is written: at most every 10 s or 1,024 entries, and never if the log has not grown.
func TestMarkerIsRare(t *testing.T) {
	l := start(t, t.TempDir())
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m := &marks{}
	marker := &Marker{Log: l.Log, Store: m, Now: func() time.Time { return now }}
	step := func(want int, why string) {
		t.Helper()
		marker.Step(t.Context(), false)
		if m.moves != want {
			t.Errorf("%s: %d writes, want %d", why, m.moves, want)
		}
	}
	l.record(1)
	step(1, "the first entry")
	l.record(1)
	step(1, "an entry soon after")
	now = now.Add(markAfter)
	step(2, "the same entry later")
	now = now.Add(time.Hour)
	step(2, "no entry")
	l.record(1)
	m.down = ares.Errorf(ares.Unavailable, "the store is away")
	step(2, "the store is away")
	m.down = nil
	step(3, "the store is back")
	var many []Entry
	for i := range markEntries {
		many = append(many, testEntry(i))
	}
	if err := l.Record(t.Context(), many...); err != nil {
		t.Fatal(err)
	}
	step(4, "many entries at once")
	seq, hash := l.Position()
	if m.stored.Sequence != seq || m.stored.Hash != hash || m.stored.Key != l.Key() {
		t.Errorf("the mark is %+v, the log is at %d, %s", m.stored, seq, hash)
	}
}

// TestMarkerNeverMarksAnotherLog puts an older copy of a log back and lets it grow beyond the mark. The mark must stay, because a new one
// would hide that the log was replaced.
func TestMarkerNeverMarksAnotherLog(t *testing.T) {
	dir := t.TempDir()
	m := &marks{}
	l := start(t, dir, small)
	l.record(5)
	l.stop()
	old := copied(t, dir)
	l = start(t, dir, small)
	l.record(5)
	marker := &Marker{Log: l.Log, Store: m, Now: time.Now}
	marker.Step(t.Context(), true)
	l.stop()
	want := m.stored
	if want.Sequence == 0 || marker.Problem() != "" {
		t.Fatalf("%+v, %s", want, marker.Problem())
	}

	back := start(t, old, small)
	again := &Marker{Log: back.Log, Store: m, Now: time.Now}
	for range 3 {
		again.Step(t.Context(), true)
		back.record(10)
	}
	if m.stored != want || again.Problem() == "" {
		t.Errorf("the mark moved from %+v to %+v; the problem is %q", want, m.stored, again.Problem())
	}
	page, err := back.List(t.Context(), Query{Action: ActionBehind})
	if err != nil || len(page.Entries) != 1 {
		t.Errorf("the log itself has %v, %v about it", page.Entries, err)
	}

	// A store that was restored has an older mark of the same log. The marker goes on from it.
	whole := start(t, dir, small)
	third := &Marker{Log: whole.Log, Store: m, Now: time.Now}
	whole.record(1)
	third.Step(t.Context(), true)
	first := m.stored
	whole.record(1)
	third.Step(t.Context(), true)
	m.stored = first
	whole.record(1)
	third.Step(t.Context(), true) // finds the other mark
	third.Step(t.Context(), true)
	if seq, _ := whole.Position(); m.stored.Sequence != seq || third.Problem() != "" {
		t.Errorf("the mark is entry %d of %d; the problem is %q", m.stored.Sequence, seq, third.Problem())
	}
}
