package lifecycle

import (
	"context"
	"database/sql"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // registers the driver

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storetest"
)

// liveStates queries the history database as a person does: the states of all jobs, ordered by acceptance.
func liveStates(t *testing.T, folder string) string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "history.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), "SELECT id, state FROM jobs ORDER BY accepted_revision")
	if err != nil {
		return err.Error() // before the tables are there
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var id, state string
		if err = rows.Scan(&id, &state); err != nil {
			t.Fatal(err)
		}
		out = append(out, state)
	}
	if err = rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

// awaitStates waits until the database shows the wanted states.
func awaitStates(t *testing.T, folder, want string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(20 * time.Second); ; <-tick.C {
		got := liveStates(t, folder)
		if got == want {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("the jobs are %q, want %q", got, want)
		}
	}
}

// leading runs a LivePublisher. The returned function ends it, as a change of the leader does.
func (b *archiveFixture) leading() (resign func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.live.Run(ctx, b.lead)
	}()
	resign = func() {
		cancel()
		<-done
	}
	b.t.Cleanup(resign)
	return resign
}

// TestLiveJobsAreInHistory follows jobs from their submission to their end, with a change of the leader between.
func TestLiveJobsAreInHistory(t *testing.T) {
	folder := t.TempDir()
	b := newBooks(t, folder)
	resign := b.leading()

	storetest.NewJob(t, b.store)
	awaitStates(t, folder, "pending")
	_, end := b.job()
	awaitStates(t, folder, "pending running")
	end()
	awaitStates(t, folder, "pending completed") // not yet among the finished jobs

	// Nobody writes while there is no leader. The next one finds what changed.
	resign()
	b.caughtUp()
	b.record()
	b.now = b.now.Add(2 * time.Hour)
	b.archive()
	storetest.NewJob(t, b.store)
	b.caughtUp()
	if got := liveStates(t, folder); got != "pending completed" {
		t.Errorf("without a leader the jobs are %q", got)
	}
	resign = b.leading()
	awaitStates(t, folder, "pending completed pending")

	// After a restore, the database may have versions of jobs that the store does not have.
	resign()
	spoil(t, folder, "UPDATE live_jobs SET run_revision = run_revision + 1000000, phase = 'running'")
	spoil(t, folder, "INSERT INTO live_jobs SELECT 'job-unknown', accepted_revision + 5000, run_revision, name, tenant, queue, submitted_by, phase, reason, outcome, exit_code, priority, priority_class, members, gpus_per_member, gpu_milli, gpu_model, cpu_cores, memory_mb, image, is_array, array_of, array_index, retry_of, accepted_at, started_at, finished_at, attempts, retries, preemptions, gpu_memory_mb, max_runtime_minutes, gang_scheduling, command, args, environment FROM live_jobs LIMIT 1")
	if got := liveStates(t, folder); got != "running completed running running" {
		t.Errorf("the spoiled jobs are %q", got)
	}
	b.leading()
	awaitStates(t, folder, "pending completed pending")
}

// TestManyLiveChanges has more changes than the LivePublisher remembers.
func TestManyLiveChanges(t *testing.T) {
	folder := t.TempDir()
	b := newBooks(t, folder)
	storetest.NewJob(t, b.store)
	b.caughtUp()
	b.live.lead(true)
	b.live.compare = false
	for i := range maxLiveChanges + 1 {
		b.live.changed[ares.NewJobID("many", strconv.Itoa(i))] = struct{}{}
	}
	b.live.apply(ares.Batch{})
	if len(b.live.changed) != 0 {
		t.Errorf("%d changes are remembered", len(b.live.changed))
	}
	if err := b.live.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitStates(t, folder, "pending")
}

func spoil(t *testing.T, folder, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "history.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err = db.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}
