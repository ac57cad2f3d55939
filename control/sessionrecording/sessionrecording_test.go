package sessionrecording

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"github.com/ares-scheduler/ares/objects/bucket"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/asciicast"
	"github.com/ares-scheduler/ares/objects"
)

type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
	Cleanup(f func())
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// recorderAt returns a Recorder over a directory.
func recorderAt(t tester, dir string) *Recorder {
	t.Helper()
	o, err := objects.Open(t.Context(), objects.Config{Place: bucket.InDir(dir)})
	must(t, err)
	t.Cleanup(func() { _ = o.Close() })
	return &Recorder{Objects: o, Mode: All, MaxBytes: 16 << 20, TenantBytes: 1 << 30, Keep: 30 * 24 * time.Hour, Log: slog.New(slog.DiscardHandler), Now: time.Now}
}

func infoOf(tenant, job string) Info {
	now := time.Now()
	return Info{ID: NewID(now), Tenant: tenant, Job: job, JobName: "train", User: "token:" + tenant + "/alice", Node: "gpu-1", Began: now}
}

func (r *Recorder) mustBegin(t tester, info Info) *Recording {
	t.Helper()
	x, err := r.Begin(t.Context(), info, asciicast.Header{Width: 80, Height: 24, Command: "sh"})
	must(t, err)
	return x
}

// The method `replay` returns the events of a recording and what they show.
func (r *Recorder) replay(t tester, ref Info) (shown string, events []asciicast.Event) {
	t.Helper()
	var data bytes.Buffer
	info, err := r.Find(t.Context(), ref.Tenant, ref.ID)
	must(t, err)
	must(t, r.Read(t.Context(), info, func(part []byte) error { data.Write(part); return nil }))
	d, err := asciicast.NewDecoder(&data)
	must(t, err)
	if d.Header.Width != 80 || d.Header.Command != "sh" {
		t.Fatalf("header %+v", d.Header)
	}
	for {
		e, err := d.Next()
		if errors.Is(err, io.EOF) {
			return shown, events
		}
		must(t, err)
		if events = append(events, e); e.Kind == asciicast.Output {
			shown += e.Data
		}
	}
}

func TestRecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorderAt(t, t.TempDir())
		info := infoOf("red", "job-1")
		info.Began = time.Now().UTC()
		x := r.mustBegin(t, info)
		x.Print(Output, []byte("caf\xc3"))
		time.Sleep(1500 * time.Millisecond)
		x.Print(Errors, []byte("oops \xe2\x82"))
		x.Print(Output, []byte("\xa9\r\n"))
		x.Resize(100, 40)
		x.Print(Errors, []byte("\xac"))
		x.Print(Output, []byte("\xf0\x9f"))
		if missing := x.End("exit code 3"); missing != "" {
			t.Errorf("missing %q", missing)
		}
		shown, events := r.replay(t, info)
		if shown != "cafoops é\r\n€\ufffd\ufffd" {
			t.Errorf("replayed %q", shown)
		}
		if want := (asciicast.Event{At: 1500 * time.Millisecond, Kind: asciicast.Resize, Data: "100x40"}); events[3] != want {
			t.Errorf("events %v", events)
		}
		list, next, err := r.List(t.Context(), Query{Tenant: "red", Limit: 10})
		must(t, err)
		if len(list) != 1 || next != "" || list[0].Result != "exit code 3" || list[0].Ended.Sub(info.Began) != 1500*time.Millisecond || list[0].Bytes == 0 || list[0].Missing != 0 {
			t.Errorf("list %+v", list)
		}
		x.Print(Output, []byte("late")) // it must not panic
	})
}

