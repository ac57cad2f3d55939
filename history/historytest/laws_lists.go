package historytest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
)

// This function reads a whole list of jobs, page by page.
func pages(t *testing.T, h *history.History, f history.Filter) (out []string) {
	t.Helper()
	for range 100 {
		page, more, err := h.Jobs(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page {
			out = append(out, j.Job.RequestID)
		}
		if !more {
			return out
		}
		if len(page) != f.Limit {
			t.Fatalf("a page of %d has more behind it, want %d", len(page), f.Limit)
		}
		last := page[len(page)-1].Job
		f.Before, f.After = last.Revision, last.ID
	}
	t.Fatal("the list does not end")
	return nil
}

func listsArePaged(t *testing.T, b Base) {
	h := b.Open(t)
	type place struct {
		revision int64
		id       ares.JobID
		name     string
	}
	var want []place
	for i := range 25 { // several share a revision
		name := fmt.Sprintf("page-%d", i)
		f := Made{ID: name, Revision: int64(1000 + i/3)}.Finished()
		put(t, h, 1, f)
		want = append(want, place{f.Job.Revision, f.Job.ID, name})
	}
	slices.SortFunc(want, func(a, b place) int {
		if a.revision != b.revision {
			return int(b.revision - a.revision)
		}
		return slices.Compare([]byte(a.id), []byte(b.id))
	})
	for _, limit := range []int{1, 2, 7, 25, 100} {
		got := pages(t, h, history.Filter{Limit: limit})
		if !slices.EqualFunc(got, want, func(g string, w place) bool { return g == w.name }) {
			t.Errorf("in pages of %d: %v, want %v", limit, got, want)
		}
	}
}

func listsAreFiltered(t *testing.T, b Base) {
	h := b.Open(t)
	day := 24 * time.Hour
	put(t, h, 5,
		Made{ID: "a", Revision: 1, Tenant: "t1", Queue: "q1", User: "ann", At: Noon}.Finished(),
		Made{ID: "b", Revision: 2, Tenant: "t1", Queue: "q2", User: "bob", At: Noon.Add(day), Phase: ares.Failed}.Finished(),
		// the clock of its server is behind
		Made{ID: "c", Revision: 3, Tenant: "t2", Queue: "q1", User: "ann", At: Noon.Add(day - time.Hour), Phase: ares.Cancelled}.Finished(),
		Made{ID: "d", Revision: 4, Tenant: "t2", Queue: "q2", User: "bob", At: Noon.Add(2 * day)}.Finished(),
		Made{ID: "e", Revision: 5, Tenant: "t1", Queue: "q1", User: "ann", At: Noon.Add(3 * day)}.Finished())
	for _, c := range []struct {
		what   string
		filter history.Filter
		want   []string
	}{
		{"all", history.Filter{}, []string{"e", "d", "c", "b", "a"}},
		{"a tenant", history.Filter{Tenant: "t1"}, []string{"e", "b", "a"}},
		{"a queue", history.Filter{Queue: "q2"}, []string{"d", "b"}},
		{"a user", history.Filter{User: "bob"}, []string{"d", "b"}},
		{"a tenant's queue", history.Filter{Tenant: "t1", Queue: "q1"}, []string{"e", "a"}},
		{"phases", history.Filter{Phases: []ares.Phase{ares.Failed, ares.Cancelled}}, []string{"c", "b"}},
		{"a name", history.Filter{Name: "d"}, []string{"d"}},
		{"from", history.Filter{From: Noon.Add(day)}, []string{"e", "d", "b"}},
		{"to", history.Filter{To: Noon.Add(day)}, []string{"c", "a"}},
		{"from and to", history.Filter{From: Noon.Add(time.Second), To: Noon.Add(2 * day)}, []string{"c", "b"}},
		{"a time without jobs", history.Filter{From: Noon.Add(30 * day)}, nil},
		{"a time before all", history.Filter{To: Noon.Add(-30 * day)}, nil},
		{"nobody's", history.Filter{Tenant: "t3"}, nil},
		{"everything at once", history.Filter{Tenant: "t1", Queue: "q2", User: "bob", Phases: []ares.Phase{ares.Failed}, Name: "b", From: Noon, To: Noon.Add(2 * day)}, []string{"b"}},
	} {
		c.filter.Limit = 2
		if got := pages(t, h, c.filter); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
		n, err := h.Count(t.Context(), c.filter)
		if c.filter.Counted() != (err == nil) || err == nil && n != int64(len(c.want)) {
			t.Errorf("%s: %d are counted, want %d; %v", c.what, n, len(c.want), err)
		}
	}
}

// countsBeginWithWhatIsThere checks that a migration counts the jobs that are already in the database.
func countsBeginWithWhatIsThere(t *testing.T, b Base) {
	put(t, b.Open(t), 3, Made{ID: "a", Revision: 1}.Finished(), Made{ID: "b", Revision: 2, Phase: ares.Failed}.Finished(),
		Made{ID: "c", Revision: 3, Edit: func(j *ares.Job, _ *ares.Run) { j.ArrayOf = ID("a") }}.Finished())
	b.DownTo(t, 2)
	h := b.Open(t)
	if n, err := h.Count(t.Context(), history.Filter{}); err != nil || n != 2 {
		t.Errorf("%d are counted, want 2; %v", n, err)
	}
	put(t, h, 1, Made{ID: "d", Revision: 4}.Finished())
	b.Recount(t)
	there, err := h.Has(t.Context(), []ares.JobID{ID("a"), ID("d"), ID("e")})
	if err != nil || len(there) != 2 || !there[history.Key{ID: ID("d"), Accepted: 4}] {
		t.Errorf("there are %v, %v", there, err)
	}
}

// countsKnowWhatOthersWrite checks that jobs written by an older version of the server are counted too. An older
// version may write during a rolling upgrade or after a downgrade.
func countsKnowWhatOthersWrite(t *testing.T, b Base) {
	h := b.Open(t)
	put(t, h, 4, Made{ID: "a", Revision: 1}.Finished(), Made{ID: "b", Revision: 2, Phase: ares.Failed}.Finished(), Made{ID: "c", Revision: 3, Queue: "q"}.Finished(),
		Made{ID: "d", Revision: 4, Edit: func(j *ares.Job, _ *ares.Run) { j.ArrayOf = ID("a") }}.Finished())
	for _, c := range []struct {
		query string
		want  int64
	}{
		{`INSERT INTO jobs (seq, job_id, accepted_revision, run_revision, name, tenant, queue, submitted_by, phase, reason, outcome,
			exit_code, priority, priority_class, members, gpus_per_member, gpu_milli, gpu_model, cpu_cores, memory_mb, image, is_array, array_of, array_index, retry_of,
			accepted_at, started_at, finished_at, attempts, retries, preemptions, gpu_milliseconds, digest, record)
			SELECT seq + 10, job_id, accepted_revision + 10, run_revision + 10, name, tenant, queue, submitted_by, phase, reason, outcome,
			exit_code, priority, priority_class, members, gpus_per_member, gpu_milli, gpu_model, cpu_cores, memory_mb, image, is_array, array_of, array_index, retry_of,
			accepted_at, started_at, finished_at, attempts, retries, preemptions, 0, digest, record FROM jobs`, 6},
		{"UPDATE finished_jobs SET phase = 'lost' WHERE seq = 11", 6},
		{"UPDATE finished_jobs SET array_of = 'x' WHERE seq = 12", 5},
		{"UPDATE finished_jobs SET array_of = '' WHERE seq = 14", 6},
		{"UPDATE finished_jobs SET reason = 'none'", 6},
		{"DELETE FROM jobs WHERE seq IN (11, 13)", 4},
		{"DELETE FROM jobs WHERE seq > 4", 3},
	} {
		if _, err := b.Raw.ExecContext(t.Context(), c.query); err != nil {
			t.Fatal(err)
		}
		if n, err := h.Count(t.Context(), history.Filter{}); err != nil || n != c.want {
			t.Errorf("after %s: %d are counted, want %d; %v", c.query, n, c.want, err)
		}
		b.Recount(t)
	}
	if n, err := h.Prune(t.Context(), Noon.Add(time.Hour*24)); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	if n := b.count(t, "SELECT COUNT(*) FROM job_counts"); n != 0 {
		t.Errorf("%d rows count jobs that are gone", n)
	}
}

func elementsAreListedByIndex(t *testing.T, b Base) {
	h := b.Open(t)
	array := Made{ID: "array", Revision: 7, Edit: func(j *ares.Job, r *ares.Run) { j.Array, r.Attempts = ares.Array{Count: 5, Parallelism: 2}, nil }}.Finished()
	put(t, h, 1, array)
	for _, i := range []int{3, 0, 4, 1, 2} {
		name := fmt.Sprintf("array-%d", i)
		put(t, h, 1, Made{ID: name, Revision: int64(20 - i), Edit: func(j *ares.Job, _ *ares.Run) {
			j.ArrayOf, j.ArrayIndex, j.ArrayCount = array.Job.ID, int32(i), 5
		}}.Finished())
	}
	if got := pages(t, h, history.Filter{Limit: 10}); !slices.Equal(got, []string{"array"}) {
		t.Errorf("a list has %v, want the array alone", got)
	}
	if got := pages(t, h, history.Filter{ArrayOf: array.Job.ID, Limit: 2}); !slices.Equal(got, []string{"array-0", "array-1", "array-2", "array-3", "array-4"}) {
		t.Errorf("the elements are %v", got)
	}
	for of, want := range map[ares.JobID]int64{"": 1, array.Job.ID: 5} {
		if n, err := h.Count(t.Context(), history.Filter{ArrayOf: of}); err != nil || n != want {
			t.Errorf("%d jobs are counted of %q, want %d; %v", n, of, want, err)
		}
	}
	b.Recount(t)
	if n := b.count(t, "SELECT SUM(jobs) FROM usage_daily"); n != 5 {
		t.Errorf("%d jobs are counted, want the 5 elements", n)
	}
}
