package agent

import (
	"context"
	"errors"
	"fmt"
	"github.com/ares-scheduler/ares/objects/bucket"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/joblog"
	"github.com/ares-scheduler/ares/objects/logs"
)

// memoryLog is the output of a rank on a node, in memory.
type memoryLog struct {
	files []memoryFile
}

type memoryFile struct {
	start   int64
	data    []byte
	changed time.Time
	stamps  joblog.Stamps
}

func (l *memoryLog) Files() (out []int64, err error) {
	for _, f := range l.files {
		out = append(out, f.start)
	}
	return out, nil
}

func (l *memoryLog) at(start int64) *memoryFile {
	for i := range l.files {
		if l.files[i].start == start {
			return &l.files[i]
		}
	}
	return &memoryFile{}
}

func (l *memoryLog) Stat(start int64) (int64, time.Time, error) {
	f := l.at(start)
	return int64(len(f.data)), f.changed, nil
}

func (l *memoryLog) ReadAt(start int64, b []byte, offset int64) (int, error) {
	f := l.at(start)
	return copy(b, f.data[min(offset-start, int64(len(f.data))):]), nil
}

func (l *memoryLog) Times(start int64) joblog.Times {
	if f := l.at(start); len(f.stamps) > 0 {
		return f.stamps
	}
	return nil
}

func (l *memoryLog) Ended() bool  { return true }
func (l *memoryLog) Close() error { return nil }

// randomLog draws output with lines of all lengths, one rotation or none, and an index that may lack times or lie.
func randomLog(t *rapid.T) *memoryLog {
	l := &memoryLog{}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	start := rapid.Int64Range(0, 1<<40).Draw(t, "start")
	for i := range rapid.IntRange(0, 2).Draw(t, "files") {
		f := memoryFile{start: start, changed: at.Add(time.Hour)}
		for range rapid.IntRange(0, 6).Draw(t, fmt.Sprintf("bursts of file %d", i)) {
			if rapid.Bool().Draw(t, "has a time") {
				offset := start + int64(len(f.data)) + rapid.SampledFrom([]int64{0, 0, 0, -5, 1 << 50}).Draw(t, "lie")
				f.stamps = append(f.stamps, joblog.Stamp{Offset: offset, Time: at.UnixNano(), Span: 100 * time.Millisecond})
			}
			at = at.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, -time.Minute}).Draw(t, "pause"))
			line := rapid.SampledFrom([]string{"", "ok\n", "error: x\n", "no newline", strings.Repeat("y", 70_000), strings.Repeat("line of a log\n", 30_000)}).Draw(t, "text")
			f.data = append(f.data, line...)
		}
		l.files = append(l.files, f)
		start += int64(len(f.data))
		if len(f.data) == 0 {
			break // a successor would have the same name
		}
	}
	return l
}

// randomQuery draws a selection.
func randomQuery(t *rapid.T, l *memoryLog) joblog.Query {
	first, end, err := joblog.New(l).Bounds()
	if err != nil {
		t.Fatal(err)
	}
	q := joblog.Query{Lines: rapid.Bool().Draw(t, "lines"), Follow: rapid.Bool().Draw(t, "follow")}
	switch rapid.IntRange(0, 4).Draw(t, "selection") {
	case 0:
		q.Offset = new(rapid.Int64Range(max(first-10, 0), end+10).Draw(t, "offset"))
	case 1:
		q.TailBytes = rapid.Int64Range(0, end-first+10).Draw(t, "tail bytes")
	case 2:
		q.TailLines = new(rapid.Int64Range(0, 40_000).Draw(t, "tail lines"))
	case 3:
		q.Since = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(rapid.Int64Range(-100, 1000).Draw(t, "since")) * time.Second)
	}
	if q.Lines && rapid.Bool().Draw(t, "grep") {
		q.Match = regexp.MustCompile("error|o log|^$").Match
	}
	return q
}

// sentOf returns all that a reader of a log gets.
func sentOf(ctx context.Context, source joblog.Source, q joblog.Query) (out string, err error) {
	var b strings.Builder
	err = joblog.New(source).Send(ctx, &q, func(p joblog.Part) error {
		b.Write(p.Data)
		for _, line := range p.Lines {
			fmt.Fprintf(&b, "%s %d %t %s\n", line.Data, line.End, line.Continued, line.Time.UTC())
		}
		if len(p.Data)+len(p.Lines) == 0 {
			fmt.Fprintf(&b, "from %d\n", *p.Offset)
		}
		return nil
	})
	return b.String(), err
}

