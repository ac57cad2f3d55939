package objects

import (
	"errors"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/objects/tree"
)

// TestSnapshotsAreDurable checks that Commit writes the chunks of a snapshot to the disk before it stores the snapshot, and
// then the snapshot, before it answers. A job is accepted only with a stored snapshot, so a power failure cannot lose its code.
func TestSnapshotsAreDurable(t *testing.T) {
	s := openPlace(t, somewhere(t), newClock(), 0)
	e, chunks := snapshot(t, "one", "two")
	stored := func(kind string, d tree.Digest) bool {
		ok, err := s.bucket.Exists(t.Context(), key(s.generation(), knownKey{"red", kind, d}))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	var seen []bool // whether the snapshot was stored, at each flush
	full := errors.New("input/output error")
	fail := true
	s.flush = func() error {
		for d := range chunks {
			if !stored(chunkKind, d) {
				t.Errorf("flushed without the chunk %s", d)
			}
		}
		seen = append(seen, stored(snapshotKind, e.Digest))
		if fail {
			return full
		}
		return nil
	}
	for _, c := range chunks {
		if err := s.Put(t.Context(), "red", c); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.Commit(t.Context(), "red", e.Snapshot); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("Commit returns %v, although the disk failed", err)
	}
	if err := s.Pin(t.Context(), "red", e.Digest); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("a job gets a snapshot that may not be on the disk: %v", err)
	}
	fail, seen = false, nil
	if _, missing, err := s.Commit(t.Context(), "red", e.Snapshot); err != nil || len(missing) > 0 {
		t.Fatal(missing, err)
	}
	if len(seen) != 2 || seen[0] || !seen[1] {
		t.Errorf("got flushes with the snapshot stored %v, want one before and one after it", seen)
	}
}
