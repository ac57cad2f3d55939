package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var createLaws = []law{
	{"AJobIsStoredAsItWasAccepted", createStores},
	{"TheSameRequestIsTheSameJob", createDuplicate},
	{"TheSameRequestWithAnotherBodyIsAConflict", createConflict},
	{"AChangedTenantMakesARequestStale", createStale},
	{"AStaleRequestDoesNotHideBehindAFreshOne", createStaleBesideFresh},
	{"ALargeBatchIsAnsweredWhole", createMany},
	{"ABatchMayRepeatARequest", createRepeats},
	{"ABatchMaySpanManyTenants", createManyTenants},
	{"AJobThatIsTooLargeIsRefused", createTooLarge},
	{"ConcurrentCallersAreAllAnsweredAndStoredOnce", createStress},
	{"ACallerWhoLeavesTakesNobodyAlong", createCancelled},
}

func create(t *testing.T, s *store.Store, asks ...store.Creation) []store.Created {
	t.Helper()
	out := s.Create(t.Context(), asks)
	if len(out) != len(asks) {
		t.Fatalf("%d answers to %d requests", len(out), len(asks))
	}
	return out
}

func createStores(t *testing.T, s *store.Store) {
	ask := JobOf(NewTenant(t, s), Sleep())
	got := create(t, s, ask)[0]
	if got.Err != nil || got.Duplicate || got.Stale || got.ID != ask.Job.ID {
		t.Fatalf("got %+v", got)
	}
	snap := Get(t, s, ask.Job.ID)
	if snap.Run.Phase != ares.Pending || snap.Run.Revision != 0 || snap.Job.Revision == 0 || snap.Job.Revision > snap.Revision {
		t.Errorf("got run %+v of job at revision %d", snap.Run, snap.Job.Revision)
	}
	want := *ask.Job
	want.Revision = snap.Job.Revision
	if fmt.Sprintf("%+v", *snap.Job) == "" || snap.Job.Digest != want.Digest || snap.Job.Owner != want.Owner ||
		!snap.Job.AcceptedAt.Equal(want.AcceptedAt) || ares.DigestOf(snap.Job.Spec) != ares.DigestOf(want.Spec) ||
		snap.Job.RequestID != want.RequestID || snap.Job.Tenant != want.Tenant {
		t.Errorf("stored %+v, want %+v", snap.Job, want)
	}
	_, err := s.Job(t.Context(), ares.NewJobID("nobody", "nothing"))
	refused(t, err, ares.NotFound)
}

func createDuplicate(t *testing.T, s *store.Store) {
	ask := JobOf(NewTenant(t, s), Sleep())
	create(t, s, ask)
	before := Get(t, s, ask.Job.ID)
	got := create(t, s, ask)[0]
	if got.Err != nil || !got.Duplicate || got.ID != ask.Job.ID {
		t.Errorf("got %+v, want a duplicate", got)
	}
	if after := Get(t, s, ask.Job.ID); after.Job.Revision != before.Job.Revision {
		t.Errorf("the duplicate rewrote the job: revision %d, was %d", after.Job.Revision, before.Job.Revision)
	}
}

func createConflict(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s)
	ask := JobOf(tenant, Sleep())
	create(t, s, ask)
	other := Sleep()
	other.RequestID, other.GPUs = ask.Job.RequestID, 7
	got := create(t, s, JobOf(tenant, other))[0]
	refused(t, got.Err, ares.Conflict, "request_id", string(ask.Job.ID))
	if got.Duplicate {
		t.Error("a conflict is no duplicate")
	}
	if gpus := Get(t, s, ask.Job.ID).Job.GPUs; gpus != 1 {
		t.Errorf("the conflicting body was stored: %d GPUs", gpus)
	}
}

func createStale(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s)
	stale := JobOf(tenant, Sleep())
	tenant.Limits.GPUs = 0
	changed, err := s.UpdateTenant(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	got := create(t, s, stale)[0]
	refused(t, got.Err, ares.Conflict, "tenant")
	if !got.Stale {
		t.Error("a changed tenant must be told as stale, so that the desk looks again")
	}
	if err := s.DeleteTenant(t.Context(), tenant.ID, changed.Revision); err != nil {
		t.Fatal(err)
	}
	if got := create(t, s, JobOf(changed, Sleep()))[0]; !got.Stale {
		t.Errorf("the tenant is gone: got %+v", got)
	}
	if _, err := s.Job(t.Context(), stale.Job.ID); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("a stale request was stored: %v", err)
	}
}

