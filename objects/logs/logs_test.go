package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/joblog"
	"github.com/ares-scheduler/ares/objects/bucket"
)

var placed = time.Unix(1_800_000_000, 0)

// stage is a Store with a clock.
type stage struct {
	*Store
	t   *testing.T
	now time.Time
}

// The function `somewhere` returns a new place for logs. TestInS3 replaces it.
var somewhere = inTempDir

func inTempDir(t testing.TB) bucket.Place { return bucket.InDir(t.TempDir()) }

func newStage(t *testing.T, change ...func(*Config)) *stage {
	t.Helper()
	s := &stage{t: t, now: placed.Add(time.Minute)}
	cfg := Config{Place: somewhere(t), Keep: 24 * time.Hour, Gather: time.Nanosecond, Now: func() time.Time { return s.now }}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if s.Store, err = Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

var zip, _ = zstd.NewWriter(nil)

// logOf returns a log of one file, of which only the pieces from one to another are sent. A piece has ten bytes.
func logOf(fence int64, text string, from, to int) *apipb.StoredLog {
	f := &apipb.LogFile{Size: int64(len(text)), ChangedAt: timestamppb.New(placed)}
	for at := from * 10; at < min(to*10, len(text)); at += 10 {
		data := text[at:min(at+10, len(text))]
		f.Pieces = append(f.Pieces, &apipb.LogPiece{Offset: int64(at), Size: int32(len(data)), Data: zip.EncodeAll([]byte(data), nil)})
	}
	return &apipb.StoredLog{Seat: &apipb.SeatRef{JobId: "job-x", Fence: fence}, Files: []*apipb.LogFile{f}}
}

func (s *stage) put(tenant string, logs ...*apipb.StoredLog) error {
	var entries []Entry
	for _, l := range logs {
		entries = append(entries, Entry{tenant, placed, l})
	}
	return s.Put(context.Background(), entries)
}

// text returns what can be read of a log, and why there is no more.
func (s *stage) text(tenant string, fence int64) (string, *Found, error) {
	s.t.Helper()
	found, err := s.Find(s.t.Context(), Rank{Tenant: tenant, Placed: placed, Job: "job-x", Fence: fence})
	if err != nil {
		s.t.Fatal(err)
	}
	if found == nil {
		return "", nil, nil
	}
	var b strings.Builder
	l := joblog.New(found)
	buf := make([]byte, 7)
	for {
		n, err := l.Next(s.t.Context(), buf, true)
		b.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			return b.String(), found, nil
		}
		if err != nil {
			return b.String(), found, err
		}
	}
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) packs() (out []string) {
	list, err := s.list(s.t.Context(), "")
	s.must(err)
	for _, p := range list {
		if p.isPack {
			out = append(out, p.key)
		}
	}
	return out
}

const text = "0123456789abcdefghijABCDEFGHIJ-----"

// TestAttemptsAreApart stores an old attempt after a new one.
func TestAttemptsAreApart(t *testing.T) {
	s := newStage(t)
	s.must(s.put("vision", logOf(20, text, 0, 9)))
	s.must(s.put("vision", logOf(10, "the old attempt", 0, 9), logOf(30, "", 0, 9)))
	s.must(s.put("vision", logOf(20, text, 0, 9))) // sent again
	for fence, want := range map[int64]string{10: "the old attempt", 20: text, 30: ""} {
		if got, found, err := s.text("vision", fence); got != want || found == nil || found.Gone != 0 || err != nil {
			t.Errorf("fence %d: %q, %v", fence, got, err)
		}
	}
	for fence, tenant := range map[int64]string{15: "vision", 20: "speech"} {
		if _, found, err := s.text(tenant, fence); found != nil || err != nil {
			t.Errorf("%s has fence %d: %v", tenant, fence, err)
		}
	}
}

// TestMissingPieces checks that a gap is never passed over: the beginning may be deleted, and the reader is told; anything else is an error.
func TestMissingPieces(t *testing.T) {
	for _, c := range []struct {
		parts [][2]int
		want  string
		gone  int64
		err   string
	}{
		{[][2]int{{0, 2}, {2, 4}}, text, 0, ""},
		{[][2]int{{2, 4}, {0, 2}}, text, 0, ""},
		{[][2]int{{0, 4}, {1, 2}}, text, 0, ""},
		{[][2]int{{1, 4}}, text[10:], 10, ""},
		{[][2]int{{0, 3}}, text[:30], 0, "from byte 30 is missing"},
		{[][2]int{{0, 1}, {2, 4}}, text[:10], 0, "from byte 10 is missing"},
		{[][2]int{{1, 2}, {3, 4}}, text[10:20], 10, "from byte 20 is missing"},
		{[][2]int{{0, 0}}, "", 0, "from byte 0 is missing"},
	} {
		s := newStage(t)
		for _, p := range c.parts {
			s.must(s.put("vision", logOf(10, text, p[0], p[1])))
		}
		got, found, err := s.text("vision", 10)
		if got != c.want || found.Gone != c.gone || (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || ares.CodeOf(err) != ares.NotFound) {
			t.Errorf("%v: %q, %d gone, %v", c.parts, got, found.Gone, err)
		}
	}
}

