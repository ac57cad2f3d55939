package audit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// The type `running` is an open log whose writer goroutine is running.
type running struct {
	*Log

	t    testing.TB
	stop func()
}

func start(t testing.TB, dir string, change ...func(*Config)) *running {
	t.Helper()
	cfg := Config{Dir: dir, Server: "s1", Cluster: "c1"}
	for _, c := range change {
		c(&cfg)
	}
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	r := &running{Log: l, t: t}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func testEntry(n int) Entry {
	return Entry{Action: "SUBMIT_JOB", User: "token:ci", Tenant: "red", Object: fmt.Sprintf("job-%06d", n), Source: "10.0.0.1:999", Door: "grpc", Status: Done}
}

func (r *running) record(n int) {
	r.t.Helper()
	for i := range n {
		if err := r.Record(r.t.Context(), testEntry(i)); err != nil {
			r.t.Fatal(err)
		}
	}
}

func verify(t testing.TB, dir string, heads ...Head) *Report {
	t.Helper()
	r, err := Verify(dir, Check{Heads: heads})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func good(t testing.TB, dir string, heads ...Head) *Report {
	t.Helper()
	r := verify(t, dir, heads...)
	for _, f := range r.Faults {
		t.Errorf("a log that nobody touched: %s", f)
	}
	return r
}

// The function `small` configures small segments, so that a log has many segments.
func small(c *Config) { c.MaxSegment = 2000 }

func TestLogGoesOnAfterRestart(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		l := start(t, dir, small)
		l.record(20)
		l.stop()
	}
	r := good(t, dir)
	if r.Entries != 63 || r.Segments < 4 || r.Signed != 63 {
		t.Errorf("%d entries in %d segments signed up to %d, want 63 in some, all signed", r.Entries, r.Segments, r.Signed)
	}
	info, err := os.Stat(filepath.Join(dir, keyFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is %v, %v: only its owner may read it", info.Mode(), err)
	}
}

func TestOneServerWritesALog(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir)
	if _, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "audit.dir") {
		t.Errorf("a second server opened the log: %v", err)
	}
	l.stop()
	start(t, dir).record(1)
}

func TestListFindsEntries(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir, small)
	for i := range 100 {
		e := testEntry(i)
		if i%10 == 0 {
			e.User, e.Tenant, e.Action, e.Object = "oidc:eve", "blue", "CREATE_QUEUE", fmt.Sprintf("queue/blue/q%d", i)
		}
		if err := l.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what string
		q    Query
		want int
	}{
		{"all", Query{}, 101},
		{"user", Query{User: "oidc:eve"}, 10},
		{"action in other letters", Query{Action: "create_queue"}, 10},
		{"object", Query{Object: "job-000007"}, 1},
		{"kind of object", Query{Object: "queue/"}, 10},
		{"part of a name", Query{Object: "queue/blue/q"}, 0},
		{"tenants", Query{Tenants: []string{"blue", "green"}}, 10},
		{"nobody's tenant", Query{Tenants: []string{}}, 0},
		{"status", Query{Status: Refused}, 0},
		{"code", Query{Code: "forbidden"}, 0},
		{"the future", Query{Since: time.Now().Add(time.Hour)}, 0},
		{"the past", Query{Until: time.Now().Add(-time.Hour)}, 0},
	} {
		for _, oldest := range []bool{false, true} {
			for _, limit := range []int{1, 7, 1000} {
				q := c.q
				q.Limit, q.OldestFirst = limit, oldest
				if got := l.all(q); len(got) != c.want {
					t.Errorf("%s, oldest first %v, %d at a time: %d entries, want %d", c.what, oldest, limit, len(got), c.want)
				}
			}
		}
	}
}

// The method `all` returns the entries of all pages of a query, and checks their order.
func (r *running) all(q Query) []Entry {
	r.t.Helper()
	var out []Entry
	for {
		page, err := r.List(r.t.Context(), q)
		if err != nil {
			r.t.Fatal(err)
		}
		for i := range page.Entries {
			if n := len(out); n > 0 && (out[n-1].Sequence < page.Entries[i].Sequence) != q.OldestFirst {
				r.t.Fatalf("entry %d comes after %d", page.Entries[i].Sequence, out[n-1].Sequence)
			}
			out = append(out, page.Entries[i])
		}
		if page.Next == 0 {
			return out
		}
		q.From = page.Next
	}
}

