package scheduler_test

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
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// The function `restored` returns a store restored from a backup, with the restore note for its first leader.
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
	s, err := store.Open(t.Context(), store.Config{Dir: filepath.Join(dir, "store"), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// The type `hearing` is a log handler that calls a function for each log line.
type hearing struct {
	slog.Handler
	hear func(line string)
}

func (h hearing) Enabled(context.Context, slog.Level) bool { return true }

func (h hearing) Handle(_ context.Context, r slog.Record) error {
	h.hear(r.Message)
	return nil
}

func TestNothingIsPlacedDuringTheRestoreDelay(t *testing.T) {
	t.Parallel()
	old := storetest.Embedded(t)
	job := storetest.NewJob(t, old)
	const patient = 1500 * time.Millisecond
	s := restored(t, old, patient)
	hold := &scheduler.RestoreDelay{Store: s}
	alerts := make(chan string, 10)
	hold.Log = slog.New(hearing{slog.DiscardHandler, func(string) { alerts <- hold.Alert() }}) // while the leader waits
	began := time.Now()
	srv := controltest.NewServer(t, "first", s, func(l *scheduler.Loop) { l.Before = hold.Wait })
	n := storetest.NewNode(t, s)
	gate := make(chan struct{})
	close(gate)
	controltest.Agent(t, s, srv.View, n, gate)
	controltest.Await(t, srv.View, "its end", func() bool { return controltest.PhaseOf(srv.View, job.ID) == ares.Succeeded })
	if alert := <-alerts; !strings.Contains(alert, "nothing is placed for another") {
		t.Errorf("while nothing was placed the alert was %q", alert)
	}
	if took := time.Since(began); took < patient {
		t.Errorf("placed after %s, although nothing may be placed for %s", took, patient)
	}
	if a := hold.Alert(); a != "" {
		t.Errorf("the alert is still %q", a)
	}
	if h, err := s.Hold(t.Context()); h != nil || err != nil {
		t.Errorf("the note is still there: %v, %v", h, err)
	}
}

// TestEachLeaderWaitsForItself checks that a new leader waits for the whole delay, regardless of how long its
// predecessor waited.
func TestEachLeaderWaitsForItself(t *testing.T) {
	t.Parallel()
	s := restored(t, storetest.Embedded(t), time.Hour)
	hold := &scheduler.RestoreDelay{Store: s, Log: controltest.Quiet}
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
		if left := scheduler.Until(hold).Sub(began); left < time.Hour {
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
