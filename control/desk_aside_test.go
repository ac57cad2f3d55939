package control

import (
	"context"
	"sync"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// memory is an Aside that recalls what it is told to.
type memory struct {
	mu    sync.Mutex
	notes map[ares.JobID]ares.Digest
	yes   bool // to whatever it is asked
}

func (m *memory) Recall(_ context.Context, id ares.JobID, digest ares.Digest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.yes || m.notes[id] == digest
}

func (m *memory) Note(id ares.JobID, digest ares.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes[id] = digest
}

// TestWhatIsBesideTheDeskIsOnlyAHint: a repetition is answered from the store without
// a write; one that is recalled by mistake is accepted as any other, and another body
// under the same request stays a conflict.
func TestWhatIsBesideTheDeskIsOnlyAHint(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	beside := &memory{notes: map[ares.JobID]ares.Digest{}}
	d.Aside = beside
	one := spec(func(s *ares.Spec) { s.RequestID = "one" })
	first, err := d.Submit(t.Context(), one, "me")
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
	// No longer admissible: what was accepted is answered all the same.
	d.NoGangs, d.MaxQueue = true, 0
	again, err := d.Submit(t.Context(), one, "me")
	if err != nil || !again.Duplicate || again.ID != first.ID || again.Phase != ares.Pending {
		t.Errorf("again: %+v, %v", again, err)
	}
	after, err := d.Store.Revision(t.Context())
	if err != nil || after != before {
		t.Errorf("a repetition wrote: revision %d became %d (%v)", before, after, err)
	}
	d.NoGangs, d.MaxQueue = false, 100

	beside.yes = true
	lied, err := d.Submit(t.Context(), spec(func(s *ares.Spec) { s.RequestID = "two" }), "me")
	if err != nil || lied.Duplicate {
		t.Errorf("one that is recalled by mistake: %+v, %v", lied, err)
	}
	_, err = d.Submit(t.Context(), spec(func(s *ares.Spec) { s.RequestID, s.Name = "one", "other" }), "me")
	if ares.CodeOf(err) != ares.Conflict {
		t.Errorf("another body under the same request: %v", err)
	}
}
