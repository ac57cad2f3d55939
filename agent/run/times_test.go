//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
	"github.com/ares-scheduler/ares/joblog"
)

// readLines returns the lines of a log from its current offset.
func readLines(ctx context.Context, t *testing.T, l *Log, o joblog.LineOptions) (lines []joblog.Line) {
	t.Helper()
	if err := l.ReadLines(ctx, o, func(part []joblog.Line) error {
		for _, line := range part {
			line.Data = append([]byte(nil), line.Data...)
			lines = append(lines, line)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return lines
}

func (w *world) openLog(k Key) *Log {
	w.Helper()
	l, err := w.OpenLog(k)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = l.Close() })
	return l
}

// TestLogTimes checks that the supervisor records when output was written, that the times survive Forget, and that --since and a tail
// find the right lines.
func TestLogTimes(t *testing.T) {
	w := newWorld(t)
	go1, go2 := filepath.Join(w.dir, "1"), filepath.Join(w.dir, "2")
	for _, path := range []string{go1, go2} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spec := sh("echo first; read -r _ <" + go1 + "; printf 'sec'; read -r _ <" + go2 + "; echo ond; echo third")
	before := time.Now()
	p := w.start(spec)
	log := w.openLog(spec.Key)
	shows := func(text string) { w.eventually("it has printed", func() bool { return w.log(spec.Key) == text }) }
	shows("first\n")
	var marks []time.Time
	for _, step := range []struct{ path, shown string }{{go1, "first\nsec"}, {go2, "first\nsecond\nthird\n"}} {
		w.eventually("another record may be written", func() bool { return time.Since(before) > 3*seat.StampEvery })
		before = time.Now()
		marks = append(marks, before)
		if err := os.WriteFile(step.path, []byte("\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		shows(step.shown)
	}
	w.want(p, Exited, 0)
	if err := w.Forget(spec.Key); err != nil {
		t.Fatal(err)
	}
	log = w.openLog(spec.Key)
	lines := readLines(w.ctx, t, log, joblog.LineOptions{Follow: true})
	if len(lines) != 3 || string(lines[0].Data) != "first" || string(lines[1].Data) != "second" || string(lines[2].Data) != "third" || lines[2].End != 19 {
		t.Fatalf("lines %+v", lines)
	}
	if at := lines[0].Time; at.IsZero() || !at.Before(marks[0]) {
		t.Errorf("the first line is of %v", at)
	}
	for _, line := range lines[1:] { // a line has the time at which it was completed
		if line.Time.Before(marks[1]) || line.Time.After(time.Now()) {
			t.Errorf("line %q is of %v, want %v or later", line.Data, line.Time, marks[1])
		}
	}
	for since, want := range map[time.Time]string{
		marks[0].Add(-time.Hour): "first\nsecond\nthird\n", marks[0]: "second\nthird\n", marks[1]: "second\nthird\n", time.Now().Add(time.Hour): "",
	} {
		if err := log.Since(since); err != nil {
			t.Fatal(err)
		}
		if got := drainLog(w.ctx, t, log, false); got != want {
			t.Errorf("since %v: %q, want %q", since, got, want)
		}
	}
	for n, want := range []string{"", "third", "second", "first"} {
		log.SeekTo(0)
		if err := log.TailMatching(w.ctx, n, regexp.MustCompile("t|c").Match); err != nil {
			t.Fatal(err)
		}
		got := readLines(w.ctx, t, log, joblog.LineOptions{Match: regexp.MustCompile("t|c").Match})
		if len(got) != n || n > 0 && string(got[0].Data) != want {
			t.Errorf("the last %d matching lines are %+v", n, got)
		}
	}
	if _, err := w.root.Lstat(logsDir + "/" + spec.Key.String() + "/" + seat.SpecFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the spec is still there: %v", err)
	}
}

// fakeLog makes a log by hand, with an index that may be anything.
func fakeLog(t *testing.T, files map[string][]byte) *Log {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return newLog(root, follower{watches: new(atomic.Int32)})
}

// TestBadLogIndex checks that output is read in full whatever its index says, and that times never decrease and never lie in the future.
func TestBadLogIndex(t *testing.T) {
	text := "one\ntwo\nthree\n"
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	stamp := func(offset int64, after time.Duration) []byte {
		return seat.Stamp{Offset: offset, Time: at.Add(after).UnixNano(), Span: seat.StampEvery}.Append(nil)
	}
	join := func(parts ...[]byte) (out []byte) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	good := join(stamp(0, 0), stamp(4, time.Second), stamp(8, time.Minute))
	torn := append([]byte(nil), good...)
	torn[seat.StampSize+3] ^= 1
	zero := time.Duration(-1)
	for name, c := range map[string]struct {
		index []byte
		want  [3]time.Duration // after `at`; zero for an unknown time
		since string           // the output since 30 s after `at`
	}{
		"good":          {good, [3]time.Duration{0, time.Second, time.Minute}, "three\n"},
		"missing":       {nil, [3]time.Duration{zero, zero, zero}, text},
		"empty":         {[]byte{}, [3]time.Duration{zero, zero, zero}, text},
		"cut":           {good[:2*seat.StampSize+5], [3]time.Duration{0, time.Second, time.Second}, ""},
		"torn":          {torn, [3]time.Duration{0, 0, time.Minute}, "three\n"},
		"zeros":         {make([]byte, 3*seat.StampSize), [3]time.Duration{zero, zero, zero}, text},
		"garbage":       {[]byte(strings.Repeat("garbage", 1000)), [3]time.Duration{zero, zero, zero}, text},
		"backwards":     {join(stamp(0, time.Minute), stamp(4, time.Second), stamp(8, 0)), [3]time.Duration{time.Minute, time.Minute, time.Minute}, text},
		"same offset":   {join(stamp(0, 0), stamp(0, time.Second), stamp(0, time.Minute)), [3]time.Duration{time.Minute, time.Minute, time.Minute}, text},
		"beyond":        {join(stamp(0, 0), stamp(1<<60, time.Minute)), [3]time.Duration{0, 0, 0}, ""},
		"starts late":   {join(stamp(8, time.Minute)), [3]time.Duration{zero, zero, time.Minute}, "three\n"},
		"in the future": {join(stamp(0, 0), stamp(4, 1e6*time.Hour)), [3]time.Duration{0, time.Since(at), time.Since(at)}, "two\nthree\n"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string][]byte{seat.LogName(0): []byte(text)}
			if c.index != nil {
				files[seat.IndexName(0)] = c.index
			}
			l := fakeLog(t, files)
			lines := readLines(t.Context(), t, l, joblog.LineOptions{})
			if len(lines) != 3 || string(lines[0].Data) != "one" || string(lines[1].Data) != "two" || string(lines[2].Data) != "three" {
				t.Fatalf("lines %+v", lines)
			}
			for i, want := range c.want {
				got := lines[i].Time
				if want == zero && !got.IsZero() || want != zero && (got.Before(at.Add(want)) || got.After(at.Add(want+time.Minute)) || want <= time.Minute && !got.Equal(at.Add(want))) {
					t.Errorf("line %d is of %v, want %v after %v", i, got, want, at)
				}
			}
			if err := l.Since(at.Add(30 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if got := drainLog(t.Context(), t, l, false); got != c.since {
				t.Errorf("since: %q, want %q", got, c.since)
			}
		})
	}
	l := fakeLog(t, map[string][]byte{seat.LogName(0): []byte(text)})
	if err := syscall.Mkfifo(filepath.Join(l.Source().(*logFiles).root.Name(), seat.IndexName(0)), 0o600); err != nil {
		t.Fatal(err)
	}
	if lines := readLines(t.Context(), t, l, joblog.LineOptions{}); len(lines) != 3 || !lines[0].Time.IsZero() {
		t.Errorf("with a pipe as the index: %+v", lines)
	}
}

// TestLongLines checks that a line of a megabyte without an end, binary garbage and a rotation in the middle of a line are read as lines
// of a limited length, and that nothing is lost.
func TestLongLines(t *testing.T) {
	garbage := make([]byte, 300<<10)
	for i := range garbage {
		garbage[i] = byte(i * 7919 >> 3)
	}
	for name, text := range map[string]string{
		"endless": strings.Repeat("x", 1<<20), "garbage": string(garbage), "empty lines": strings.Repeat("\n", 100_000),
		"exact": strings.Repeat("y", joblog.MaxLine) + "\n" + strings.Repeat("z", joblog.MaxLine-1) + "\nend",
	} {
		t.Run(name, func(t *testing.T) {
			half := len(text) / 2
			l := fakeLog(t, map[string][]byte{seat.LogName(0): []byte(text[:half]), seat.LogName(int64(half)): []byte(text[half:])})
			var got strings.Builder
			for _, line := range readLines(t.Context(), t, l, joblog.LineOptions{}) {
				if len(line.Data) > joblog.MaxLine {
					t.Fatalf("a line of %d bytes", len(line.Data))
				}
				got.Write(line.Data)
				if !line.Continued && line.End <= int64(len(text)) && text[line.End-1] == '\n' {
					got.WriteByte('\n')
				}
			}
			if got.String() != text {
				t.Errorf("%d bytes were read, want %d", got.Len(), len(text))
			}
		})
	}
}

// TestIndexIsBounded checks that an index stays within its limit and keeps exact times for the latest output, with the real supervisor.
func TestIndexIsBounded(t *testing.T) {
	w := newWorld(t)
	spec := sh(`i=0; while [ $i -lt 4000 ]; do echo "line $i"; i=$((i+1)); done`)
	spec.LogLimit = seat.MinLogLimit
	w.want(w.start(spec), Exited, 0)
	entries, err := os.ReadDir(filepath.Join(w.dir, seatsDir, spec.Key.String()))
	if err != nil {
		t.Fatal(err)
	}
	var logs, indexes []string
	for _, e := range entries {
		if at, ok := seat.ParseLogName(e.Name()); ok {
			logs = append(logs, fmt.Sprint(at))
		}
		if at, ok := seat.ParseIndexName(e.Name()); ok {
			indexes = append(indexes, fmt.Sprint(at))
			if st, err := e.Info(); err != nil || st.Size() > seat.IndexLimit(spec.LogLimit/2) || st.Size() == 0 {
				t.Errorf("index %s: %v %v", e.Name(), st, err)
			}
		}
	}
	if strings.Join(logs, " ") != strings.Join(indexes, " ") || len(logs) != 2 {
		t.Errorf("logs %v, but indexes %v", logs, indexes)
	}
}
