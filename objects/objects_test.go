package objects

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/objects/bucket"
	"github.com/ares-scheduler/ares/objects/tree"
)

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 1, 7, 59, 0, 0, time.UTC)} }

func openAt(t testing.TB, dir string, c *clock, limit int64) *Store {
	t.Helper()
	return openPlace(t, bucket.InDir(dir), c, limit)
}

// The function `somewhere` returns a new place for objects. TestInS3 replaces it.
var somewhere = inTempDir

func inTempDir(t testing.TB) bucket.Place { return bucket.InDir(t.TempDir()) }

func openPlace(t testing.TB, place bucket.Place, c *clock, limit int64) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{Place: place, Now: c.Now, TenantBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// snapshot returns a tree with files of the given contents, and its chunks.
func snapshot(t testing.TB, contents ...string) (*tree.Encoded, map[tree.Digest][]byte) {
	t.Helper()
	chunks := map[tree.Digest][]byte{}
	var entries []*apipb.TreeEntry
	for i, c := range contents {
		d := tree.Sum([]byte(c))
		chunks[d] = []byte(c)
		entries = append(entries, &apipb.TreeEntry{Path: fmt.Appendf(nil, "f%03d", i), Kind: apipb.TreeEntry_KIND_FILE, Mode: 0o644, Size: int64(len(c)), Chunks: [][]byte{d[:]}})
	}
	e, err := tree.Encode(entries)
	if err != nil {
		t.Fatal(err)
	}
	for d, part := range e.Parts {
		chunks[d] = part
	}
	return e, chunks
}

// upload stores a snapshot as a client does, and returns the number of chunks that it sent.
func upload(t testing.TB, s *Store, tenant string, e *tree.Encoded, chunks map[tree.Digest][]byte) int {
	t.Helper()
	for sent := 0; ; {
		d, missing, err := s.Commit(t.Context(), tenant, e.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		if d != e.Digest {
			t.Fatalf("got the digest %s, want %s", d, e.Digest)
		}
		if len(missing) == 0 {
			return sent
		}
		for _, m := range missing {
			if err := s.Put(t.Context(), tenant, chunks[m]); err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
}

// content returns everything that an agent would get.
func content(t testing.TB, s *Store, tenant string, d tree.Digest) (int, error) {
	t.Helper()
	n := 0
	err := s.Send(t.Context(), tenant, d, func([]byte) error { return nil }, func([]byte) error { n++; return nil })
	return n, err
}

func none(context.Context) ([]Ref, error) { return nil, nil }

func refsTo(refs ...Ref) func(context.Context) ([]Ref, error) {
	return func(context.Context) ([]Ref, error) { return refs, nil }
}

func collect(t testing.TB, s *Store, refs func(context.Context) ([]Ref, error)) Collected {
	t.Helper()
	done, err := s.Collect(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestOnlyChangedChunksAreMissing(t *testing.T) {
	s := openPlace(t, somewhere(t), newClock(), 0)
	e, chunks := snapshot(t, "one", "two", "three")
	if n := upload(t, s, "vision", e, chunks); n != 4 {
		t.Errorf("the first upload sent %d chunks", n)
	}
	if n := upload(t, s, "vision", e, chunks); n != 0 {
		t.Errorf("the same again sent %d chunks", n)
	}
	e, chunks = snapshot(t, "one", "two", "THREE")
	if n := upload(t, s, "vision", e, chunks); n != 2 { // a file and the part of the tree
		t.Errorf("one changed file sent %d chunks", n)
	}
	if n, err := content(t, s, "vision", e.Digest); n != 4 || err != nil {
		t.Errorf("an agent gets %d chunks, %v", n, err)
	}
}

// TestTenantsDoNotSeeEachOther checks that a tenant neither reads nor finds out what another has stored.
func TestTenantsDoNotSeeEachOther(t *testing.T) {
	s := openPlace(t, somewhere(t), newClock(), 0)
	e, chunks := snapshot(t, "secret", "code")
	all := upload(t, s, "vision", e, chunks)
	if _, err := content(t, s, "speech", e.Digest); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("reading: %v", err)
	}
	if err := s.Pin(t.Context(), "speech", e.Digest); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("submitting: %v", err)
	}
	if n := upload(t, s, "speech", e, chunks); n != all {
		t.Errorf("the other tenant had to send %d chunks instead of %d", n, all)
	}
	for _, tenant := range []string{"../vision", "a/b"} { // such a tenant does not exist, but keys must not depend on it
		if _, err := content(t, s, tenant, e.Digest); err == nil {
			t.Errorf("tenant %q reads the code", tenant)
		}
	}
}

func TestCommitRefusesBadTrees(t *testing.T) {
	s := openPlace(t, somewhere(t), newClock(), 0)
	d := tree.Sum([]byte("x"))
	for _, bad := range []*apipb.TreeEntry{
		{Path: []byte("../x"), Kind: apipb.TreeEntry_KIND_FILE, Size: 1, Chunks: [][]byte{d[:]}},
		{Path: []byte("/etc/x"), Kind: apipb.TreeEntry_KIND_DIRECTORY},
		{Path: []byte("a/b"), Kind: apipb.TreeEntry_KIND_DIRECTORY}, // without a
		{Path: []byte("x"), Kind: apipb.TreeEntry_KIND_FILE, Mode: 0o4755, Size: 1, Chunks: [][]byte{d[:]}},
		{Path: []byte("x"), Kind: apipb.TreeEntry_KIND_FILE, Size: 5 << 20, Chunks: [][]byte{d[:]}},
		{Path: []byte("x"), Kind: apipb.TreeEntry_KIND_FILE, Size: 1, Chunks: [][]byte{{1, 2}}},
		{Path: []byte("x"), Kind: apipb.TreeEntry_KIND_LINK, Target: []byte("/etc")},
		{Path: []byte("x"), Kind: apipb.TreeEntry_KIND_LINK, Target: []byte("a/../../b")},
		{Path: []byte("x\x00"), Kind: apipb.TreeEntry_KIND_DIRECTORY},
		{Path: []byte("x"), Kind: apipb.TreeEntry_KIND_UNSPECIFIED},
	} {
		part, err := proto.Marshal(&apipb.Tree{Entries: []*apipb.TreeEntry{bad}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), "vision", part); err != nil {
			t.Fatal(err)
		}
		of := tree.Sum(part)
		if _, missing, err := s.Commit(t.Context(), "vision", &apipb.Snapshot{Parts: [][]byte{of[:]}}); ares.CodeOf(err) != ares.Invalid {
			t.Errorf("%v was accepted: %v, %v", bad, missing, err)
		}
	}
}

func TestQuota(t *testing.T) {
	c := newClock()
	s := openPlace(t, somewhere(t), c, 3000)
	put := func(tenant string, n int) error {
		return s.Put(t.Context(), tenant, []byte(fmt.Sprintf("%01000d", n)))
	}
	for i := range 3 {
		if err := put("vision", i); err != nil {
			t.Fatal(err)
		}
	}
	if err := put("vision", 1); err != nil {
		t.Errorf("what is stored already: %v", err)
	}
	err := put("vision", 4)
	if ares.CodeOf(err) != ares.QuotaExceeded || !strings.Contains(err.Error(), "objects.tenant_mb") || !strings.Contains(err.Error(), ".aresignore") {
		t.Errorf("one more: %v", err)
	}
	if err := put("speech", 1); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	c.pass(5 * generationTime)
	collect(t, s, none)
	if err := put("vision", 4); err != nil {
		t.Errorf("after the others were deleted: %v", err)
	}
}

// TestUnusedObjectsAreDeletedAfterADay checks when objects are deleted: not before 24 hours, and after 32 hours at the latest.
func TestUnusedObjectsAreDeletedAfterADay(t *testing.T) {
	for _, start := range []time.Duration{0, time.Minute, 4 * time.Hour} {
		c := newClock()
		c.pass(start)
		dir := t.TempDir()
		s := openAt(t, dir, c, 0)
		e, chunks := snapshot(t, "one", "two")
		upload(t, s, "vision", e, chunks)
		c.pass(24*time.Hour - time.Minute)
		if done := collect(t, s, none); done.Deleted != 0 {
			t.Errorf("%d objects were deleted before a day passed", done.Deleted)
		}
		c.pass(8*time.Hour + time.Minute)
		if done := collect(t, s, none); done.Deleted != 4 {
			t.Errorf("%d objects were deleted after 32 hours", done.Deleted)
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
			t.Errorf("directories remain: %v %v", list, err)
		}
	}
}

func TestObjectsOfJobsStay(t *testing.T) {
	c := newClock()
	s := openPlace(t, somewhere(t), c, 0)
	e, chunks := snapshot(t, "one", "two")
	upload(t, s, "vision", e, chunks)
	upload(t, s, "speech", e, chunks)
	c.pass(100 * time.Hour)
	done := collect(t, s, refsTo(Ref{"vision", e.Digest}))
	if done.Kept != 4 || done.Deleted != 4 {
		t.Errorf("got %+v", done)
	}
	if n, err := content(t, s, "vision", e.Digest); n != 3 || err != nil {
		t.Errorf("the job's code: %d, %v", n, err)
	}
	// A retry of the job finds its code, and keeps it although the old job is gone.
	if err := s.Pin(t.Context(), "vision", e.Digest); err != nil {
		t.Fatal(err)
	}
	collect(t, s, none)
	if n, err := content(t, s, "vision", e.Digest); n != 3 || err != nil {
		t.Errorf("the retry's code: %d, %v", n, err)
	}
	if err := s.Pin(t.Context(), "speech", e.Digest); ares.CodeOf(err) != ares.NotFound || !strings.Contains(err.Error(), "--sync") {
		t.Errorf("the deleted code: %v", err)
	}
}

// TestSubmissionDuringCollect submits a job that refers to old chunks at the worst moment: after Collect has listed the objects, and
// after it has read the jobs.
func TestSubmissionDuringCollect(t *testing.T) {
	for _, after := range []string{"list", "refs"} {
		c := newClock()
		dir := t.TempDir()
		s, other := openAt(t, dir, c, 0), openAt(t, dir, c, 0)
		old, chunks := snapshot(t, "one", "two")
		upload(t, s, "vision", old, chunks)
		c.pass(100 * time.Hour)
		// The new snapshot shares a chunk with the old one.
		next, more := snapshot(t, "one", "new")
		sent := 0
		collect(t, s, func(context.Context) ([]Ref, error) {
			sent = upload(t, other, "vision", next, more)
			if err := other.Pin(t.Context(), "vision", next.Digest); err != nil {
				t.Error(err)
			}
			if after == "refs" {
				return nil, nil // the job is stored after this
			}
			return []Ref{{"vision", next.Digest}}, nil
		})
		if sent != 2 {
			t.Errorf("%d chunks were sent, although the old chunk was there", sent)
		}
		if n, err := content(t, other, "vision", next.Digest); n != 3 || err != nil {
			t.Errorf("after the %s: the job's code: %d, %v", after, n, err)
		}
		if n, err := content(t, openAt(t, dir, c, 0), "vision", next.Digest); n != 3 || err != nil {
			t.Errorf("after the %s: on another server: %d, %v", after, n, err)
		}
	}
}

// TestUploadsAndCollectAtTheSameTime lets several servers upload, submit and collect while generations pass. No submitted job may lose
// its code, until its end.
func TestUploadsAndCollectAtTheSameTime(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	var mu sync.Mutex
	jobs := map[Ref]int{} // how many live jobs refer to a snapshot
	refs := func(context.Context) ([]Ref, error) {
		mu.Lock()
		defer mu.Unlock()
		var out []Ref
		for r := range jobs {
			out = append(out, r)
		}
		return out, nil
	}
	// A submission takes less than a generation: time stops after 3 hours until those under way are done.
	var submitting sync.RWMutex
	var passed time.Duration
	pass := func() {
		mu.Lock()
		passed += time.Hour
		wait := passed >= 3*time.Hour
		if wait {
			passed = 0
		}
		mu.Unlock()
		if wait {
			submitting.Lock()
			defer submitting.Unlock()
		}
		c.pass(time.Hour)
	}
	collector := openAt(t, dir, c, 0)
	var wg sync.WaitGroup
	for worker := range 4 {
		s := openAt(t, dir, c, 0)
		wg.Go(func() {
			for i := range 60 {
				e, chunks := snapshot(t, "shared", fmt.Sprint("version ", i%7), fmt.Sprint("worker ", worker%2, i%3))
				submitting.RLock()
				upload(t, s, "vision", e, chunks)
				if err := s.Pin(t.Context(), "vision", e.Digest); err != nil {
					t.Error(err)
				}
				r := Ref{"vision", e.Digest}
				mu.Lock()
				jobs[r]++
				mu.Unlock()
				submitting.RUnlock()
				pass()
				if _, err := content(t, s, "vision", e.Digest); err != nil {
					t.Errorf("a live job has lost its code: %v", err)
				}
				mu.Lock()
				if jobs[r]--; jobs[r] == 0 {
					delete(jobs, r)
				}
				mu.Unlock()
			}
		})
	}
	stop := make(chan struct{})
	collecting := make(chan struct{})
	deleted := 0
	go func() {
		defer close(collecting)
		for {
			done, err := collector.Collect(t.Context(), refs)
			if err != nil {
				t.Error(err)
			}
			deleted += done.Deleted
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	wg.Wait()
	close(stop)
	<-collecting
	if deleted == 0 {
		t.Error("nothing was ever deleted, so this tested nothing")
	}
}

func TestDamagedObjectsAreUploadedAgain(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	s := openAt(t, dir, c, 0)
	e, chunks := snapshot(t, "one")
	upload(t, s, "vision", e, chunks)
	d := tree.Sum([]byte("one"))
	path := filepath.Join(dir, key(s.generation(), knownKey{"vision", chunkKind, d}))
	if err := os.WriteFile(path, nil, 0o600); err != nil { // as after a power failure
		t.Fatal(err)
	}
	if _, err := content(t, s, "vision", e.Digest); ares.CodeOf(err) != ares.NotFound || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the damaged object is still there: %v", err)
	}
}

func TestFilesAreForTheServerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "objects")
	s := openAt(t, dir, newClock(), 0)
	e, chunks := snapshot(t, "one")
	upload(t, s, "vision", e, chunks)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err == nil && d.IsDir() && st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, st.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
