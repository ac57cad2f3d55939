package storetest

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var afterLaws = []law{
	{"AJobComesOnlyAfterLiveOnes", afterLive},
	{"AnAwaitedJobIsArchivedOnlyByWhoHasSeenThat", afterKept},
	{"ManyMayComeAfterOne", afterMany},
}

// jobAfter returns the creation of a job that depends on other jobs.
func jobAfter(tenant ares.Tenant, before ...*ares.Job) store.Creation {
	spec := Sleep()
	after := map[ares.JobID]int64{}
	for _, j := range before {
		spec.After = append(spec.After, string(j.ID))
		after[j.ID] = j.Revision
	}
	ask := JobOf(tenant, spec)
	ask.After = after
	return ask
}

func afterLive(t *testing.T, s *store.Store) {
	first := Get(t, s, NewJob(t, s).ID).Job
	tenant := NewTenant(t, s)
	if got := create(t, s, jobAfter(tenant, first))[0]; got.Err != nil || got.Duplicate {
		t.Fatalf("%+v", got)
	}
	gone := Get(t, s, NewJob(t, s).ID).Job
	archiveCancelled(t, s, gone)
	for _, ask := range []store.Creation{jobAfter(tenant, gone), jobAfter(tenant, first, gone)} {
		got := create(t, s, ask)[0]
		if refused(t, got.Err, ares.Conflict, "a job in the `after` list changed"); !got.Stale {
			t.Errorf("%+v is not stale", got)
		}
	}
}

func afterKept(t *testing.T, s *store.Store) {
	first := Get(t, s, NewJob(t, s).ID).Job
	run, err := s.RequestStop(t.Context(), first.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: Noon})
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second := jobAfter(NewTenant(t, s), first)
	create(t, s, second)
	refused(t, s.Archive(t.Context(), first, &run, nil), ares.Conflict, "depends on it")
	refused(t, s.ArchiveUsed(t.Context(), first, &run, nil, nil, before), ares.Conflict, "depends on it")
	if err := s.ArchiveUsed(t.Context(), first, &run, nil, nil, Get(t, s, second.Job.ID).Job.Revision); err != nil {
		t.Fatal(err)
	}
	if left := Records(t, s, "awaited/"+string(first.ID)); len(left) > 0 {
		t.Errorf("archived and left %+v", left)
	}
}

// afterMany creates more jobs with dependencies than fit into one transaction. Only the
// job whose dependency is archived must be rejected.
func afterMany(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s)
	first, second := Get(t, s, NewJob(t, s).ID).Job, Get(t, s, NewJob(t, s).ID).Job
	gone := Get(t, s, NewJob(t, s).ID).Job
	archiveCancelled(t, s, gone)
	var asks []store.Creation
	for i := range 120 {
		switch i {
		case 7:
			asks = append(asks, JobOf(tenant, Sleep()))
		case 60:
			asks = append(asks, jobAfter(tenant, gone))
		default:
			asks = append(asks, jobAfter(tenant, first, second))
		}
	}
	for i, got := range create(t, s, asks...) {
		if got.Stale != (i == 60) || (got.Err != nil) != (i == 60) {
			t.Errorf("job %d: %+v", i, got)
		}
	}
}
