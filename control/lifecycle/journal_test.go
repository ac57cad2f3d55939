package lifecycle

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/store/storetest"
)

// The function `lines` reads the file of a journal. For each line that is not JSON, the result has "".
func lines(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []string
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var v any
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			out = append(out, "")
			continue
		}
		out = append(out, sc.Text())
	}
	return out
}

func TestJournalTurnsOver(t *testing.T) {
	t.Parallel()
	j := &Journal{Path: filepath.Join(t.TempDir(), "deep", "j.jsonl"), MaxBytes: 100}
	var wg sync.WaitGroup
	for i := range 30 { // lines of 10 bytes, written concurrently
		wg.Go(func() {
			if err := j.Append(fmt.Sprintf("line-%02d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	now, before := lines(t, j.Path), lines(t, j.Path+".1")
	if len(now) != 10 || len(before) != 10 {
		t.Errorf("%d lines now and %d before, want 10 each", len(now), len(before))
	}
	for _, l := range append(now, before...) {
		if l == "" {
			t.Error("a line is torn")
		}
	}
	info, err := os.Stat(j.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: only the owner may read it", info.Mode(), err)
	}
	// After the journal is opened again, it appends at the end of the file.
	if err := j.Append("again"); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, j.Path); len(got) != 1 || got[0] != `"again"` {
		t.Errorf("after turning over again: %q", got)
	}
}

// TestJournalMendsATornLine appends to a journal after a crash in the middle of a line. The next line in the
// journal must be readable, because it is the only copy of a finished job.
func TestJournalMendsATornLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j.jsonl")
	if err := os.WriteFile(path, []byte("\"whole\"\n{\"torn\":"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := &Journal{Path: path, Sync: true}
	for range 2 {
		if err := j.Append("next"); err != nil {
			t.Fatal(err)
		}
	}
	// A failed write, as on a full disk, does not damage the next line.
	_ = j.file.Close()
	if err := j.Append("lost"); err == nil {
		t.Error("a failed write returned no error")
	}
	if err := j.Append("after"); err != nil {
		t.Errorf("after a failed write: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{`"whole"`, "", `"next"`, `"next"`, `"after"`}
	if got := lines(t, path); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := (&Journal{Path: path}).Append(func() {}); err == nil {
		t.Error("a value that JSON cannot encode was appended")
	}
}

func TestArchiverArchivesFinishedJobs(t *testing.T) {
	s := storetest.Embedded(t)
	v := controltest.Follow(t, s)
	lead, _ := storetest.NewLead(t, s)
	node := storetest.NewNode(t, s)
	end := func(release bool) *ares.Job {
		j := storetest.NewJob(t, s)
		seats := storetest.Place(t, s, lead, j, node)
		storetest.Claim(t, s, seats, node)
		storetest.Finish(t, s, seats[0], ares.OutcomeSucceeded)
		if release {
			storetest.Release(t, s, seats...)
		}
		return j
	}
	free, held, waiting := end(true), end(false), storetest.NewJob(t, s)
	controltest.Await(t, v, "the jobs' ends", func() bool {
		e := v.Job(free.ID)
		return e != nil && e.Run.Free() && controltest.PhaseOf(v, held.ID) == ares.Succeeded && v.Job(waiting.ID) != nil
	})
	now := storetest.Noon.Add(59 * time.Minute)
	path := filepath.Join(t.TempDir(), "a.jsonl")
	r := &Archiver{
		Store: s, View: v, Now: func() time.Time { return now }, Log: controltest.Quiet, ArchiveAfter: time.Hour, RememberFor: time.Hour,
		Archive: &Journal{Path: filepath.Join(path, "a file is no directory"), Sync: true},
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.ArchiveDue(t.Context(), nil); err != nil {
		t.Errorf("nothing is due: %v", err)
	}
	now = now.Add(time.Hour)
	// A job is not archived if its line could not be written.
	if err := r.ArchiveDue(t.Context(), nil); err == nil {
		t.Error("the line could not be written")
	}
	if snap := storetest.Get(t, s, free.ID); snap.Tombstone != nil {
		t.Fatal("archived without a line: its history is lost")
	}
	r.Archive = &Journal{Path: path, Sync: true}
	defer r.Archive.Close()
	if err := r.ArchiveDue(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	got := lines(t, path)
	if len(got) != 1 {
		t.Fatalf("the archive has %q", got)
	}
	var line struct {
		Job struct{ ID ares.JobID }
		Run struct{ Phase ares.Phase }
	}
	if err := json.Unmarshal([]byte(got[0]), &line); err != nil || line.Job.ID != free.ID || line.Run.Phase != ares.Succeeded {
		t.Errorf("the line says %+v, %v", line, err)
	}
	if snap := storetest.Get(t, s, free.ID); snap.Tombstone == nil {
		t.Error("the finished job is still live")
	}
	for _, j := range []*ares.Job{held, waiting} {
		if snap := storetest.Get(t, s, j.ID); snap.Tombstone != nil {
			t.Errorf("job %s has not ended, yet it is archived", j.ID)
		}
	}
	controltest.Await(t, v, "the tombstone", func() bool { return v.Job(free.ID) == nil })
}

// TestArchiverForgetsOldRequests checks that, with the documented defaults, the Archiver removes requests whose jobs
// ended long ago.
func TestArchiverForgetsOldRequests(t *testing.T) {
	s := storetest.Embedded(t)
	v := controltest.Follow(t, s)
	j := storetest.NewJob(t, s)
	if _, err := s.RequestStop(t.Context(), j.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: storetest.Noon}); err != nil {
		t.Fatal(err)
	}
	controltest.Await(t, v, "the cancel", func() bool { return controltest.PhaseOf(v, j.ID) == ares.Cancelled })
	r := &Archiver{
		Store: s, View: v, Log: controltest.Quiet, Archive: &Journal{Path: filepath.Join(t.TempDir(), "a.jsonl")},
		Now: func() time.Time { return storetest.Noon.Add(25 * time.Hour) },
	}
	defer r.Archive.Close()
	stop := controltest.Run(t, func(ctx context.Context) error { return r.Run(ctx, nil) })
	controltest.Await(t, v, "the job to be archived", func() bool { return v.Job(j.ID) == nil })
	stop()
	if snap := storetest.Get(t, s, j.ID); snap.Tombstone == nil {
		t.Fatal("a day after its end a request is still remembered")
	}
	if got := lines(t, r.Archive.Path); len(got) != 1 {
		t.Errorf("%d lines of one job: it looks once a minute", len(got))
	}
	r.Now = func() time.Time { return storetest.Noon.Add(8 * 24 * time.Hour) }
	stop = controltest.Run(t, func(ctx context.Context) error { return r.Run(ctx, nil) })
	controltest.Await(t, v, "the request to be forgotten", func() bool {
		_, err := s.Job(t.Context(), j.ID)
		return ares.CodeOf(err) == ares.NotFound
	})
	stop()
}
