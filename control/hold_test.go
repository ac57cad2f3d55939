package control

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// restored is a store made from a backup of another, with a note to its first
// leader.
func restored(t *testing.T, from *store.Store, hold time.Duration) *store.Store {
	t.Helper()
	var data bytes.Buffer
	if err := from.Backup(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	if err := os.WriteFile(file, data.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Restore(t.Context(), filepath.Join(dir, "store"), store.Restoration{File: file, Hold: hold, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Config{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// hearing is a log of which each line is heard when it is written.
type hearing struct {
	slog.Handler
	hear func(line string)
}

func (h hearing) Enabled(context.Context, slog.Level) bool { return true }

func (h hearing) Handle(_ context.Context, r slog.Record) error {
	h.hear(r.Message)
	return nil
}

func TestNothingIsPlacedBeforeTheHoldIsOver(t *testing.T) {
	t.Parallel()
	old := storetest.Embedded(t)
	job := storetest.NewJob(t, old)
	const patient = 1500 * time.Millisecond
	s := restored(t, old, patient)
	hold := &Hold{Store: s}
	alerts := make(chan string, 10)
	hold.Log = slog.New(hearing{slog.DiscardHandler, func(string) { alerts <- hold.Alert() }}) // while it waits
	began := time.Now()
	srv := newServer(t, "first", s, func(l *Loop) { l.Before = hold.Wait })
	n := storetest.NewNode(t, s)
	gate := make(chan struct{})
	close(gate)
	agent(t, s, srv.view, n, gate)
	await(t, srv.view, "its end", func() bool { return phaseOf(srv.view, job.ID) == ares.Succeeded })
	if alert := <-alerts; !strings.Contains(alert, "nothing is placed for another") {
		t.Errorf("while nothing was placed the alert was %q", alert)
	}
	if took := time.Since(began); took < patient {
		t.Errorf("placed after %s, though nothing may be for %s", took, patient)
	}
	if a := hold.Alert(); a != "" {
		t.Errorf("the alert is still %q", a)
	}
	if h, err := s.Hold(t.Context()); h != nil || err != nil {
		t.Errorf("the note is still there: %v, %v", h, err)
	}
}

// A leader that is replaced has not waited for its successor.
func TestEachLeaderWaitsForItself(t *testing.T) {
	t.Parallel()
	s := restored(t, storetest.Embedded(t), time.Hour)
	hold := &Hold{Store: s, Log: quiet}
	for range 2 {
		lead, resign := storetest.NewLead(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		waited, began := make(chan error, 1), time.Now()
		go func() { waited <- hold.Wait(ctx, lead) }()
		for !strings.Contains(hold.Alert(), "nothing is placed for another ") {
			select {
			case err := <-waited:
				t.Fatalf("it did not wait: %v", err)
			case <-time.After(time.Millisecond):
			}
		}
		if left := hold.until.Load().Sub(began); left < time.Hour {
			t.Errorf("this leader waits for %s only", left)
		}
		cancel()
		if err := <-waited; err == nil {
			t.Error("a leader whose term ended may decide")
		}
		resign()
	}
	if h, err := s.Hold(t.Context()); h == nil || err != nil {
		t.Errorf("the note is gone: %v", err)
	}
}

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
	view := follow(t, s)
	await(t, view, "its end", func() bool { e := view.Job(job.ID); return e != nil && e.Run.Phase.Final() && e.Run.Free() })
	path := filepath.Join(t.TempDir(), "archive.jsonl")
	journal := &Journal{Path: path}
	r := &Recorder{Store: s, View: view, Archive: journal, Now: func() time.Time { return storetest.Noon.Add(time.Hour) }, ArchiveAfter: time.Minute}
	if err := r.archive(t.Context(), lead); err != nil {
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
