package admission

import (
	"context"
	"sync"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// The type `memory` is an in-memory SeenCache.
type memory struct {
	mu    sync.Mutex
	notes map[ares.JobID]ares.Digest
	yes   bool // claims to have seen every request
}

func (m *memory) Seen(_ context.Context, id ares.JobID, digest ares.Digest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.yes || m.notes[id] == digest
}

func (m *memory) MarkSeen(id ares.JobID, digest ares.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes[id] = digest
}

// TestSeenCacheIsOnlyAHint checks three cases. A repeated request is answered from the store without a write. A new
// request is accepted even if the cache claims to have seen it. A different body with the same request ID is a
// conflict.
func TestSeenCacheIsOnlyAHint(t *testing.T) {
	t.Parallel()
	d := newAdmission(t)
	beside := &memory{notes: map[ares.JobID]ares.Digest{}}
	d.Seen = beside
	one := spec(func(s *ares.Spec) { s.RequestID = "one" })
	first, err := d.submitOne(t.Context(), one, "me")
	if err != nil || first.Duplicate {
		t.Fatalf("got %+v, %v", first, err)
	}
	if len(beside.notes) != 1 {
		t.Errorf("noted: %v", beside.notes)
	}
	before, err := d.Store.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The job would be rejected now, but the repeated request is still answered.
	d.NoGangs, d.MaxQueue = true, 0
	again, err := d.submitOne(t.Context(), one, "me")
	if err != nil || !again.Duplicate || again.ID != first.ID || again.Phase != ares.Pending {
		t.Errorf("again: %+v, %v", again, err)
	}
	after, err := d.Store.Revision(t.Context())
	if err != nil || after != before {
		t.Errorf("a repeated request wrote: revision %d became %d (%v)", before, after, err)
	}
	d.NoGangs, d.MaxQueue = false, 100

	beside.yes = true
	lied, err := d.submitOne(t.Context(), spec(func(s *ares.Spec) { s.RequestID = "two" }), "me")
	if err != nil || lied.Duplicate {
		t.Errorf("a new request that the cache claims to have seen: %+v, %v", lied, err)
	}
	_, err = d.submitOne(t.Context(), spec(func(s *ares.Spec) { s.RequestID, s.Name = "one", "other" }), "me")
	if ares.CodeOf(err) != ares.Conflict {
		t.Errorf("another body with the same request ID: %v", err)
	}
}