// createStaleBesideFresh creates several jobs in one transaction. The requests for these jobs
// read the same tenant at different revisions.
func createStaleBesideFresh(t *testing.T, s *store.Store) {
	old := NewTenant(t, s)
	tenant := old
	tenant.Limits.GPUs = 0
	tenant, err := s.UpdateTenant(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range [][]ares.Tenant{{tenant, old}, {old, tenant}} {
		asks := []store.Creation{JobOf(order[0], Sleep()), JobOf(order[1], Sleep())}
		for i, got := range create(t, s, asks...) {
			if stale := order[i].Revision == old.Revision; got.Stale != stale || (got.Err != nil) != stale {
				t.Errorf("request %d saw revision %d of its tenant (it is at %d): got %+v", i, order[i].Revision, tenant.Revision, got)
			}
		}
	}
}

func createMany(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s)
	asks := make([]store.Creation, 257)
	for i := range asks {
		asks[i] = JobOf(tenant, Sleep())
	}
	for i, got := range create(t, s, asks...) {
		if got.Err != nil || got.Duplicate || got.ID != asks[i].Job.ID {
			t.Fatalf("answer %d is %+v", i, got)
		}
		Get(t, s, got.ID)
	}
	for i, got := range create(t, s, asks...) {
		if got.Err != nil || !got.Duplicate {
			t.Fatalf("repeated: answer %d is %+v", i, got)
		}
	}
}

func createRepeats(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s)
	first := JobOf(tenant, Sleep())
	otherSpec := Sleep()
	otherSpec.RequestID, otherSpec.GPUs = first.Job.RequestID, 7
	other := JobOf(tenant, otherSpec)

	got := create(t, s, first, other, first, JobOf(tenant, Sleep()))
	if got[0].Err != nil || got[0].Duplicate || got[2].Err != nil || !got[2].Duplicate || got[3].Err != nil || got[3].Duplicate {
		t.Errorf("got %+v", got)
	}
	refused(t, got[1].Err, ares.Conflict)

	// A request conflicts if its body differs from the stored body, whatever
	// the order of the two requests.
	got = create(t, s, other, first)
	refused(t, got[0].Err, ares.Conflict)
	if got[1].Err != nil || !got[1].Duplicate {
		t.Errorf("the stored request beside one with another body: got %+v, want a duplicate", got[1])
	}
}

func createManyTenants(t *testing.T, s *store.Store) {
	var asks []store.Creation
	for range 40 {
		tenant := NewTenant(t, s)
		asks = append(asks, JobOf(tenant, Sleep()), JobOf(tenant, Sleep()))
	}
	for i, got := range create(t, s, asks...) {
		if got.Err != nil || got.Duplicate {
			t.Errorf("answer %d is %+v", i, got)
		}
	}
}

func createTooLarge(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s)
	large := Sleep()
	large.Environment = map[string]string{"BLOB": strings.Repeat("x", ares.MaxSpecBytes)}
	asks := []store.Creation{JobOf(tenant, Sleep()), JobOf(tenant, large), JobOf(tenant, Sleep())}
	got := create(t, s, asks...)
	refused(t, got[1].Err, ares.TooLarge, "32768")
	if got[0].Err != nil || got[2].Err != nil {
		t.Errorf("those beside it: %v, %v", got[0].Err, got[2].Err)
	}
	// Many specs just below the size limit together exceed etcd's request size.
	large.Environment["BLOB"] = strings.Repeat("x", ares.MaxSpecBytes-1024)
	asks = nil
	for range 70 {
		large.RequestID = ""
		asks = append(asks, JobOf(tenant, large))
	}
	for i, got := range create(t, s, asks...) {
		if got.Err != nil {
			t.Fatalf("large job %d: %v", i, got.Err)
		}
	}
}

// createStress tests shared transactions under load. Callers send batches of different sizes, and their requests overlap.
func createStress(t *testing.T, s *store.Store) {
	const callers, requests = 48, 1500
	tenants := []ares.Tenant{NewTenant(t, s), NewTenant(t, s), NewTenant(t, s)}
	pool := make([]store.Creation, requests)
	for i := range pool {
		pool[i] = JobOf(tenants[i%len(tenants)], Sleep())
	}
	accepted := make([]atomic.Int32, requests)
	asked := make([]atomic.Int32, requests)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(c)))
			for range 3 {
				n := 1 + rng.IntN(300)
				if rng.IntN(2) == 0 {
					n = 1 + rng.IntN(3)
				}
				picks := rng.Perm(requests)[:n]
				asks := make([]store.Creation, n)
				for i, p := range picks {
					asks[i] = pool[p]
				}
				for i, got := range s.Create(t.Context(), asks) {
					asked[picks[i]].Add(1)
					if got.Err != nil || got.ID != pool[picks[i]].Job.ID {
						t.Errorf("request %d: %+v", picks[i], got)
					}
					if !got.Duplicate {
						accepted[picks[i]].Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	for i := range pool {
		if a, want := accepted[i].Load(), min(asked[i].Load(), 1); a != want {
			t.Errorf("request %d was asked %d times and accepted %d times", i, asked[i].Load(), a)
		}
		if asked[i].Load() > 0 {
			Get(t, s, pool[i].Job.ID)
		}
	}
}

func createCancelled(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s)
	var wg sync.WaitGroup
	for c := range 32 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			leaves := c%2 == 0
			if leaves {
				cancel()
			}
			asks := make([]store.Creation, 20)
			for i := range asks {
				asks[i] = JobOf(tenant, Sleep())
			}
			for i, got := range s.Create(ctx, asks) {
				if got.Err != nil && !leaves {
					t.Errorf("caller %d stayed, its request %d: %v", c, i, got.Err)
				}
				if got.Err == nil {
					Get(t, s, asks[i].Job.ID)
				}
			}
		})
	}
	wg.Wait()
}
