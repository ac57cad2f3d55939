package control

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
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// books is a store with a recorder that keeps a history in a folder.
type books struct {
	t     *testing.T
	store *store.Store
	lead  *store.Leadership
	node  *storetest.Node
	rec   *Recorder
	now   time.Time
	wrote int
	fails int
}

func newBooks(t *testing.T, folder string) *books {
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
	v := NewView(time.Now)
	b := &books{t: t, store: s, now: noon.Add(time.Minute)}
	clock := func() time.Time { return b.now }
	l := NewLedger(v, h, clock)
	run(t, func(ctx context.Context) error { return v.Run(ctx, s, func(error) {}) })
	b.lead, _ = storetest.NewLead(t, s)
	b.node = storetest.NewNode(t, s)
	b.rec = &Recorder{
		Store: s, View: v, Ledger: l, Now: clock, Log: quiet, ArchiveAfter: time.Hour, Archive: &Journal{Path: filepath.Join(t.TempDir(), "a.jsonl")},
		Wrote: func(n int, err error) {
			if b.wrote += n; err != nil {
				b.fails++
			}
		},
	}
	t.Cleanup(func() { _ = b.rec.Archive.Close() })
	return b
}

// job makes a job that runs; end ends it.
func (b *books) job() (j *ares.Job, end func()) {
	b.t.Helper()
	j = storetest.NewJob(b.t, b.store)
	seats := storetest.Place(b.t, b.store, b.lead, j, b.node)
	storetest.Claim(b.t, b.store, seats, b.node)
	return j, func() {
		storetest.Finish(b.t, b.store, seats[0], ares.OutcomeSucceeded)
		storetest.Release(b.t, b.store, seats...)
	}
}

// caughtUp waits until the view has seen everything.
func (b *books) caughtUp() {
	b.t.Helper()
	revision, err := b.store.Revision(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	if err = b.rec.View.WaitFor(b.t.Context(), revision); err != nil {
		b.t.Fatal(err)
	}
}

func (b *books) usage() string {
	b.t.Helper()
	b.caughtUp()
	rows, err := b.rec.Ledger.Usage(b.t.Context(), history.UsageQuery{})
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, u := range rows {
		out = append(out, fmt.Sprintf("%d jobs %d ms", u.Jobs, u.GPUMilliseconds))
	}
	return strings.Join(out, ", ")
}

// listed reads every page of a list of all jobs, and calls between after each.
func (b *books) listed(limit int, between func()) []ares.JobID {
	b.t.Helper()
	b.caughtUp()
	var out []ares.JobID
	for f := (Filter{Limit: limit}); ; {
		page, err := b.rec.Ledger.Jobs(b.t.Context(), f)
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

func (b *books) record() {
	b.caughtUp()
	b.rec.record(b.t.Context(), time.Second, time.Second)
}

func (b *books) archive() {
	b.t.Helper()
	b.caughtUp()
	if err := b.rec.archive(b.t.Context(), b.lead); err != nil {
		b.t.Fatal(err)
	}
}

// TestAJobIsCountedOnceWhereverItIs: while it runs, after it ended, once it is in
// history, and when it is there alone.
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
	if n := len(b.rec.Ledger.backlog()); n != 1 {
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
	await(t, b.rec.View, "the tombstone", func() bool { return b.rec.View.Job(j.ID) == nil })
	if got := b.usage(); got != want {
		t.Errorf("archived: %s, want %s", got, want)
	}
	if got := b.listed(10, nil); !slices.Equal(got, []ares.JobID{j.ID}) {
		t.Errorf("archived, it is listed %v", got)
	}
	k, err := b.rec.Ledger.Job(t.Context(), j.ID, "")
	if err != nil || !k.Archived || k.Run.Phase != ares.Succeeded || len(k.Run.Transitions) == 0 {
		t.Errorf("archived, it is %+v, %v", k, err)
	}
}

// TestTheTotalIsOfAllJobsOnce: a list says how many there are wherever they are,
// and does not say zero where it does not know.
func TestTheTotalIsOfAllJobsOnce(t *testing.T) {
	b := newBooks(t, t.TempDir())
	total := func(f Filter) string {
		t.Helper()
		b.caughtUp()
		f.Limit = 1
		page, err := b.rec.Ledger.Jobs(t.Context(), f)
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
			f    Filter
			want string
		}{
			{Filter{}, "3"},
			{Filter{Tenant: j.Tenant}, "1"},
			{Filter{Tenant: "nobody"}, "0"},
			{Filter{Phases: []ares.Phase{ares.Running}}, active},
			{Filter{Phases: []ares.Phase{ares.Succeeded}}, ended},
			{Filter{Phases: []ares.Phase{ares.Running, ares.Succeeded}}, "3"},
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
	ended := b.rec.View.Jobs(Filter{Phases: []ares.Phase{ares.Succeeded}}).Entries
	for _, e := range ended { // they change once more
		b.rec.Ledger.saw(ares.Batch{Events: []ares.Event{{Run: &ares.RunEvent{Job: e.Job.ID, Run: ares.Run{Phase: ares.Succeeded, Revision: e.Run.Revision + 1}}}}})
	}
	check("recorded in an earlier version", "1", "2")
	for _, e := range ended {
		b.rec.Ledger.recorded(e.Job.ID, e.Run.Revision+1)
	}
	for want, f := range map[string]Filter{"unknown": {From: noon.AddDate(-9, 0, 0)}, "0": {To: noon.AddDate(-9, 0, 0)}} {
		if got := total(f); got != want {
			t.Errorf("by time: %s, want %s", got, want)
		}
	}
	b.now = b.now.Add(2 * time.Hour)
	b.archive()
	await(t, b.rec.View, "the tombstones", func() bool { return len(b.rec.View.Jobs(Filter{}).Entries) == 1 })
	check("archived", "1", "2")
}

// TestWithoutHistoryAJobStaysLive: nothing is lost by an outage, however long.
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

// TestAJobThatMovesKeepsItsPlaceInPages archives jobs while somebody reads.
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
			await(t, b.rec.View, "the tombstones", func() bool { return b.rec.View.Jobs(Filter{}).Total == 0 })
		}
	})
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}

