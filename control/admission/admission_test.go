package admission

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// newAdmission opens a store with a default tenant, a view on it, and an Admission.
func newAdmission(t *testing.T) *Admission {
	t.Helper()
	s := storetest.Embedded(t)
	if err := s.RegisterTenant(t.Context(), ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits()}); err != nil {
		t.Fatal(err)
	}
	return &Admission{Store: s, View: controltest.Follow(t, s), Now: func() time.Time { return storetest.Noon }, MinLostAfter: 20 * time.Second}
}

func (a *Admission) add(t *testing.T, tenant ares.Tenant) ares.Tenant {
	t.Helper()
	made, err := a.Store.CreateTenant(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// submitOne submits one job and returns the answer.
func (a *Admission) submitOne(ctx context.Context, spec ares.Spec, owner string) (Accepted, error) {
	got := a.Submit(ctx, Request{Submitted: spec, Owner: owner})[0]
	return got, got.Err
}

// submitAll submits jobs in one call.
func (a *Admission) submitAll(ctx context.Context, specs []ares.Spec, owner string) []Accepted {
	requests := make([]Request, len(specs))
	for i := range specs {
		requests[i] = Request{Submitted: specs[i], Owner: owner}
	}
	return a.Submit(ctx, requests...)
}

func (a *Admission) submit(t *testing.T, spec ares.Spec) *ares.Job {
	t.Helper()
	got, err := a.submitOne(t.Context(), spec, "me")
	if err != nil {
		t.Fatal(err)
	}
	return storetest.Get(t, a.Store, got.ID).Job
}

// caughtUp waits until the view has seen every change in the store.
func (a *Admission) caughtUp(t *testing.T) {
	t.Helper()
	rev, err := a.Store.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.View.WaitFor(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
}

func spec(edit ...func(*ares.Spec)) ares.Spec {
	s := ares.Spec{Tenant: ares.DefaultTenant, Command: []string{"true"}}
	for _, e := range edit {
		e(&s)
	}
	return s
}

func in(tenant string) func(*ares.Spec) { return func(s *ares.Spec) { s.Tenant = tenant } }

func asking(id string) func(*ares.Spec) { return func(s *ares.Spec) { s.RequestID = id } }

func wantCode(t *testing.T, err error, code ares.Code, words ...string) {
	t.Helper()
	if ares.CodeOf(err) != code {
		t.Errorf("got %v (%q), want code %q", err, ares.CodeOf(err), code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestSubmitFillsInDefaults(t *testing.T) {
	d := newAdmission(t)
	said := spec()
	got, err := d.submitOne(t.Context(), said, "me")
	if err != nil || got.Duplicate || got.Phase != ares.Pending {
		t.Fatalf("%+v, %v", got, err)
	}
	j := storetest.Get(t, d.Store, got.ID).Job
	if j.Tenant != ares.DefaultTenant || j.RequestID == "" || j.Owner != "me" || !j.AcceptedAt.Equal(storetest.Noon) || j.LostAfter() != ares.DefaultLostAfter ||
		j.Members != 1 || j.PriorityValue() != ares.DefaultPriority || *j.Retry.MaxRetries != ares.DefaultMaxRetries || j.Queue != ares.DefaultQueue {
		t.Errorf("stored %+v", j)
	}
	if j.Digest != ares.DigestOf(said) || j.ID != ares.NewJobID(j.Tenant, j.RequestID) {
		t.Error("the digest is of the submission as received, the ID of its request")
	}
	// A request that names the default tenant is treated like a request that names no tenant.
	first := d.submit(t, spec(asking("r1")))
	again, err := d.submitOne(t.Context(), spec(asking("r1"), in(ares.DefaultTenant)), "me")
	if err != nil || !again.Duplicate || again.ID != first.ID {
		t.Errorf("%+v, %v", again, err)
	}
	_, err = d.submitOne(t.Context(), spec(asking("r1"), func(s *ares.Spec) { s.GPUs = 3 }), "me")
	wantCode(t, err, ares.Conflict, "request_id")
	_, err = d.submitOne(t.Context(), spec(in("nobody")), "me")
	wantCode(t, err, ares.Invalid, "nobody", "create it first")
	_, err = d.submitOne(t.Context(), ares.Spec{}, "me")
	wantCode(t, err, ares.Invalid, "command")
}

func TestLostAfter(t *testing.T) {
	d := newAdmission(t)
	d.add(t, ares.Tenant{ID: "patient", Limits: ares.NoLimits(), LostAfterSecs: 90})
	d.add(t, ares.Tenant{ID: "hasty", Limits: ares.NoLimits(), LostAfterSecs: 5})
	after := func(n int) func(*ares.Spec) { return func(s *ares.Spec) { s.LostAfterSeconds = n } }
	for name, c := range map[string]struct {
		spec ares.Spec
		want time.Duration
	}{
		"the tenant's default":                {spec(in("patient")), 90 * time.Second},
		"the job's own value":                 {spec(in("patient"), after(40)), 40 * time.Second},
		"a tenant below the server's minimum": {spec(in("hasty")), 20 * time.Second},
		"exactly the minimum":                 {spec(after(20)), 20 * time.Second},
		"the general default":                 {spec(), ares.DefaultLostAfter},
	} {
		if got := d.submit(t, c.spec).LostAfter(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	_, err := d.submitOne(t.Context(), spec(after(19)), "me")
	wantCode(t, err, ares.Invalid, "lost_after_seconds", "20", "19")
}

// TestTheDefaultLostAfterIsStored checks that a job's record contains its lost_after, even if it is the default. A server of another version
// may have another default. The value that the leader waits for and the value that a node's supervisor gets must not differ.
func TestTheDefaultLostAfterIsStored(t *testing.T) {
	d := newAdmission(t)
	c, err := d.prepare(t.Context(), &Request{Submitted: spec(in(ares.DefaultTenant)), Owner: "me"}, true, &batchCounts{by: map[string]int{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int{1, 2, ares.DefaultsVersion} {
		if got := c.Job.WithDefaultsOf(version).LostAfter(); got != ares.DefaultLostAfter {
			t.Errorf("a server with version %d of the defaults reads a lost_after of %s, want %s", version, got, ares.DefaultLostAfter)
		}
	}
}

func TestLimits(t *testing.T) {
	d := newAdmission(t)
	limits := ares.NoLimits()
	limits.GPUs, limits.PendingJobs = 4, 3
	d.add(t, ares.Tenant{ID: "small", Limits: limits, PriorityTier: ares.Normal})
	gpus := func(n int) func(*ares.Spec) { return func(s *ares.Spec) { s.GPUs = n } }
	_, err := d.submitOne(t.Context(), spec(in("small"), gpus(5)), "me")
	wantCode(t, err, ares.QuotaExceeded, "small", "GPUs", "5", "4")
	_, err = d.submitOne(t.Context(), spec(in("small"), gpus(3), storetest.Gang(2)), "me")
	wantCode(t, err, ares.QuotaExceeded, "6")
	_, err = d.submitOne(t.Context(), spec(in("small"), func(s *ares.Spec) { s.PriorityClass = ares.High }), "me")
	wantCode(t, err, ares.PriorityTooHigh, "class normal")
	// Each of these two jobs alone is within the limit, so both are accepted and wait. Together they exceed the
	// limit.
	d.submit(t, spec(in("small"), gpus(4), asking("a")))
	d.submit(t, spec(in("small"), gpus(4), asking("b")))
	d.caughtUp(t)
	// At most three jobs may wait, and two already do. Therefore only one new job of the batch is
	// accepted, even if the view does not contain that job yet. A repeated request does not count as a
	// waiting job.
	out := d.submitAll(t.Context(), []ares.Spec{
		spec(in("small"), gpus(4), asking("a")), spec(in("small"), asking("c")), spec(in("small"), asking("d")), spec(in("small"), gpus(4), asking("b")),
	}, "me")
	if out[0].Err != nil || !out[0].Duplicate || out[1].Err != nil || out[1].Duplicate || out[3].Err != nil || !out[3].Duplicate {
		t.Errorf("got %+v", out)
	}
	wantCode(t, out[2].Err, ares.QuotaExceeded, "pending jobs")
	d.NoGangs = true
	_, err = d.submitOne(t.Context(), spec(storetest.Gang(2)), "me")
	wantCode(t, err, ares.FeatureDisabled, "enable_gang_scheduling")
}

func TestFullQueue(t *testing.T) {
	d := newAdmission(t)
	d.MaxQueue = 2
	first := d.submit(t, spec(asking("a")))
	d.submit(t, spec(asking("b")))
	d.caughtUp(t)
	_, err := d.submitOne(t.Context(), spec(asking("c")), "me")
	wantCode(t, err, ares.Exhausted, "jobs are already waiting in the cluster (the limit is 2)")
	again, err := d.submitOne(t.Context(), spec(asking("a")), "me")
	if err != nil || !again.Duplicate || again.ID != first.ID || again.Phase != ares.Pending {
		t.Errorf("a repeated request although the queue is full: %+v, %v", again, err)
	}
	_, err = d.submitOne(t.Context(), spec(asking("a"), func(s *ares.Spec) { s.GPUs = 1 }), "me")
	if err == nil {
		t.Error("another body counted as a repeated request")
	}
	// A repeated request is recognised even if only a tombstone of the job is left.
	cancelled, err := d.Cancel(t.Context(), first.ID, "me")
	if err != nil {
		t.Fatal(err)
	}
	if err = d.Store.Archive(t.Context(), first, &cancelled, nil); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t) // includes the cancel, after which fewer jobs wait
	d.submit(t, spec(asking("e")))
	d.caughtUp(t)
	again, err = d.submitOne(t.Context(), spec(asking("a")), "me")
	if err != nil || !again.Duplicate || again.Phase != ares.Cancelled {
		t.Errorf("a repeated request for an archived job: %+v, %v", again, err)
	}
	out := d.submitAll(t.Context(), []ares.Spec{spec(), spec(asking("e"))}, "me")
	wantCode(t, out[0].Err, ares.Exhausted)
	if out[1].Err != nil || !out[1].Duplicate {
		t.Errorf("got %+v", out[1])
	}
}

// TestStaleTenantIsReadAgain submits a job while the view has an older version of the tenant.
func TestStaleTenantIsReadAgain(t *testing.T) {
	s := storetest.Embedded(t)
	tenant, err := s.CreateTenant(t.Context(), ares.Tenant{ID: "t", Limits: ares.NoLimits()})
	if err != nil {
		t.Fatal(err)
	}
	v := cache.NewView(func() time.Time { return storetest.Noon })
	v.Apply(ares.Batch{Revision: tenant.Revision, Reset: true, Events: []ares.Event{{Revision: tenant.Revision, Tenant: new(tenant)}}})
	d := &Admission{Store: s, View: v, Now: func() time.Time { return storetest.Noon }}
	tenant.Limits.GPUs = 2
	if _, err = s.UpdateTenant(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	out := d.submitAll(t.Context(), []ares.Spec{
		spec(in("t"), func(s *ares.Spec) { s.GPUs = 2 }), spec(in("t"), func(s *ares.Spec) { s.GPUs = 3 }),
	}, "me")
	if out[0].Err != nil || out[0].Duplicate {
		t.Errorf("a job that the changed tenant allows: %+v", out[0])
	}
	wantCode(t, out[1].Err, ares.QuotaExceeded, "quota=2")
}

func TestRetry(t *testing.T) {
	d := newAdmission(t)
	old := d.submit(t, spec(func(s *ares.Spec) { s.Name = "again" }))
	_, err := d.Retry(t.Context(), old.ID, Request{Owner: "me"})
	wantCode(t, err, ares.Conflict, "pending", "cancel it first")
	run, err := d.Cancel(t.Context(), old.ID, "me")
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Retry(t.Context(), old.ID, Request{Submitted: ares.Spec{RequestID: "retry-1"}, Owner: "you"})
	if err != nil || got.Duplicate || got.ID == old.ID {
		t.Fatalf("%+v, %v", got, err)
	}
	if j := storetest.Get(t, d.Store, got.ID).Job; j.RetryOf != old.ID || j.Owner != "you" || j.Name != "again" {
		t.Errorf("stored %+v", j)
	}
	d.caughtUp(t)
	d.MaxQueue = 1 // the queue is full now
	again, err := d.Retry(t.Context(), old.ID, Request{Submitted: ares.Spec{RequestID: "retry-1"}, Owner: "you"})
	if err != nil || !again.Duplicate || again.ID != got.ID || again.Phase != ares.Pending {
		t.Errorf("the same retry although the queue is full: %+v, %v", again, err)
	}
	_, err = d.Retry(t.Context(), old.ID, Request{Owner: "you"})
	wantCode(t, err, ares.Exhausted)
	d.MaxQueue = 0
	other, err := d.Retry(t.Context(), old.ID, Request{Owner: "you"})
	if err != nil || other.ID == got.ID {
		t.Errorf("another retry: %+v, %v", other, err)
	}
	if _, err = d.Cancel(t.Context(), got.ID, "me"); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
	if again, err = d.Retry(t.Context(), old.ID, Request{Submitted: ares.Spec{RequestID: "retry-1"}, Owner: "you"}); err != nil || again.Phase != ares.Cancelled {
		t.Errorf("the same retry once its job has ended: %+v, %v", again, err)
	}
	if err = d.Store.Archive(t.Context(), old, &run, nil); err != nil {
		t.Fatal(err)
	}
	_, err = d.Retry(t.Context(), old.ID, Request{Owner: "you"})
	wantCode(t, err, ares.Conflict, "archived")
}

// TestARetryKeepsPaceWithALongerSession retries a job after sessions.ttl_seconds was raised above the job's lost_after. A new
// submission with the same value is rejected.
func TestARetryKeepsPaceWithALongerSession(t *testing.T) {
	d := newAdmission(t)
	old := d.submit(t, spec())
	if _, err := d.Cancel(t.Context(), old.ID, "me"); err != nil {
		t.Fatal(err)
	}
	d.MinLostAfter = time.Minute
	got, err := d.Retry(t.Context(), old.ID, Request{Owner: "me"})
	if err != nil {
		t.Fatal(err)
	}
	if n := storetest.Get(t, d.Store, got.ID).Job.LostAfterSeconds; n != 60 {
		t.Errorf("the retry of a job with lost_after %d s has %d s, want 60 s", old.LostAfterSeconds, n)
	}
	out := d.submitAll(t.Context(), []ares.Spec{spec(func(s *ares.Spec) { s.LostAfterSeconds = 25 })}, "me")
	wantCode(t, out[0].Err, ares.Invalid, "must be between 60 and", "got 25")
}

func TestCancel(t *testing.T) {
	d := newAdmission(t)
	j := d.submit(t, spec(func(s *ares.Spec) { s.GraceSeconds = new(7) }))
	lead, _ := storetest.NewLead(t, d.Store)
	node := storetest.NewNode(t, d.Store)
	storetest.Place(t, d.Store, lead, j, node)
	d.caughtUp(t)
	run, err := d.Cancel(t.Context(), j.ID, "me")
	if err != nil || run.Stop == nil || run.Stop.Grace != 7*time.Second || run.Stop.By != "me" {
		t.Errorf("got %+v, %v", run.Stop, err)
	}
	_, err = d.Cancel(t.Context(), ares.NewJobID("x", "y"), "me")
	wantCode(t, err, ares.NotFound)
}

func TestDeleteTenant(t *testing.T) {
	d := newAdmission(t)
	d.add(t, ares.Tenant{ID: "team", Limits: ares.NoLimits()})
	j := d.submit(t, spec(in("team")))
	wantCode(t, d.DeleteTenant(t.Context(), "team"), ares.Conflict, "1 live jobs")
	wantCode(t, d.DeleteTenant(t.Context(), ares.DefaultTenant), ares.Conflict, "built in")
	wantCode(t, d.DeleteTenant(t.Context(), "nobody"), ares.NotFound)
	if _, err := d.Cancel(t.Context(), j.ID, "me"); err != nil {
		t.Fatal(err)
	}
	if err := d.DeleteTenant(t.Context(), "team"); err != nil {
		t.Fatal(err)
	}
	_, err := d.submitOne(t.Context(), spec(in("team")), "me")
	wantCode(t, err, ares.Invalid)
}

// TestDeletionIsUndoneForANewJob deletes a tenant. A job is accepted between the check for live jobs and the
// deletion. The deletion of the tenant must be undone. Otherwise the new job would wait forever.
func TestDeletionIsUndoneForANewJob(t *testing.T) {
	v := cache.NewView(func() time.Time { return storetest.Noon })
	var s *store.Store
	var late store.Creation
	ops := map[string]int{}
	s, err := store.Open(t.Context(), store.Config{Dir: t.TempDir(), Observe: func(op string, _ time.Duration, _ error) {
		ops[op]++
		switch {
		case op == "get" && ops[op] == 5: // the fifth read, after Open, two of CreateTenant and the tenant, is that of the store's revision
			if got := s.Create(t.Context(), []store.Creation{late})[0]; got.Err != nil {
				t.Error(got.Err)
			}
		case op == "delete tenant": // the watch delivers the job at this moment
			v.Apply(ares.Batch{Revision: 2000, Reset: true, Events: []ares.Event{{Revision: late.Job.Revision, Job: late.Job}}})
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tenant, err := s.CreateTenant(t.Context(), ares.Tenant{ID: "team", Limits: ares.NoLimits()})
	if err != nil {
		t.Fatal(err)
	}
	late = storetest.JobOf(tenant, storetest.Sleep())
	v.Apply(ares.Batch{Revision: 1000, Reset: true})
	d := &Admission{Store: s, View: v, Now: time.Now}
	wantCode(t, d.DeleteTenant(t.Context(), "team"), ares.Conflict, "1 live jobs")
	if ops["delete tenant"] != 1 {
		t.Fatalf("the job was not accepted between check and deletion: %v", ops)
	}
	if _, err := s.Tenant(t.Context(), "team"); err != nil {
		t.Errorf("the tenant of a live job: %v", err)
	}
}

// TestTenantChangesEachTime submits a request whose tenant changes during every try. The request must fail with
// an error after which clients try again, and nothing may be stored.
func TestTenantChangesEachTime(t *testing.T) {
	a := newAdmission(t)
	busy := a.add(t, ares.Tenant{ID: "busy", Limits: ares.NoLimits()})
	tries := 0
	a.Now = func() time.Time { // called after the tenant is read and before the job is stored
		tries++
		busy.LostAfterSecs = 30 + tries
		changed, err := a.Store.UpdateTenant(t.Context(), busy)
		if err != nil {
			t.Error(err)
		}
		busy = changed
		return storetest.Noon
	}
	got, err := a.submitOne(t.Context(), spec(in("busy"), asking("r1")), "me")
	wantCode(t, err, ares.Exhausted, "tenant busy", "submit the job again")
	if tries != maxTries || got.ID != "" || got.Made != nil {
		t.Errorf("%d tries, answer %+v", tries, got)
	}
	a.Now = func() time.Time { return storetest.Noon }
	if got, err = a.submitOne(t.Context(), spec(in("busy"), asking("r1")), "me"); err != nil || got.Duplicate {
		t.Errorf("the repeated request: %+v, %v", got, err)
	}
}

// TestErrorsOfOneQueue checks that a caller that may see only one queue learns from an error that a limit of its tenant is
// reached, but not how many jobs the tenant has.
func TestErrorsOfOneQueue(t *testing.T) {
	none := func(context.Context, ares.JobID) bool { return false }
	d := newAdmission(t)
	tenant, err := d.Store.Tenant(t.Context(), ares.DefaultTenant)
	if err != nil {
		t.Fatal(err)
	}
	tenant.Limits.PendingJobs = 1
	if _, err = d.Store.UpdateTenant(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	d.submit(t, spec(asking("a")))
	d.caughtUp(t)
	for whole, sees := range map[bool]func(context.Context, ares.JobID) bool{true: nil, false: none} {
		err := d.Submit(t.Context(), Request{Submitted: spec(asking("b")), Owner: "me", Sees: sees})[0].Err
		wantCode(t, err, ares.QuotaExceeded, "pending jobs requested=1, quota=1")
		if strings.Contains(err.Error(), "current=") != whole {
			t.Errorf("for a caller of the whole tenant (%t): %v", whole, err)
		}
		if e, ok := errors.AsType[*ares.Error](err); !ok || e.Field != "" {
			t.Errorf("the error is about the field %q, but the limit is the tenant's: %v", e.Field, err)
		}
	}
}
