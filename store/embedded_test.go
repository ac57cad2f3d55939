package store_test

import (
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

func openDir(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Dir: dir, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t *testing.T, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOneAresUsesADirectory(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	_, err := store.Open(t.Context(), store.Config{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "another Ares server uses "+dir) || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("got %v, want who uses it and what to do", err)
	}
	closeStore(t, s)
	closeStore(t, openDir(t, dir))
	if _, err := store.Open(t.Context(), store.Config{}); err == nil {
		t.Error("no directory at all must be an error")
	}
}

func TestRestartKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	job, node := storetest.NewJob(t, s), storetest.NewNode(t, s)
	lead, resign := storetest.NewLead(t, s)
	seats := storetest.Place(t, s, lead, job, node)
	storetest.Claim(t, s, seats, node)
	before := storetest.Get(t, s, job.ID)
	resign()
	closeStore(t, s)

	s = openDir(t, dir)
	defer closeStore(t, s)
	after := storetest.Get(t, s, job.ID)
	if after.Run.Phase != ares.Running || after.Run.Revision != before.Run.Revision || after.Run.Fence() != seats[0].Fence {
		t.Errorf("after a restart %+v, before %+v", after.Run, before.Run)
	}
	// The node's session survived the restart, so the attempt continues under the same session.
	if err := s.RenewSession(t.Context(), node.ID, node.Session); err != nil {
		t.Errorf("the session: %v", err)
	}
	if run := storetest.Finish(t, s, seats[0], ares.OutcomeSucceeded); run.Phase != ares.Succeeded {
		t.Errorf("got %s", run.Phase)
	}
	lead, _ = storetest.NewLead(t, s)
	storetest.Place(t, s, lead, storetest.NewJob(t, s), node)
}

// TestTenThousandJobs reopens a store and reads its first snapshot. The test prints how long the
// reopening takes, but does not fail if it takes long.
func TestTenThousandJobs(t *testing.T) {
	const jobs = 10_000
	dir := t.TempDir()
	s := openDir(t, dir)
	tenant := storetest.NewTenant(t, s)
	asks := make([]store.Creation, jobs)
	for i := range asks {
		asks[i] = storetest.JobOf(tenant, storetest.Sleep())
	}
	start := time.Now()
	for i, got := range s.Create(t.Context(), asks) {
		if got.Err != nil {
			t.Fatalf("job %d: %v", i, got.Err)
		}
	}
	t.Logf("%d jobs created in %v", jobs, time.Since(start))
	start = time.Now()
	closeStore(t, s)
	t.Logf("closed in %v", time.Since(start))

	start = time.Now()
	s = openDir(t, dir)
	defer closeStore(t, s)
	opened := time.Since(start)
	start = time.Now()
	seen := 0
	stop := ares.Errorf(ares.Internal, "seen enough")
	err := s.Watch(t.Context(), func(b ares.Batch) error {
		for _, e := range b.Events {
			if e.Job != nil {
				seen++
			}
		}
		return stop
	})
	if seen != jobs {
		t.Errorf("the snapshot has %d jobs of %d (%v)", seen, jobs, err)
	}
	t.Logf("reopened in %v, snapshot of %d jobs in %v", opened, jobs, time.Since(start))
}