// TestKilledServer abandons recordings, as a server does that is killed. At most the last 5 seconds are lost, whatever was printed and when.
func TestKilledServer(t *testing.T) {
	top := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		pieces := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) piece {
			return piece{rapid.SampledFrom([]string{"é", "€\r\n", "\xf0\x9f", "\x98\x80", "x", strings.Repeat("日", 40_000)}).Draw(rt, "text"), time.Duration(rapid.IntRange(0, 4000).Draw(rt, "pause")) * time.Millisecond}
		}), 1, 20).Draw(rt, "pieces")
		kill := rapid.Bool().Draw(rt, "kill")
		dir, err := os.MkdirTemp(top, "")
		must(rt, err)
		synctest.Test(t, func(t *testing.T) {
			r := recorderAt(t, dir)
			info := infoOf("red", "job-1")
			x := r.mustBegin(t, info)
			began := time.Now()
			all, old := "", ""
			at := make([]time.Duration, len(pieces))
			for i, p := range pieces {
				time.Sleep(p.pause)
				at[i] = time.Since(began)
				x.Print(Output, []byte(p.text))
				synctest.Wait() // the writer keeps up
				all += p.text
			}
			time.Sleep(1700 * time.Millisecond)
			synctest.Wait()
			for i, p := range pieces {
				if at[i] < time.Since(began)-flushEvery {
					old += p.text
				}
			}
			if !kill {
				x.End("exit code 0")
				old = all
			}
			shown, _ := r.replay(t, info)
			if whole := string([]rune(all)); !strings.HasPrefix(whole, shown) || utf8.RuneCountInString(shown)+3 < utf8.RuneCountInString(old) || !kill && shown != whole {
				t.Fatalf("replayed %d bytes of %d; %d are older than %s", len(shown), len(all), len(old), flushEvery)
			}
			list, _, err := r.List(t.Context(), Query{Limit: 10})
			must(t, err)
			if len(list) != 1 || list[0].Ended.IsZero() != kill || list[0].Bytes == 0 {
				t.Fatalf("list %+v", list)
			}
			x.abandon()
		})
	})
}

// A `piece` is output after a pause.
type piece struct {
	text  string
	pause time.Duration
}

// The method `abandon` ends the goroutine of a recording that has not ended.
func (x *Recording) abandon() {
	select {
	case <-x.done:
	default:
		x.Discard()
	}
}

// TestLimitOfARecording records more than fits.
func TestLimitOfARecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorderAt(t, t.TempDir())
		r.MaxBytes = 1 << 20
		info := infoOf("red", "job-1")
		x := r.mustBegin(t, info)
		line := strings.Repeat("x", 32<<10)
		for range 64 {
			x.Print(Output, []byte(line))
			synctest.Wait() // the writer keeps up
		}
		missing := x.End("exit code 0")
		shown, events := r.replay(t, info)
		last := events[len(events)-1]
		if n := len(shown) / len(line); n < 28 || n > 31 || last.Kind != asciicast.Marker || !strings.Contains(last.Data, "limit of 1 MiB") {
			t.Errorf("recorded %d lines, and at last %.80v", n, last)
		}
		if want := fmt.Sprintf("%d bytes of output are missing", 64*len(line)-len(shown)); missing != want {
			t.Errorf("missing %q, want %q", missing, want)
		}
	})
}

// TestStorageFails takes the directory away while a session is recorded. The session does not wait, new ones are refused, and the
// recording says what it lacks.
func TestStorageFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "objects")
	synctest.Test(t, func(t *testing.T) {
		r := recorderAt(t, dir)
		info := infoOf("red", "job-1")
		x := r.mustBegin(t, info)
		x.Print(Output, []byte("before "))
		time.Sleep(flushEvery)
		synctest.Wait()
		must(t, os.Rename(dir, dir+".away"))
		must(t, os.WriteFile(dir, nil, 0o600))
		began := time.Now()
		for range 40 {
			x.Print(Output, bytes.Repeat([]byte("y"), 32<<10))
		}
		if time.Since(began) != 0 {
			t.Error("the session waited for its recording")
		}
		time.Sleep(flushEvery)
		if _, err := r.Begin(t.Context(), infoOf("red", "job-1"), asciicast.Header{}); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "the session was refused") {
			t.Errorf("a session without a recording: %v", err)
		}
		must(t, os.Remove(dir))
		must(t, os.Rename(dir+".away", dir))
		time.Sleep(2 * flushEvery)
		x.Print(Output, []byte(" after"))
		missing := x.End("exit code 0")
		shown, events := r.replay(t, info)
		lost := 0 // in one gap or in several, as the writer was just at work or not
		for _, e := range events {
			var n int
			if _, err := fmt.Sscanf(e.Data, "%d bytes of output are missing", &n); e.Kind == asciicast.Marker && err == nil {
				lost += n
			}
		}
		whole := len("before ") + 40*32<<10 + len(" after")
		if !strings.HasPrefix(shown, "before yyy") || !strings.HasSuffix(shown, "y after") || lost == 0 || len(shown)+lost != whole ||
			missing != fmt.Sprintf("%d bytes of output are missing", lost) {
			t.Errorf("recorded %d bytes of %d, %d in gaps, missing %q", len(shown), whole, lost, missing)
		}
	})
}

