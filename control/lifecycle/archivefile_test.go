package lifecycle

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

func TestTheArchiveIsReadBack(t *testing.T) {
	t.Parallel()
	s := storetest.Embedded(t)
	job := storetest.NewJob(t, s)
	lead, _ := storetest.NewLead(t, s)
	n := storetest.NewNode(t, s)
	seats := storetest.Place(t, s, lead, job, n)
	storetest.Claim(t, s, seats, n)
	storetest.Finish(t, s, seats[0], ares.OutcomeSucceeded)
	storetest.Release(t, s, seats...)
	view := controltest.Follow(t, s)
	controltest.Await(t, view, "its end", func() bool { e := view.Job(job.ID); return e != nil && e.Run.Phase.Final() && e.Run.Free() })
	path := filepath.Join(t.TempDir(), "archive.jsonl")
	journal := &Journal{Path: path}
	r := &Archiver{Store: s, View: view, Archive: journal, Now: func() time.Time { return storetest.Noon.Add(time.Hour) }, ArchiveAfter: time.Minute}
	if err := r.ArchiveDue(t.Context(), lead); err != nil {
		t.Fatal(err)
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.WriteString(`{"job": {"ID": "job-torn`); err != nil {
		t.Fatal(err)
	}
	if err = f.Close(); err != nil {
		t.Fatal(err)
	}
	var got []store.Ended
	unread, err := ReadArchive(path, func(e store.Ended) { got = append(got, e) })
	if err != nil || unread != 1 || len(got) != 1 {
		t.Fatalf("got %v, %d unread, %v", got, unread, err)
	}
	want := store.Ended{Job: job.ID, Accepted: got[0].Accepted, Digest: job.Digest, Phase: ares.Succeeded, At: storetest.Noon}
	if !got[0].At.Equal(want.At) || got[0].Accepted == 0 {
		t.Errorf("got %+v", got[0])
	}
	if got[0].At = want.At; got[0] != want {
		t.Errorf("got %+v, want %+v", got[0], want)
	}
}
