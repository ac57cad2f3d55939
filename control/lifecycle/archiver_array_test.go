package lifecycle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestAnArrayIsArchivedWithItsElements checks that nothing is archived before the array has ended and all seats are
// free. The test also checks that the line of the array comes before the lines of its elements.
func TestAnArrayIsArchivedWithItsElements(t *testing.T) {
	s := storetest.Embedded(t)
	lead, _ := storetest.NewLead(t, s)
	node, array := storetest.NewNode(t, s), storetest.NewJob(t, s, storetest.Elements(2))
	seats := storetest.Grow(t, s, lead, array, 2, node)
	v := controltest.Follow(t, s)
	path := filepath.Join(t.TempDir(), "a.jsonl")
	r := &Archiver{
		Store: s, View: v, Log: controltest.Quiet, Archive: &Journal{Path: path},
		Now: func() time.Time { return storetest.Noon.Add(48 * time.Hour) },
	}
	defer r.Archive.Close()
	archive := func(want int) {
		t.Helper()
		controltest.CaughtUp(t, s, v)
		if err := r.ArchiveDue(t.Context(), lead); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); want == 0 && err == nil {
			t.Fatal("something was archived")
		} else if want == 0 {
			return
		}
		if got := lines(t, path); len(got) != want {
			t.Fatalf("%d lines, want %d", len(got), want)
		}
	}
	storetest.Claim(t, s, seats[:1], node)
	storetest.Finish(t, s, seats[0], ares.OutcomeSucceeded)
	storetest.Release(t, s, seats[0])
	archive(0) // its array has not ended
	storetest.Claim(t, s, seats[1:], node)
	storetest.Finish(t, s, seats[1], ares.OutcomeSucceeded)
	run := storetest.Get(t, s, array.ID).Run
	if err := run.Advance(&ares.ArrayStep{Job: array.ID, Next: 2, Phase: ares.Succeeded}, storetest.Noon); err != nil {
		t.Fatal(err)
	}
	if _, dropped, err := s.Commit(t.Context(), lead, "d", []store.Change{{Job: array.ID, Next: run}}); err != nil || len(dropped) > 0 {
		t.Fatal(dropped, err)
	}
	archive(0) // a seat is not free
	storetest.Release(t, s, seats[1])
	archive(3)
	if got := lines(t, path); !strings.Contains(got[0], string(array.ID)+`"`) || !strings.Contains(got[0], `"count":2`) {
		t.Errorf("the first line is not the array's: %s", got[0])
	}
	for _, id := range []ares.JobID{array.ID, seats[0].Job, seats[1].Job} {
		if snap := storetest.Get(t, s, id); snap.Tombstone == nil {
			t.Errorf("%s is still live", id)
		}
	}
}