// TestRemoval removes recordings by their age and by the limit of their tenant, but none whose session may last.
func TestRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorderAt(t, t.TempDir())
		r.TenantBytes, r.Keep = 1<<20, 24*time.Hour
		record := func(tenant string, size int, end bool) *Recording {
			x := r.mustBegin(t, infoOf(tenant, "job-1"))
			for ; size > 0; size -= 32 << 10 {
				x.Print(Output, make([]byte, 32<<10)) // a NUL takes 6 bytes
				synctest.Wait()
			}
			if end {
				x.End("exit code 0")
			}
			time.Sleep(time.Second)
			return x
		}
		ids := func(tenant string) (out []string) {
			list, _, err := r.List(t.Context(), Query{Tenant: tenant, Limit: 100})
			must(t, err)
			for _, i := range list {
				out = append(out, i.ID)
			}
			return out
		}
		open := record("red", 64<<10, false)
		first, second := record("red", 64<<10, true), record("red", 64<<10, true)
		other := record("blue", 64<<10, true)
		time.Sleep(recount)
		third := record("red", 0, true)
		if got, want := strings.Join(ids("red"), " "), strings.Join([]string{third.ID(), second.ID(), open.ID()}, " "); got != want {
			t.Errorf("beyond the limit: %s, want %s, without %s", got, want, first.ID())
		}
		if got := ids("blue"); len(got) != 1 || got[0] != other.ID() {
			t.Errorf("the other tenant has %v", got)
		}
		page, next, err := r.List(t.Context(), Query{Limit: 2})
		must(t, err)
		rest, end, err := r.List(t.Context(), Query{Limit: 2, Before: next})
		must(t, err)
		if len(page) != 2 || page[1].ID != next || len(rest) != 2 || end != "" || rest[1].ID != open.ID() {
			t.Errorf("pages %v, then %v", page, rest)
		}
		open.End("exit code 0")
		time.Sleep(r.Keep)
		fresh := record("red", 0, true)
		if n, err := r.Expire(t.Context()); err != nil || n != 4 {
			t.Errorf("expired %d, %v", n, err)
		}
		if got := ids(""); len(got) != 1 || got[0] != fresh.ID() {
			t.Errorf("left: %v", got)
		}
	})
}

// TestDiscard leaves nothing of a session that did not begin.
func TestDiscard(t *testing.T) {
	dir := t.TempDir()
	r := recorderAt(t, dir)
	x := r.mustBegin(t, infoOf("red", "job-1"))
	x.Discard()
	left, err := os.ReadDir(filepath.Join(dir, "sessions"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestNamesOfRecordings asks for recordings by names that lead elsewhere.
func TestNamesOfRecordings(t *testing.T) {
	r := recorderAt(t, t.TempDir())
	info := infoOf("red", "job-1")
	r.mustBegin(t, info).End("exit code 0")
	for _, c := range []struct {
		tenant, id string
		code       ares.Code
	}{
		{"red", "../" + info.ID, ares.Invalid}, {"red", "", ares.Invalid}, {"red", info.ID + "/info", ares.Invalid},
		{"../sessions/red", info.ID, ares.NotFound}, {"blue", info.ID, ares.NotFound}, {"", NewID(time.Now()), ares.NotFound},
	} {
		if _, err := r.Find(t.Context(), c.tenant, c.id); ares.CodeOf(err) != c.code {
			t.Errorf("%s %s: %v, want %s", c.tenant, c.id, err, c.code)
		}
	}
	if _, err := r.Find(t.Context(), "", info.ID); err != nil {
		t.Error(err)
	}
	var none *Recorder
	if _, err := none.Find(t.Context(), "", info.ID); ares.CodeOf(err) != ares.FeatureDisabled || none.Wants(true) {
		t.Errorf("without a recorder: %v", err)
	}
}