func TestFieldsAreCut(t *testing.T) {
	l := start(t, t.TempDir())
	e := testEntry(0)
	e.User = strings.Repeat("ü", 5000) + "\x1b[2J"
	e.Object = "job\x1b[31m\n{\xff"
	e.Detail = strings.Repeat("<", 10_000)
	if err := l.Record(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	got := l.all(Query{Action: "SUBMIT_JOB"})[0]
	if len(got.User) > maxField || !strings.HasPrefix(got.User, "üüü") || got.Object != "job?[31m?{?" || len(got.Detail) > maxDetail {
		t.Errorf("user of %d bytes, object %q, detail of %d bytes", len(got.User), got.Object, len(got.Detail))
	}
	good(t, l.Dir())
}

// TestAnswerComesAfterTheDisk checks that Record returns only after its entries were synced.
func TestAnswerComesAfterTheDisk(t *testing.T) {
	disk := &fakeDisk{}
	l := start(t, t.TempDir(), func(c *Config) { c.open = disk.open })
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for k := range 20 {
				e := testEntry(i*1000 + k)
				if err := l.Record(t.Context(), e); err != nil {
					t.Error(err)
				}
				if !bytes.Contains(disk.safe(), []byte(e.Object)) {
					t.Errorf("%s was called safe before it was on disk", e.Object)
				}
			}
		})
	}
	wg.Wait()
}

// TestManyShareOneSync records entries from a thousand concurrent callers. If callers arrive during a sync, they must wait until
// it ends, and then share the next sync.
func TestManyShareOneSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var syncs, entries atomic.Int64
		held := make(chan struct{})
		disk := &fakeDisk{beforeSync: func() { <-held }}
		l := start(t, t.TempDir(), func(c *Config) {
			c.open = disk.open
			c.Observe = func(n int, _ time.Duration, _ error) { syncs.Add(1); entries.Add(int64(n)) }
		})
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				if err := l.Record(t.Context(), testEntry(i)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(held)
		wg.Wait()
		if entries.Load() != 1001 || syncs.Load() > 3 {
			t.Errorf("%d entries took %d syncs, want 1001 in at most 3", entries.Load(), syncs.Load())
		}
		l.stop()
		good(t, l.Dir())
	})
}

func TestHeadIsOfTheLastEntry(t *testing.T) {
	l := start(t, t.TempDir())
	l.record(5)
	h, err := l.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err = h.Check(); err != nil || h.Sequence != 6 || h.Key != l.Key() {
		t.Errorf("head of entry %d, %v, want it of 6", h.Sequence, err)
	}
	again, err := l.Head(t.Context())
	if err != nil || again != h {
		t.Errorf("the same end was signed twice: %v, %v", again, err)
	}
	r, err := l.Verify(Check{Heads: []Head{h}})
	if err != nil || !r.OK() || r.Signed != 6 {
		t.Errorf("verified while it is written: %+v, %v", r, err)
	}
}

func TestHeadsAreSignedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, t.TempDir())
		pass(2 * headAfter)
		l.record(3)
		pass(headAfter + 2*tickEvery)
		synctest.Wait()
		if r := good(t, l.Dir()); r.Signed != 4 {
			t.Errorf("signed up to %d a minute later, want 4", r.Signed)
		}
		last, err := l.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pass(10 * headAfter)
		if again, err := l.Head(t.Context()); err != nil || again != last {
			t.Errorf("head %d, %v, of a log to which nothing was added since head %d", again.Number, err, last.Number)
		}
		l.stop()
	})
}

func TestEachDayHasItsSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, t.TempDir())
		for range 3 {
			l.record(2)
			pass(24 * time.Hour)
		}
		l.record(1)
		l.stop()
		if r := good(t, l.Dir()); r.Segments != 4 {
			t.Errorf("%d segments for 4 days", r.Segments)
		}
	})
}

// TestOldSegmentsExpire checks that old segments are removed once they were shipped, and that the log is valid without them.
func TestOldSegmentsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shipped atomic.Uint64
		l := start(t, t.TempDir(), func(c *Config) {
			c.Keep, c.Shipped = 48*time.Hour, shipped.Load
		})
		for range 6 {
			l.record(2)
			pass(24 * time.Hour)
		}
		if n := len(l.all(Query{OldestFirst: true})); n != 13 {
			t.Errorf("%d entries before anything was shipped, want all 13", n)
		}
		shipped.Store(5)
		l.record(1)
		pass(2 * pruneEvery)
		synctest.Wait()
		left := l.all(Query{OldestFirst: true})
		if left[0].Sequence != 6 {
			t.Errorf("entry %d is the first that is left, want 6: 5 are shipped", left[0].Sequence)
		}
		if got := len(l.all(Query{Action: ActionExpire})); got != 2 {
			t.Errorf("%d entries tell of what was removed, want 2", got)
		}
		l.stop()
		good(t, l.Dir())
		l = start(t, l.Dir())
		l.record(1)
		l.stop()
		good(t, l.Dir())
		if err := os.Remove(filepath.Join(l.Dir(), segmentName(6))); err != nil {
			t.Fatal(err)
		}
		if r := verify(t, l.Dir()); r.OK() {
			t.Error("a beginning that somebody took away is not missed")
		}
	})
}

func TestStoppedLogTakesNothing(t *testing.T) {
	l := start(t, t.TempDir())
	l.stop()
	if err := l.Record(t.Context(), testEntry(1)); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("a stopped log answered %v", err)
	}
	if ares.CodeOf(l.Ready()) != ares.Unavailable {
		t.Error("a stopped log is ready")
	}
}

// The function `pass` lets time pass in a synctest bubble, where waiting takes no real time.
func pass(d time.Duration) { <-time.After(d) }
