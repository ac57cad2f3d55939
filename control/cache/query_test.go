package cache

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

// TestListsAreComplete compares the pages and the total of lists with a search through all jobs, for filters of all kinds.
func TestListsAreComplete(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := fixedView()
		v.Apply(ares.Batch{Revision: 1, Reset: true})
		var jobs []*Entry
		for n := range rapid.IntRange(0, 30).Draw(t, "jobs") {
			j := jobOf(n, int64(10+n), func(j *ares.Job) {
				j.Labels = map[string]string{"k": fmt.Sprint(n % 3)}
				j.Owner = rapid.SampledFrom([]string{"ann", "bo"}).Draw(t, "owner")
			})
			run := ares.NewRun(Noon)
			run.Phase = rapid.SampledFrom([]ares.Phase{ares.Pending, ares.Running}).Draw(t, "phase")
			v.Apply(ares.Batch{Revision: j.Revision, Events: []ares.Event{JobEvent(j), runEvent(j.Revision, j.ID, run)}})
			jobs = append(jobs, &Entry{Job: j, Run: run})
		}
		f := Filter{
			Limit: rapid.IntRange(1, 5).Draw(t, "limit"), Tenant: rapid.SampledFrom([]string{"", "t0"}).Draw(t, "tenant"),
			Name: rapid.SampledFrom([]string{"", "job-1"}).Draw(t, "name"), User: rapid.SampledFrom([]string{"", "ann"}).Draw(t, "user"),
			Labels: rapid.SampledFrom([][]Label{nil, {{Key: "k", Value: "1"}}, {{Key: "k", AnyValue: true}}, {{Key: "none", AnyValue: true}}}).Draw(t, "labels"),
			Phases: rapid.SampledFrom([][]ares.Phase{nil, {ares.Pending}, {ares.Running}}).Draw(t, "phases"),
		}
		var want, got []ares.JobID
		for _, e := range slices.Backward(jobs) {
			if f.matches(jobRecord{job: e.Job, entry: e}) {
				want = append(want, e.Job.ID)
			}
		}
		for {
			p := v.Jobs(f)
			if p.Total != len(want) {
				t.Fatalf("total %d of %d", p.Total, len(want))
			}
			if got = append(got, ids(p.Entries)...); !p.More {
				break
			}
			last := p.Entries[len(p.Entries)-1].Job
			f.Before, f.After = last.Revision, last.ID
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: got %q, want %q", f, got, want)
		}
	})
}
