package lifecycle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/history/historytest"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// archiveFixture is a store with an Archiver and a history in a directory.
type archiveFixture struct {
	t     *testing.T
	store *store.Store
	lead  *store.Leadership
	node  *storetest.Node
	rec   *Archiver
	live  *LivePublisher
	now   time.Time
	wrote int
	fails int
}

func newBooks(t *testing.T, folder string) *archiveFixture {
	t.Helper()
	s := storetest.Embedded(t)
	h, err := history.Open(history.Config{File: filepath.Join(folder, "history.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	v := cache.NewView(time.Now)
	b := &archiveFixture{t: t, store: s, now: storetest.Noon.Add(time.Minute)}
	clock := func() time.Time { return b.now }
	l := accounting.NewAccounting(v, h, clock)
	b.live = &LivePublisher{Store: s, View: v, Accounting: l, Now: time.Now, Log: controltest.Quiet, Every: 5 * time.Millisecond}
	b.live.Follow()
	controltest.Run(t, func(ctx context.Context) error { return v.Run(ctx, s, func(error) {}) })
	b.lead, _ = storetest.NewLead(t, s)
	b.node = storetest.NewNode(t, s)
	b.rec = &Archiver{
		Store: s, View: v, Accounting: l, Now: clock, Log: controltest.Quiet, ArchiveAfter: time.Hour, Archive: &Journal{Path: filepath.Join(t.TempDir(), "a.jsonl")},
		Wrote: func(n int, err error) {
			if b.wrote += n; err != nil {
				b.fails++
			}
		},
	}
	t.Cleanup(func() { _ = b.rec.Archive.Close() })
	return b
}

// The method `job` makes a running job. The returned function `end` ends this job.
func (b *archiveFixture) job() (j *ares.Job, end func()) {
	b.t.Helper()
	j = storetest.NewJob(b.t, b.store)
	seats := storetest.Place(b.t, b.store, b.lead, j, b.node)
	storetest.Claim(b.t, b.store, seats, b.node)
	return j, func() {
		storetest.Finish(b.t, b.store, seats[0], ares.OutcomeSucceeded)
		storetest.Release(b.t, b.store, seats...)
	}
}

// caughtUp waits until the view has seen every change in the store.
func (b *archiveFixture) caughtUp() {
	b.t.Helper()
	revision, err := b.store.Revision(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	if err = b.rec.View.WaitFor(b.t.Context(), revision); err != nil {
		b.t.Fatal(err)
	}
}

func (b *archiveFixture) usage() string {
	b.t.Helper()
	b.caughtUp()
	rows, err := b.rec.Accounting.Usage(b.t.Context(), history.UsageQuery{})
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, u := range rows {
		out = append(out, fmt.Sprintf("%d jobs %d ms", u.Jobs, u.GPUMilliseconds))
	}
	return strings.Join(out, ", ")
}

// The method `listed` reads every page of a list of all jobs, and calls the callback `between` after each page.
func (b *archiveFixture) listed(limit int, between func()) []ares.JobID {
	b.t.Helper()
	b.caughtUp()
	var out []ares.JobID
	for f := (cache.Filter{Limit: limit}); ; {
		page, err := b.rec.Accounting.Jobs(b.t.Context(), f)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, k := range page.Jobs {
			out = append(out, k.Job.ID)
		}
		if !page.More {
			return out
		}
		last := page.Jobs[len(page.Jobs)-1].Job
		f.Before, f.After = last.Revision, last.ID
		between()
	}
}

func (b *archiveFixture) record() {
	b.caughtUp()
	b.rec.record(b.t.Context(), time.Second, time.Second)
}

func (b *archiveFixture) archive() {
	b.t.Helper()
	b.caughtUp()
	if err := b.rec.ArchiveDue(b.t.Context(), b.lead); err != nil {
		b.t.Fatal(err)
	}
}

// TestAJobIsCountedOnceWhereverItIs counts a job while it runs, after it ended, while it is both live and in history,
// and when it is only in history.
func TestAJobIsCountedOnceWhereverItIs(t *testing.T) {
	b := newBooks(t, t.TempDir())
	j, end := b.job()
	if got := b.usage(); got != "0 jobs 60000 ms" {
		t.Errorf("running for a minute: %s", got)
	}
	end()
	b.caughtUp()
	want := b.usage()
	if !strings.HasPrefix(want, "1 jobs") {
		t.Fatalf("ended: %s", want)
	}
	if n := len(b.rec.Accounting.Backlog()); n != 1 {
		t.Fatalf("%d wait for history, want 1", n)
	}
	for range 2 {
		b.record()
		if got := b.usage(); got != want || b.wrote != 1 {
			t.Errorf("recorded: %s, want %s; wrote %d", got, want, b.wrote)
		}
	}
	if n, lag := b.rec.Backlog(); n != 0 || lag != 0 {
		t.Errorf("backlog %d for %v", n, lag)
	}
	if got := b.listed(10, nil); !slices.Equal(got, []ares.JobID{j.ID}) {
		t.Errorf("listed twice, or not: %v", got)
	}
	b.now = b.now.Add(2 * time.Hour)
	b.archive()
	controltest.Await(t, b.rec.View, "the tombstone", func() bool { return b.rec.View.Job(j.ID) == nil })
	if got := b.usage(); got != want {
		t.Errorf("archived: %s, want %s", got, want)
	}
	if got := b.listed(10, nil); !slices.Equal(got, []ares.JobID{j.ID}) {
		t.Errorf("archived, it is listed %v", got)
	}
	k, err := b.rec.Accounting.Job(t.Context(), j.ID, "")
	if err != nil || !k.Archived || k.Run.Phase != ares.Succeeded || len(k.Run.Transitions) == 0 {
		t.Errorf("archived, it is %+v, %v", k, err)
	}
}

// TestTheTotalIsOfAllJobsOnce checks that the total of a list counts each live or archived job once. If the total is unknown, it must be
// absent.
func TestTheTotalIsOfAllJobsOnce(t *testing.T) {
	b := newBooks(t, t.TempDir())
	total := func(f cache.Filter) string {
		t.Helper()
		b.caughtUp()
		f.Limit = 1
		page, err := b.rec.Accounting.Jobs(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if page.Total == nil {
			return "unknown"
		}
		return strconv.FormatInt(*page.Total, 10)
	}
	j, end1 := b.job()
	_, end2 := b.job()
	b.job()
	check := func(when, active, ended string) {
		t.Helper()
		for _, c := range []struct {
			f    cache.Filter
			want string
		}{
			{cache.Filter{}, "3"},
			{cache.Filter{Tenant: j.Tenant}, "1"},
			{cache.Filter{Tenant: "nobody"}, "0"},
			{cache.Filter{Phases: []ares.Phase{ares.Running}}, active},
			{cache.Filter{Phases: []ares.Phase{ares.Succeeded}}, ended},
			{cache.Filter{Phases: []ares.Phase{ares.Running, ares.Succeeded}}, "3"},
		} {
			if got := total(c.f); got != c.want {
				t.Errorf("%s, %+v: %s, want %s", when, c.f, got, c.want)
			}
		}
	}
	check("running", "3", "0")
	end1()
	end2()
	check("ended", "1", "2")
	b.record()
	check("recorded", "1", "2")
	ended := b.rec.View.Jobs(cache.Filter{Phases: []ares.Phase{ares.Succeeded}}).Entries
	for _, e := range ended { // their runs change once more
		b.rec.Accounting.Apply(ares.Batch{Events: []ares.Event{{Run: &ares.RunEvent{Job: e.Job.ID, Run: ares.Run{Phase: ares.Succeeded, Revision: e.Run.Revision + 1}}}}})
	}
	check("recorded in an earlier version", "1", "2")
	for _, e := range ended {
		b.rec.Accounting.MarkRecorded(e.Job.ID, e.Run.Revision+1)
	}
	for want, f := range map[string]cache.Filter{"unknown": {From: storetest.Noon.AddDate(-9, 0, 0)}, "0": {To: storetest.Noon.AddDate(-9, 0, 0)}} {
		if got := total(f); got != want {
			t.Errorf("by time: %s, want %s", got, want)
		}
	}
	b.now = b.now.Add(2 * time.Hour)
	b.archive()
	controltest.Await(t, b.rec.View, "the tombstones", func() bool { return len(b.rec.View.Jobs(cache.Filter{}).Entries) == 1 })
	check("archived", "1", "2")
}

// TestWithoutHistoryAJobStaysLive checks that no job is lost in an outage of the database, however long the outage lasts.
func TestWithoutHistoryAJobStaysLive(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "not yet")
	b := newBooks(t, folder)
	var jobs []*ares.Job
	for range 3 {
		j, end := b.job()
		end()
		jobs = append(jobs, j)
	}
	b.record()
	b.now = b.now.Add(48 * time.Hour)
	b.archive()
	if n, lag := b.rec.Backlog(); n != 3 || b.fails == 0 {
		t.Errorf("backlog %d for %v, %d failures", n, lag, b.fails)
	}
	for _, j := range jobs {
		if snap := storetest.Get(t, b.store, j.ID); snap.Tombstone != nil {
			t.Fatal("archived although history does not have it")
		}
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	b.record()
	b.archive()
	if b.wrote != 3 {
		t.Errorf("%d jobs were written, want 3", b.wrote)
	}
	for _, j := range jobs {
		if snap := storetest.Get(t, b.store, j.ID); snap.Tombstone == nil {
			t.Error("still live")
		}
	}
}

// TestAJobThatMovesKeepsItsPlaceInPages checks that a list shows each job once even if jobs are
// archived between its pages.
func TestAJobThatMovesKeepsItsPlaceInPages(t *testing.T) {
	b := newBooks(t, t.TempDir())
	var want []ares.JobID
	for range 9 {
		j, end := b.job()
		end()
		want = append([]ares.JobID{j.ID}, want...)
	}
	b.record()
	moved := false
	got := b.listed(2, func() {
		if !moved {
			moved = true
			b.now = b.now.Add(48 * time.Hour)
			b.archive()
			controltest.Await(t, b.rec.View, "the tombstones", func() bool { return b.rec.View.Jobs(cache.Filter{}).Total == 0 })
		}
	})
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}

// TestAnotherServersWritingIsSeen checks that a server that is not the leader finds the jobs that the leader wrote to
// history, and counts them once.
func TestAnotherServersWritingIsSeen(t *testing.T) {
	folder := t.TempDir()
	b := newBooks(t, folder)
	_, end := b.job()
	end()
	b.caughtUp()
	h, err := history.Open(history.Config{File: filepath.Join(folder, "history.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	e := b.rec.Accounting.Backlog()[0]
	if n, err := h.Put(t.Context(), []history.Finished{{Job: e.Job, Run: &e.Run, Kinds: b.rec.View.Kinds()}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if got := b.usage(); !strings.HasPrefix(got, "1 jobs") {
		t.Errorf("it is counted as %s", got)
	}
}

// TestOldJobsLeaveHistory checks that jobs older than the retention time are removed from history.
func TestOldJobsLeaveHistory(t *testing.T) {
	b := newBooks(t, t.TempDir())
	_, end := b.job()
	end()
	b.rec.Retention = 24 * time.Hour
	b.now = b.now.Add(48 * time.Hour)
	b.caughtUp()
	if err := b.rec.prune(t.Context()); err != nil { // the job is not in history yet, so pruning must not go beyond it
		t.Fatal(err)
	}
	b.record()
	if b.wrote != 1 {
		t.Fatalf("%d were written, want 1", b.wrote)
	}
	want := b.usage()
	if err := b.rec.prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, _, err := b.rec.Accounting.History.Jobs(t.Context(), history.Filter{Limit: 10})
	if err != nil || len(page) != 0 {
		t.Errorf("%d jobs are left, %v", len(page), err)
	}
	if got := b.usage(); got != want {
		t.Errorf("the use was %s and is %s", want, got)
	}
}

// TestTheTotalComesWithTheFirstPage checks that later pages do not count jobs, and that a page is returned even if
// counting fails.
func TestTheTotalComesWithTheFirstPage(t *testing.T) {
	b := newBooks(t, t.TempDir())
	past := historytest.SQLite(t)
	b.rec.Accounting.History = past.Open(t)
	for range 3 {
		_, end := b.job()
		end()
	}
	b.record()
	first, err := b.rec.Accounting.Jobs(t.Context(), cache.Filter{Limit: 1})
	if err != nil || first.Total == nil || *first.Total != 3 {
		t.Fatalf("the first page says %v, %v", first.Total, err)
	}
	last := first.Jobs[0].Job
	page, err := b.rec.Accounting.Jobs(t.Context(), cache.Filter{Limit: 1, Before: last.Revision, After: last.ID})
	if err != nil || len(page.Jobs) != 1 || page.Total != nil {
		t.Errorf("the second page is %+v, %v", page, err)
	}
	if _, err = past.Raw.ExecContext(t.Context(), "DROP TABLE job_counts"); err != nil {
		t.Fatal(err)
	}
	page, err = b.rec.Accounting.Jobs(t.Context(), cache.Filter{Limit: 1})
	if err != nil || len(page.Jobs) != 1 || !page.More || page.Total != nil {
		t.Errorf("where jobs cannot be counted, the page is %+v, %v", page, err)
	}
}