// TestStoredOutputIsThatOfTheNode stores random output in parts, some of them twice and with a pause in which the agent forgets what it has
// sent, and compares what readers get from the node and from the store.
func TestStoredOutputIsThatOfTheNode(t *testing.T) {
	dir, n := t.TempDir(), int64(0)
	rapid.Check(t, func(t *rapid.T) {
		n++
		key := run.Key{Job: "job-x", Fence: 1000 + n, Rank: rapid.IntRange(0, 3).Draw(t, "rank")}
		store, err := logs.Open(t.Context(), logs.Config{Place: bucket.InDir(dir), Keep: time.Hour, Gather: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		placed := time.Unix(1_800_000_000, 0)
		node := randomLog(t)
		u := newLogUploads()
		for isLast := false; !isLast; {
			r, err := u.reader(key, node)
			if err != nil {
				t.Fatal(err)
			}
			part, end, err := r.part(rapid.IntRange(1, 1<<20).Draw(t, "size of a part"))
			if err != nil {
				t.Fatal(err)
			}
			part.Seat = refOf(key)
			if err = store.Put(t.Context(), []logs.Entry{{Tenant: "vision", Placed: placed, Log: part}}); err != nil {
				t.Fatal(err)
			}
			isLast = end.isLast
			if !rapid.Bool().Draw(t, "the answer is lost") {
				u.sent[key] = end.offset
			} else {
				isLast = false
			}
		}
		for range 4 {
			q := randomQuery(t, node)
			want, err := sentOf(t.Context(), node, q)
			if err != nil {
				t.Fatal(err)
			}
			found, err := store.Find(t.Context(), logs.Rank{Tenant: "vision", Placed: placed, Job: key.Job, Fence: key.Fence, Rank: key.Rank})
			if err != nil || found == nil {
				t.Fatalf("not found: %v", err)
			}
			got, err := sentOf(t.Context(), found, q)
			if err != nil || got != want {
				t.Fatalf("the store has %d bytes, the node %d: %v\n%.300q\n%.300q", len(got), len(want), err, got, want)
			}
		}
		for _, other := range []logs.Rank{
			{Tenant: "speech", Placed: placed, Job: key.Job, Fence: key.Fence, Rank: key.Rank},
			{Tenant: "vision", Placed: placed, Job: "job-y", Fence: key.Fence, Rank: key.Rank},
			{Tenant: "vision", Placed: placed, Job: key.Job, Fence: key.Fence + 1, Rank: key.Rank},
			{Tenant: "vision", Placed: placed, Job: key.Job, Fence: key.Fence, Rank: key.Rank + 4},
		} {
			if found, err := store.Find(t.Context(), other); found != nil || err != nil {
				t.Fatalf("%+v has the output of %s: %v", other, key, err)
			}
		}
	})
}

// logDoor stores the logs that an agent sends, and can fail.
type logDoor struct {
	apipb.AgentServiceClient
	t      *testing.T
	store  *logs.Store
	fail   func(calls int) error // before the call is handled; nil for never
	lose   func(calls int) bool  // the call is handled, and its answer is lost
	result *apipb.StoreLogResult
	calls  int
	ranks  int
}

func (d *logDoor) StoreLogs(ctx context.Context, req *apipb.StoreLogsRequest, _ ...grpc.CallOption) (*apipb.StoreLogsResponse, error) {
	d.calls++
	if d.fail != nil {
		if err := d.fail(d.calls); err != nil {
			return nil, apipb.ToStatus(err)
		}
	}
	resp := &apipb.StoreLogsResponse{}
	var entries []logs.Entry
	for _, l := range req.GetLogs() {
		if d.result != nil {
			resp.Results = append(resp.Results, d.result)
			continue
		}
		d.ranks++
		resp.Results = append(resp.Results, &apipb.StoreLogResult{})
		entries = append(entries, logs.Entry{Tenant: "vision", Placed: time.Unix(1_800_000_000, 0), Log: l})
	}
	if err := d.store.Put(ctx, entries); err != nil {
		return nil, apipb.ToStatus(err)
	}
	if d.lose != nil && d.lose(d.calls) {
		return nil, apipb.ToStatus(ares.Errorf(ares.Unavailable, "the answer is lost"))
	}
	return resp, nil
}

// newUploader returns an agent that can only store logs, with the given logs of ended ranks.
func newUploader(t *testing.T, dir string, output map[int]string) *Agent {
	t.Helper()
	for rank, text := range output {
		seat := filepath.Join(dir, "logs", run.Key{Job: "job-x", Fence: 7, Rank: rank}.String())
		if err := os.MkdirAll(seat, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(seat, "log.00000000000000000000"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := run.Open(dir, os.Getenv("ARES_SUPERVISOR"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return &Agent{runner: r, uploads: newLogUploads(), log: slog.New(slog.DiscardHandler)}
}

func openLogStore(t *testing.T) *logs.Store {
	t.Helper()
	store, err := logs.Open(t.Context(), logs.Config{Place: bucket.InDir(t.TempDir()), Keep: time.Hour, Gather: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func storedText(t *testing.T, store *logs.Store, rank int) string {
	t.Helper()
	found, err := store.Find(t.Context(), logs.Rank{Tenant: "vision", Placed: time.Unix(1_800_000_000, 0), Job: "job-x", Fence: 7, Rank: rank})
	if err != nil || found == nil {
		t.Fatalf("rank %d is not stored: %v", rank, err)
	}
	text, err := sentOf(t.Context(), found, joblog.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(text, "from 0\n")
}

// TestAnUploadContinuesAfterEachFailure lets each call fail once, before it is handled or after, with another agent after each failure. In
// the end everything is stored whole, the node still has it, and nothing is sent again.
func TestAnUploadContinuesAfterEachFailure(t *testing.T) {
	big := strings.Repeat("a line of some length\n", 500_000) // 11 MB, so several calls
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after=%t", after), func(t *testing.T) {
			dir, store := t.TempDir(), openLogStore(t)
			output := map[int]string{0: big, 1: "", 2: "short\n", 3: big[:5_000_001]}
			a := newUploader(t, dir, output)
			for failing := 1; ; failing++ {
				lost := ares.Errorf(ares.Unavailable, "the server was killed")
				d := &logDoor{t: t, store: store}
				if after {
					d.lose = func(calls int) bool { return calls == failing }
				} else {
					d.fail = func(calls int) error {
						if calls == failing {
							return lost
						}
						return nil
					}
				}
				_, err := a.storeLogs(t.Context(), d, &apipb.SessionRef{})
				if err == nil {
					break
				}
				if failing > 100 {
					t.Fatal("it never ends")
				}
				a = newUploader(t, dir, nil) // as after kill -9
			}
			for rank, want := range output {
				if got := storedText(t, store, rank); got != want {
					t.Errorf("rank %d has %d bytes, want %d", rank, len(got), len(want))
				}
				log, err := a.runner.OpenLog(run.Key{Job: "job-x", Fence: 7, Rank: rank})
				if err != nil {
					t.Fatal(err)
				}
				text, err := sentOf(t.Context(), log.Source(), joblog.Query{})
				if err != nil || strings.TrimPrefix(text, "from 0\n") != want {
					t.Errorf("the node has %d bytes of rank %d: %v", len(text), rank, err)
				}
				_ = log.Close()
			}
			d := &logDoor{t: t, store: store}
			if _, err := newUploader(t, dir, nil).storeLogs(t.Context(), d, &apipb.SessionRef{}); err != nil || d.calls > 0 {
				t.Errorf("%d calls for what is stored: %v", d.calls, err)
			}
		})
	}
}

// TestRefusedAndLateLogs checks that a log that the server will never store is not sent again, and that one that it cannot judge yet is.
func TestRefusedAndLateLogs(t *testing.T) {
	store := openLogStore(t)
	a := newUploader(t, t.TempDir(), map[int]string{0: "text\n", 1: ""})
	d := &logDoor{t: t, store: store, result: &apipb.StoreLogResult{Later: true}}
	if later, err := a.storeLogs(t.Context(), d, &apipb.SessionRef{}); !later || err != nil {
		t.Fatalf("later %t, %v", later, err)
	}
	d.result = &apipb.StoreLogResult{Refused: "it is archived"}
	for range 2 {
		if later, err := a.storeLogs(t.Context(), d, &apipb.SessionRef{}); later || err != nil {
			t.Fatalf("later %t, %v", later, err)
		}
	}
	if d.calls != 2 {
		t.Errorf("%d calls", d.calls)
	}
}

// TestTheTestContainerHasNoOutput checks that the log of the agent's test container is not sent: a server would refuse the call, and with it the
// output of jobs.
func TestTheTestContainerHasNoOutput(t *testing.T) {
	dir, store := t.TempDir(), openLogStore(t)
	probe := run.Key{Job: probeImage, Fence: 1}
	if err := os.MkdirAll(filepath.Join(dir, "logs", probe.String()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "logs", probe.String(), "log.00000000000000000000"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := newUploader(t, dir, map[int]string{0: "text\n"})
	if left := a.runner.UnstoredLogs(); len(left) != 2 {
		t.Fatalf("to store: %v", left)
	}
	d := &logDoor{t: t, store: store}
	if _, err := a.storeLogs(t.Context(), d, &apipb.SessionRef{}); err != nil || d.ranks != 1 {
		t.Errorf("%d logs were sent: %v", d.ranks, err)
	}
	if got := storedText(t, store, 0); got != "text\n" {
		t.Errorf("stored %q", got)
	}
	if left := a.runner.UnstoredLogs(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestManyShortRanksShareACall checks that 1,000 ranks without output are stored with two calls.
func TestManyShortRanksShareACall(t *testing.T) {
	store, output := openLogStore(t), map[int]string{}
	for rank := range 2 * maxLogBatch {
		output[rank] = ""
	}
	a := newUploader(t, t.TempDir(), output)
	d := &logDoor{t: t, store: store}
	if _, err := a.storeLogs(t.Context(), d, &apipb.SessionRef{}); err != nil || d.calls != 2 || d.ranks != 2*maxLogBatch {
		t.Fatalf("%d ranks in %d calls: %v", d.ranks, d.calls, err)
	}
	if got := storedText(t, store, 999); got != "" {
		t.Errorf("%q", got)
	}
}

// TestDeletedWhileStored deletes a log while it is stored, as the limits of the node do.
func TestDeletedWhileStored(t *testing.T) {
	dir, store := t.TempDir(), openLogStore(t)
	a := newUploader(t, dir, map[int]string{0: strings.Repeat("x", 3*logBatch)})
	d := &logDoor{t: t, store: store, fail: func(calls int) error {
		if calls == 1 {
			return os.RemoveAll(filepath.Join(dir, "logs", "job-x.7.0"))
		}
		return nil
	}}
	if _, err := a.storeLogs(t.Context(), d, &apipb.SessionRef{}); err != nil {
		t.Fatal(err)
	}
	found, err := store.Find(t.Context(), logs.Rank{Tenant: "vision", Placed: time.Unix(1_800_000_000, 0), Job: "job-x", Fence: 7})
	if err != nil || found == nil {
		t.Fatal(err)
	}
	if text, err := sentOf(t.Context(), found, joblog.Query{}); ares.CodeOf(err) != ares.NotFound || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("%d bytes, and no word of the missing ones: %v", len(text), err)
	}
}

// BenchmarkStoreEmptyLogs measures what a short rank without output costs the node and the server, beside the call itself.
func BenchmarkStoreEmptyLogs(b *testing.B) {
	const atOnce = 1000 // a node does not keep more
	store, err := logs.Open(b.Context(), logs.Config{Place: bucket.InDir(b.TempDir()), Keep: time.Hour, Gather: time.Nanosecond})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	for done := 0; done < b.N; done += atOnce {
		b.StopTimer()
		dir := b.TempDir()
		for i := range min(atOnce, b.N-done) {
			seat := filepath.Join(dir, "logs", run.Key{Job: "job-x", Fence: 7, Rank: i}.String())
			if err := errors.Join(os.MkdirAll(seat, 0o700), os.WriteFile(filepath.Join(seat, "log.00000000000000000000"), nil, 0o600)); err != nil {
				b.Fatal(err)
			}
		}
		r, err := run.Open(dir, os.Getenv("ARES_SUPERVISOR"))
		if err != nil {
			b.Fatal(err)
		}
		a := &Agent{runner: r, uploads: newLogUploads(), log: slog.New(slog.DiscardHandler)}
		b.StartTimer()
		if _, err = a.storeLogs(b.Context(), &logDoor{store: store}, &apipb.SessionRef{}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err = errors.Join(r.Close(), os.RemoveAll(dir)); err != nil {
			b.Fatal(err)
		}
	}
}