// TestDamagedPacks changes each byte of a pack. The log is then read whole, or the reader is told what is missing.
func TestDamagedPacks(t *testing.T) {
	s := newStage(t)
	s.must(s.put("vision", logOf(10, text, 0, 2)))
	path := filepath.Join(s.bucket.Place().Dir, filepath.FromSlash(s.packs()[0]))
	good, err := os.ReadFile(path)
	s.must(err)
	s.must(s.put("vision", logOf(10, text, 2, 4)))
	for at := range good {
		bad := append([]byte(nil), good...)
		bad[at] ^= 0x21
		s.must(os.WriteFile(path, bad, 0o600))
		s.indexes = indexCache{}
		got, found, err := s.text("vision", 10)
		switch {
		case err == nil && found != nil && found.Gone == 0 && got != text, err == nil && found != nil && found.Gone > 0 && got != text[found.Gone:], !strings.HasPrefix(text, got) && found.Gone == 0:
			t.Fatalf("with byte %d changed: %q", at, got)
		}
	}
	for size := range good {
		s.must(os.WriteFile(path, good[:size], 0o600))
		s.indexes = indexCache{}
		got, found, err := s.text("vision", 10)
		if err == nil && found != nil && got != text[found.Gone:] {
			t.Fatalf("cut after %d bytes: %q", size, got)
		}
	}
}

