package historytest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
)

func put(tb testing.TB, h *history.History, want int, jobs ...history.Finished) {
	tb.Helper()
	if n, err := h.Put(tb.Context(), jobs); err != nil || n != want {
		tb.Fatalf("put wrote %d, %v; want %d", n, err, want)
	}
}

func aJobComesBackWhole(t *testing.T, b Base) {
	h := b.Open(t)
	f := Made{ID: "whole", GPUs: 2, Edit: func(j *ares.Job, r *ares.Run) {
		j.Environment, j.Labels = map[string]string{"TOKEN": "s3cret", "B": "2"}, map[string]string{"app": "x"}
		j.Checkpoint.Enabled, j.After, j.Deadline = true, []string{string(ID("before"))}, Noon.Add(time.Hour)
		r.Preemptions, r.Retries, r.Losses, r.Dropped, r.Ran = 1, 2, 1, 3, time.Second
		r.Attempts[0].Preemption = &ares.Preemption{To: ID("other"), Tenant: "x", Milli: 5}
	}}.Finished()
	put(t, h, 1, f)
	got, err := h.Job(t.Context(), f.Job.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	want := *f.Job
	want.Environment = map[string]string{"TOKEN": "(not kept in history)", "B": "(not kept in history)"}
	if g, w := written(t, got.Job, got.Run), written(t, want, *f.Run); g != w {
		t.Errorf("a job came back otherwise than it went:\ngot  %s\nwant %s", g, w)
	}
	if w := history.Parts(f.Job, f.Run, f.Kinds, f.Run.FinishedAt); !slices.Equal(got.Parts, w) {
		t.Errorf("it used %v, want %v", got.Parts, w)
	}
	if n := b.count(t, "SELECT COUNT(*) FROM placements WHERE model = 'h100' AND region = 'eu' AND milli = 1000"); n != 2 {
		t.Errorf("%d devices are placements, want 2", n)
	}
	for _, tenant := range []string{"", "team"} {
		if _, err = h.Job(t.Context(), f.Job.ID, tenant); err != nil {
			t.Errorf("for tenant %q: %v", tenant, err)
		}
	}
	_, foreign := h.Job(t.Context(), f.Job.ID, "rivals")
	_, absent := h.Job(t.Context(), ID("nowhere"), "rivals")
	if ares.CodeOf(foreign) != ares.NotFound || strings.ReplaceAll(foreign.Error(), string(f.Job.ID), string(ID("nowhere"))) != absent.Error() {
		t.Errorf("another's job is answered %v, one that is not there %v", foreign, absent)
	}
}

func written(t *testing.T, v ...any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func aJobIsThereOnce(t *testing.T, b Base) {
	h := b.Open(t)
	first := Made{ID: "once", Runs: time.Hour}.Finished()
	put(t, h, 1, first)
	put(t, h, 0, first)
	older := Made{ID: "once", Runs: 9 * time.Hour, Edit: func(_ *ares.Job, r *ares.Run) { r.Revision-- }}.Finished()
	put(t, h, 0, older)
	newer := Made{ID: "once", Runs: 30 * time.Hour, Edit: func(_ *ares.Job, r *ares.Run) { r.Revision++ }}.Finished()
	put(t, h, 1, newer, first)
	b.Recount(t)
	if n := b.count(t, "SELECT SUM(gpu_milliseconds) FROM usage_daily"); n != 30*3_600_000 {
		t.Errorf("the sum is %d ms, want 30 h", n)
	}
	// A job's ID may be reused after the store has forgotten the original request. A reused ID refers to another job.
	put(t, h, 1, Made{ID: "once", Revision: 900}.Finished())
	b.Recount(t)
	if n := b.count(t, "SELECT COUNT(*) FROM finished_jobs"); n != 2 {
		t.Errorf("%d jobs, want 2", n)
	}
	if got, err := h.Job(t.Context(), ID("once"), ""); err != nil || got.Job.Revision != 900 {
		t.Errorf("the last is not found: %v, %v", got.Job.Revision, err)
	}
	revisions, err := h.Revisions(t.Context(), []ares.JobID{ID("once"), ID("never")})
	if err != nil || len(revisions) != 1 || revisions[ID("once")] != 910 {
		t.Errorf("revisions are %v, %v", revisions, err)
	}
}

// anyOrderOfPutsEndsAlike stores several versions of a few jobs again and again. The order and the batch sizes are random. In the
// end, history must hold the newest version of each job. The usage sums must match these jobs.
func anyOrderOfPutsEndsAlike(t *testing.T, b Base) {
	h := b.Open(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		newest := map[ares.JobID]history.Finished{}
		for range rapid.IntRange(1, 4).Draw(rt, "batches") {
			var jobs []history.Finished
			for range rapid.IntRange(1, 6).Draw(rt, "jobs") {
				f := Made{
					ID: fmt.Sprintf("r%d-%d", round, rapid.IntRange(0, 3).Draw(rt, "job")), Tenant: fmt.Sprintf("round%d", round),
					Runs: time.Duration(rapid.IntRange(1, 200_000).Draw(rt, "seconds")) * time.Second, GPUs: rapid.IntRange(1, 3).Draw(rt, "gpus"),
					Device: rapid.SampledFrom([]string{"h100@eu", "a100@us", "h100@us"}).Draw(rt, "device"),
				}.Finished()
				f.Run.Revision = int64(rapid.IntRange(101, 110).Draw(rt, "revision"))
				jobs = append(jobs, f)
				if was, ok := newest[f.Job.ID]; !ok || was.Run.Revision < f.Run.Revision {
					newest[f.Job.ID] = f
				}
			}
			if _, err := h.Put(t.Context(), jobs); err != nil {
				rt.Fatal(err)
			}
		}
		used, err := h.Usage(t.Context(), history.UsageQuery{Tenant: fmt.Sprintf("round%d", round)})
		if err != nil || len(used) != 1 {
			rt.Fatalf("usage: %v, %v", used, err)
		}
		want := int64(0)
		for _, f := range newest {
			for _, p := range history.Parts(f.Job, f.Run, f.Kinds, Noon) {
				want += p.GPUMilliseconds
			}
		}
		if used[0].GPUMilliseconds != want || used[0].Jobs != int64(len(newest)) {
			rt.Fatalf("the sum is %d ms of %d jobs, want %d of %d", used[0].GPUMilliseconds, used[0].Jobs, want, len(newest))
		}
	})
	b.Recount(t)
}

func twoServersPutTheSame(t *testing.T, b Base) {
	one, other := b.Open(t), b.Open(t)
	var jobs []history.Finished
	for i := range 60 {
		jobs = append(jobs, Made{ID: fmt.Sprintf("both-%d", i), Revision: int64(i + 1)}.Finished())
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for _, h := range []*history.History{one, other} {
		wg.Go(func() {
			for part := range slices.Chunk(jobs, 7) {
				n, err := h.Put(t.Context(), part)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				total += n
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if total != len(jobs) {
		t.Errorf("%d jobs were written, want %d", total, len(jobs))
	}
	b.Recount(t)
}

func anythingCanBeWritten(t *testing.T, b Base) {
	h := b.Open(t)
	for i, odd := range []string{"a\x00b", "\xff\xfe", "'; DROP TABLE jobs; --", strings.Repeat("long ", 2000), "%_!\\?$1"} {
		put(t, h, 1, Made{ID: fmt.Sprintf("odd-%d", i), Name: odd, User: odd, Device: "x@" + odd, Edit: func(_ *ares.Job, r *ares.Run) {
			r.Reason, r.Attempts[0].Reason, r.Transitions[0].Message, r.Attempts[0].Seats[0].Node = odd, odd, odd, odd
		}}.Finished())
	}
	b.Recount(t)
	page, _, err := h.Jobs(t.Context(), history.Filter{Name: "%_!\\?", Limit: 10})
	if err != nil || len(page) != 1 {
		t.Errorf("a name of signs finds %d jobs, %v", len(page), err)
	}
}

func endsAreTold(t *testing.T, b Base) {
	h := b.Open(t)
	f := Made{ID: "ends", Phase: ares.Failed}.Finished()
	put(t, h, 4, f,
		Made{ID: "held", Edit: func(_ *ares.Job, r *ares.Run) { r.Attempts[0].Seats[0].State = ares.SeatFinished }}.Finished(),
		Made{ID: "array", Edit: func(j *ares.Job, r *ares.Run) { j.Array.Count, r.Attempts = 3, nil }}.Finished(),
		Made{ID: "element", Edit: func(j *ares.Job, _ *ares.Run) { j.ArrayOf = ID("array") }}.Finished())
	var got []history.Ended
	if err := h.EachEnded(t.Context(), func(e history.Ended) { got = append(got, e) }); err != nil {
		t.Fatal(err)
	}
	want := history.Ended{Job: f.Job.ID, Accepted: f.Job.Revision, Digest: f.Job.Digest, Phase: ares.Failed, At: f.Run.FinishedAt}
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func anotherStoreIsRefused(t *testing.T, b Base) {
	h := b.Open(t)
	for range 2 {
		if err := h.CheckOwner(t.Context(), "mine"); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Open(t).CheckOwner(t.Context(), "yours"); ares.CodeOf(err) != ares.Conflict {
		t.Errorf("another store is answered %v", err)
	}
}