// TestAnotherServersWritingIsSeen: a server that does not lead finds in history
// what the leader wrote, and does not count it again.
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
	e := b.rec.Ledger.backlog()[0]
	if n, err := h.Put(t.Context(), []history.Finished{{Job: e.Job, Run: &e.Run, Kinds: b.rec.View.Kinds()}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if got := b.usage(); !strings.HasPrefix(got, "1 jobs") {
		t.Errorf("it is counted as %s", got)
	}
}

// TestOldJobsLeaveHistory keeps to the retention.
func TestOldJobsLeaveHistory(t *testing.T) {
	b := newBooks(t, t.TempDir())
	_, end := b.job()
	end()
	b.rec.Retention = 24 * time.Hour
	b.now = b.now.Add(48 * time.Hour)
	b.caughtUp()
	if err := b.rec.prune(t.Context()); err != nil { // it is not in history: the bound must not pass it
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
	page, _, err := b.rec.Ledger.History.Jobs(t.Context(), history.Filter{Limit: 10})
	if err != nil || len(page) != 0 {
		t.Errorf("%d jobs are left, %v", len(page), err)
	}
	if got := b.usage(); got != want {
		t.Errorf("the use was %s and is %s", want, got)
	}
}

func TestRegionsOfNodes(t *testing.T) {
	v := NewView(time.Now)
	top := &ares.Topology{Domains: []ares.Domain{
		{Name: "eu", Level: ares.LevelRegion}, {Name: "z1", Level: ares.LevelZone, Parent: "eu"}, {Name: "l1", Level: ares.LevelLeaf, Parent: "z1", Nodes: []string{"a"}},
	}}
	node := func(id string, labels map[string]string) ares.Event {
		return ares.Event{Node: &ares.Node{ID: id, Labels: labels, Devices: []ares.Device{{ID: "d", Model: "H100"}}}}
	}
	v.Apply(ares.Batch{Revision: 1, Events: []ares.Event{node("a", nil), node("b", map[string]string{"region": "us"}), node("c", map[string]string{"leaf": "l1"})}})
	kinds := v.Kinds()
	for _, c := range []struct{ node, before string }{{"a", ""}, {"b", "us"}, {"c", ""}} {
		if got := kinds(c.node, "d"); got != (history.Kind{Model: "H100", Region: c.before}) {
			t.Errorf("%s without a topology: %v", c.node, got)
		}
	}
	v.Apply(ares.Batch{Revision: 2, Events: []ares.Event{{Topology: top}}})
	for _, c := range []struct{ node, after string }{{"a", "eu"}, {"b", "us"}, {"c", "eu"}} {
		if got := kinds(c.node, "d"); got.Region != c.after {
			t.Errorf("%s is in %q, want %q", c.node, got.Region, c.after)
		}
	}
	if got := kinds("gone", "d"); got != (history.Kind{}) {
		t.Errorf("a node that is gone: %v", got)
	}
}