// TestCallsShareAPack stores 50 logs at once. Their packs are few, and all are there when the calls return.
func TestCallsShareAPack(t *testing.T) {
	s := newStage(t, func(c *Config) { c.Gather, c.Now = 50*time.Millisecond, nil })
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if err := s.put("vision", logOf(int64(100+i), fmt.Sprint("log ", i), 0, 9)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(s.packs()); n > 25 {
		t.Errorf("%d packs", n)
	}
	for i := range 50 {
		if got, _, err := s.text("vision", int64(100+i)); got != fmt.Sprint("log ", i) || err != nil {
			t.Errorf("log %d: %q, %v", i, got, err)
		}
	}
	if c := s.Counts(); c.Ranks != 50 || c.Failed != 0 {
		t.Errorf("counts %+v", c)
	}
}

// TestTheOldestLogsGoFirst stores more than a tenant may have. Its oldest logs are deleted, and those of another tenant stay.
func TestTheOldestLogsGoFirst(t *testing.T) {
	s := newStage(t, func(c *Config) { c.TenantBytes = 2000 })
	s.must(s.put("speech", logOf(1, text, 0, 9)))
	for fence := range int64(30) {
		s.now = s.now.Add(time.Second)
		s.must(s.put("vision", logOf(fence+1, text, 0, 9)))
	}
	if _, found, _ := s.text("vision", 1); found != nil {
		t.Error("the oldest log is still there")
	}
	for tenant, fence := range map[string]int64{"vision": 30, "speech": 1} {
		if got, _, err := s.text(tenant, fence); got != text || err != nil {
			t.Errorf("%s: %q, %v", tenant, got, err)
		}
	}
	list, err := s.list(t.Context(), "vision/")
	s.must(err)
	total := int64(0)
	for _, p := range list {
		total += p.size
	}
	if total > 2000 {
		t.Errorf("%d bytes of vision", total)
	}
}

// TestCollect deletes what is too old, and what an interrupted upload has left.
func TestCollect(t *testing.T) {
	s := newStage(t)
	s.must(s.put("vision", logOf(1, text, 0, 9)))
	rest := filepath.Join(s.bucket.Place().Dir, filepath.FromSlash(dirOf("vision", hourOf(placed))), "fileblob123")
	s.must(os.WriteFile(rest, []byte("half"), 0o600))
	s.must(os.Chtimes(rest, placed, placed))
	s.now = s.now.Add(23 * time.Hour)
	s.must(s.put("vision", logOf(2, text, 0, 9)))
	done, err := s.Collect(t.Context())
	if err != nil || done.Deleted != 0 || len(s.packs()) != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	s.now = s.now.Add(2 * time.Hour)
	done, err = s.Collect(t.Context())
	if err != nil || done.Deleted != 2 || len(s.packs()) != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if got, _, err := s.text("vision", 2); got != text || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	s.now = s.now.Add(48 * time.Hour)
	if done, err = s.Collect(t.Context()); err != nil || done.Deleted != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if left, err := os.ReadDir(s.bucket.Place().Dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestFullDisk lets the disk be nearly full, and full. The error says what to do, nothing half remains, and the next call succeeds.
func TestFullDisk(t *testing.T) {
	s := newStage(t)
	s.free = func() (int64, bool) { return keepFree - 1, true }
	err := s.put("vision", logOf(1, text, 0, 9))
	if ares.CodeOf(err) != ares.LimitReached || !strings.Contains(err.Error(), "objects.log_days") {
		t.Errorf("nearly full: %v", err)
	}
	s.free = s.bucket.Free
	s.Store.flush = func(string) error { return syscall.ENOSPC }
	if err = s.put("vision", logOf(1, text, 0, 9)); ares.CodeOf(err) != ares.LimitReached || !strings.Contains(err.Error(), "free space in "+s.bucket.Place().Dir) {
		t.Errorf("full: %v", err)
	}
	if _, found, _ := s.text("vision", 1); found != nil {
		t.Error("a log that may not be on the disk is found")
	}
	s.Store.flush = s.bucket.FlushObject
	s.must(s.put("vision", logOf(1, text, 0, 9)))
	if c := s.Counts(); c.Failed != 2 || c.Ranks != 1 {
		t.Errorf("counts %+v", c)
	}
}

// TestOnlyOutputIsFlushed checks that ranks without output do not cost a write to the disk.
func TestOnlyOutputIsFlushed(t *testing.T) {
	s, flushed := newStage(t), 0
	s.Store.flush = func(path string) error { flushed++; return s.bucket.FlushObject(path) }
	s.must(s.put("vision", logOf(1, "", 0, 0)))
	if flushed != 0 {
		t.Error("a pack without output was flushed")
	}
	s.must(s.put("vision", logOf(2, text, 0, 9)))
	if flushed != 1 {
		t.Errorf("flushed %d times", flushed)
	}
}

// TestTooMuchAtOnce limits the output that waits in memory.
func TestTooMuchAtOnce(t *testing.T) {
	s := newStage(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	s.Store.flush = func(path string) error { close(entered); <-leave; return nil }
	first := make(chan error, 1)
	go func() { first <- s.put("vision", logOf(1, text, 0, 9)) }()
	<-entered
	s.mu.Lock()
	s.waiting += maxWaiting
	s.mu.Unlock()
	if err := s.put("vision", logOf(2, text, 0, 9)); ares.CodeOf(err) != ares.Exhausted {
		t.Errorf("got %v", err)
	}
	close(leave)
	s.must(<-first)
}

// TestZipBomb stores a piece that is larger than it says. Reading it fails, and needs no more memory than a piece.
func TestZipBomb(t *testing.T) {
	s := newStage(t)
	bomb := logOf(1, text, 0, 1)
	bomb.Files[0].Pieces[0].Data = zip.EncodeAll(make([]byte, 100<<20), nil)
	s.must(s.put("vision", bomb))
	if got, _, err := s.text("vision", 1); got != "" || ares.CodeOf(err) != ares.NotFound || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzPackName(f *testing.F) {
	f.Add("vision/0000500000/0000000000000000001-0000000000000000002-1800000000000-abcdefghijkl")
	f.Fuzz(func(t *testing.T, key string) {
		n, ok := parseKey(key)
		if !ok {
			return
		}
		again, ok := parseKey(n.key())
		if !ok || again.tenant != n.tenant || again.hour != n.hour || again.min != n.min || again.max != n.max || !again.uploaded.Equal(n.uploaded) {
			t.Errorf("%q is %+v, and then %+v", key, n, again)
		}
	})
}

func FuzzIndex(f *testing.F) {
	pack, _, err := encodePack([]*apipb.StoredLog{logOf(1, text, 0, 9)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pack)
	f.Fuzz(func(_ *testing.T, b []byte) {
		if int64(len(b)) < headerSize {
			return
		}
		if _, checksum, err := parseHeader(b[:headerSize]); err == nil {
			_, _ = parseIndex(b[headerSize:], checksum)
		}
	})
}
