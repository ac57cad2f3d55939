package control

import (
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// newDesk opens a store with a default tenant, a view on it, and a desk.
func newDesk(t *testing.T) *Desk {
	t.Helper()
	s := storetest.Embedded(t)
	if err := s.RegisterTenant(t.Context(), ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits()}); err != nil {
		t.Fatal(err)
	}
	return &Desk{Store: s, View: follow(t, s), Now: func() time.Time { return noon }, MinLostAfter: 20 * time.Second}
}

func (d *Desk) add(t *testing.T, tenant ares.Tenant) ares.Tenant {
	t.Helper()
	made, err := d.Store.CreateTenant(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (d *Desk) submit(t *testing.T, spec ares.Spec) *ares.Job {
	t.Helper()
	got, err := d.Submit(t.Context(), spec, "me")
	if err != nil {
		t.Fatal(err)
	}
	return storetest.Get(t, d.Store, got.ID).Job
}

// caughtUp waits until the view has seen everything the store holds.
func (d *Desk) caughtUp(t *testing.T) {
	t.Helper()
	rev, err := d.Store.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.View.WaitFor(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
}

func spec(edit ...func(*ares.Spec)) ares.Spec {
	s := ares.Spec{Command: []string{"true"}}
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

func TestDeskFillsIn(t *testing.T) {
	d := newDesk(t)
	said := spec()
	got, err := d.Submit(t.Context(), said, "me")
	if err != nil || got.Duplicate || got.Phase != ares.Pending {
		t.Fatalf("%+v, %v", got, err)
	}
	j := storetest.Get(t, d.Store, got.ID).Job
	if j.Tenant != ares.DefaultTenant || j.RequestID == "" || j.Owner != "me" || !j.AcceptedAt.Equal(noon) || j.LostAfter() != ares.DefaultLostAfter ||
		j.Members != 1 || j.PriorityValue() != ares.DefaultPriority || *j.Retry.MaxRetries != ares.DefaultMaxRetries || j.Queue != ares.DefaultQueue {
		t.Errorf("stored %+v", j)
	}
	if j.Digest != ares.DigestOf(said) || j.ID != ares.NewJobID(j.Tenant, j.RequestID) {
		t.Error("the digest is of the submission as received, the ID of its request")
	}
	// Naming the default tenant is the same request as leaving it out.
	first := d.submit(t, spec(asking("r1")))
	again, err := d.Submit(t.Context(), spec(asking("r1"), in(ares.DefaultTenant)), "me")
	if err != nil || !again.Duplicate || again.ID != first.ID {
		t.Errorf("%+v, %v", again, err)
	}
	_, err = d.Submit(t.Context(), spec(asking("r1"), func(s *ares.Spec) { s.GPUs = 3 }), "me")
	wantCode(t, err, ares.Conflict, "request_id")
	_, err = d.Submit(t.Context(), spec(in("nobody")), "me")
	wantCode(t, err, ares.Invalid, "nobody", "create it first")
	_, err = d.Submit(t.Context(), ares.Spec{}, "me")
	wantCode(t, err, ares.Invalid, "command")
}

func TestDeskLostAfter(t *testing.T) {
	d := newDesk(t)
	d.add(t, ares.Tenant{ID: "patient", Limits: ares.NoLimits(), LostAfterSecs: 90})
	d.add(t, ares.Tenant{ID: "hasty", Limits: ares.NoLimits(), LostAfterSecs: 5})
	after := func(n int) func(*ares.Spec) { return func(s *ares.Spec) { s.LostAfterSeconds = n } }
	for name, c := range map[string]struct {
		spec ares.Spec
		want time.Duration
	}{
		"the tenant's default":                       {spec(in("patient")), 90 * time.Second},
		"the job's own word":                         {spec(in("patient"), after(40)), 40 * time.Second},
		"a tenant below the least a server can keep": {spec(in("hasty")), 20 * time.Second},
		"exactly the least":                          {spec(after(20)), 20 * time.Second},
	} {
		if got := d.submit(t, c.spec).LostAfter(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	_, err := d.Submit(t.Context(), spec(after(19)), "me")
	wantCode(t, err, ares.Invalid, "lost_after_seconds", "20", "19")
}

func TestDeskLimits(t *testing.T) {
	d := newDesk(t)
	limits := ares.NoLimits()
	limits.GPUs, limits.PendingJobs = 4, 3
	d.add(t, ares.Tenant{ID: "small", Limits: limits, PriorityTier: ares.Normal})
	gpus := func(n int) func(*ares.Spec) { return func(s *ares.Spec) { s.GPUs = n } }
	_, err := d.Submit(t.Context(), spec(in("small"), gpus(5)), "me")
	wantCode(t, err, ares.Refused, "small", "GPUs", "5", "4")
	_, err = d.Submit(t.Context(), spec(in("small"), gpus(3), storetest.Gang(2)), "me")
	wantCode(t, err, ares.Refused, "6")
	_, err = d.Submit(t.Context(), spec(in("small"), func(s *ares.Spec) { s.PriorityClass = ares.High }), "me")
	wantCode(t, err, ares.Refused, "class normal")
	// What is too much only together waits.
	d.submit(t, spec(in("small"), gpus(4), asking("a")))
	d.submit(t, spec(in("small"), gpus(4), asking("b")))
	d.caughtUp(t)
	// Three may wait, and two do: of a batch one more is taken, whatever the
	// view has not seen yet. A repetition takes nobody's place.
	out := d.SubmitAll(t.Context(), []ares.Spec{
		spec(in("small"), gpus(4), asking("a")), spec(in("small"), asking("c")), spec(in("small"), asking("d")), spec(in("small"), gpus(4), asking("b")),
	}, "me")
	if out[0].Err != nil || !out[0].Duplicate || out[1].Err != nil || out[1].Duplicate || out[3].Err != nil || !out[3].Duplicate {
		t.Errorf("got %+v", out)
	}
	wantCode(t, out[2].Err, ares.Refused, "pending jobs")
	d.NoGangs = true
	_, err = d.Submit(t.Context(), spec(storetest.Gang(2)), "me")
	wantCode(t, err, ares.Refused, "enable_gang_scheduling")
}

func TestDeskFullQueue(t *testing.T) {
	d := newDesk(t)
	d.MaxQueue = 2
	first := d.submit(t, spec(asking("a")))
	d.submit(t, spec(asking("b")))
	d.caughtUp(t)
	_, err := d.Submit(t.Context(), spec(asking("c")), "me")
	wantCode(t, err, ares.Exhausted, "queue is full")
	again, err := d.Submit(t.Context(), spec(asking("a")), "me")
	if err != nil || !again.Duplicate || again.ID != first.ID || again.Phase != ares.Pending {
		t.Errorf("a repetition although the queue is full: %+v, %v", again, err)
	}
	_, err = d.Submit(t.Context(), spec(asking("a"), func(s *ares.Spec) { s.GPUs = 1 }), "me")
	if err == nil {
		t.Error("another body was taken for a repetition")
	}
	// So it is for a job of which only a tombstone is left.
	cancelled, err := d.Cancel(t.Context(), first.ID, "me")
	if err != nil {
		t.Fatal(err)
	}
	if err = d.Store.Archive(t.Context(), first, &cancelled, nil); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t) // with the cancel, which makes room
	d.submit(t, spec(asking("e")))
	d.caughtUp(t)
	again, err = d.Submit(t.Context(), spec(asking("a")), "me")
	if err != nil || !again.Duplicate || again.Phase != ares.Cancelled {
		t.Errorf("a repetition of an archived job: %+v, %v", again, err)
	}
	out := d.SubmitAll(t.Context(), []ares.Spec{spec(), spec(asking("e"))}, "me")
	wantCode(t, out[0].Err, ares.Exhausted)
	if out[1].Err != nil || !out[1].Duplicate {
		t.Errorf("got %+v", out[1])
	}
}

// TestDeskLooksAgain submits with a view that has an older tenant.
func TestDeskLooksAgain(t *testing.T) {
	s := storetest.Embedded(t)
	tenant, err := s.CreateTenant(t.Context(), ares.Tenant{ID: "t", Limits: ares.NoLimits()})
	if err != nil {
		t.Fatal(err)
	}
	v := fixedView()
	v.Apply(ares.Batch{Revision: tenant.Revision, Reset: true, Events: []ares.Event{{Revision: tenant.Revision, Tenant: new(tenant)}}})
	d := &Desk{Store: s, View: v, Now: func() time.Time { return noon }}
	tenant.Limits.GPUs = 2
	if _, err = s.UpdateTenant(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	out := d.SubmitAll(t.Context(), []ares.Spec{
		spec(in("t"), func(s *ares.Spec) { s.GPUs = 2 }), spec(in("t"), func(s *ares.Spec) { s.GPUs = 3 }),
	}, "me")
	if out[0].Err != nil || out[0].Duplicate {
		t.Errorf("what the changed tenant allows: %+v", out[0])
	}
	wantCode(t, out[1].Err, ares.Refused, "quota=2")
}

func TestDeskRetry(t *testing.T) {
	d := newDesk(t)
	old := d.submit(t, spec(func(s *ares.Spec) { s.Name = "again" }))
	_, err := d.Retry(t.Context(), old.ID, "", "me")
	wantCode(t, err, ares.Conflict, "pending", "cancel it first")
	run, err := d.Cancel(t.Context(), old.ID, "me")
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Retry(t.Context(), old.ID, "retry-1", "you")
	if err != nil || got.Duplicate || got.ID == old.ID {
		t.Fatalf("%+v, %v", got, err)
	}
	if j := storetest.Get(t, d.Store, got.ID).Job; j.RetryOf != old.ID || j.Owner != "you" || j.Name != "again" {
		t.Errorf("stored %+v", j)
	}
	d.caughtUp(t)
	d.MaxQueue = 1 // full now
	again, err := d.Retry(t.Context(), old.ID, "retry-1", "you")
	if err != nil || !again.Duplicate || again.ID != got.ID || again.Phase != ares.Pending {
		t.Errorf("the same retry although the queue is full: %+v, %v", again, err)
	}
	_, err = d.Retry(t.Context(), old.ID, "", "you")
	wantCode(t, err, ares.Exhausted)
	d.MaxQueue = 0
	other, err := d.Retry(t.Context(), old.ID, "", "you")
	if err != nil || other.ID == got.ID {
		t.Errorf("another retry: %+v, %v", other, err)
	}
	if _, err = d.Cancel(t.Context(), got.ID, "me"); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
	if again, err = d.Retry(t.Context(), old.ID, "retry-1", "you"); err != nil || again.Phase != ares.Cancelled {
		t.Errorf("the same retry once its job has ended: %+v, %v", again, err)
	}
	if err = d.Store.Archive(t.Context(), old, &run, nil); err != nil {
		t.Fatal(err)
	}
	_, err = d.Retry(t.Context(), old.ID, "", "you")
	wantCode(t, err, ares.Conflict, "archived")
}

func TestDeskCancel(t *testing.T) {
	d := newDesk(t)
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

func TestDeskDeletesIdleTenants(t *testing.T) {
	d := newDesk(t)
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
	_, err := d.Submit(t.Context(), spec(in("team")), "me")
	wantCode(t, err, ares.Invalid)
}

// TestATenantIsNotDeletedUnderAJob has a job accepted between the look and the
// deletion: the tenant must come back, or the job would wait for ever.
func TestATenantIsNotDeletedUnderAJob(t *testing.T) {
	v := fixedView()
	var s *store.Store
	var late store.Creation
	ops := map[string]int{}
	s, err := store.Open(t.Context(), store.Config{Dir: t.TempDir(), Observe: func(op string, _ time.Duration, _ error) {
		ops[op]++
		switch {
		case op == "get" && ops[op] == 3: // Open, the tenant, and now the store's revision
			if got := s.Create(t.Context(), []store.Creation{late})[0]; got.Err != nil {
				t.Error(got.Err)
			}
		case op == "delete tenant": // now the watch brings the job
			v.Apply(ares.Batch{Revision: 2000, Reset: true, Events: []ares.Event{jobEvent(late.Job)}})
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
	d := &Desk{Store: s, View: v, Now: time.Now}
	wantCode(t, d.DeleteTenant(t.Context(), "team"), ares.Conflict, "1 live jobs")
	if ops["delete tenant"] != 1 {
		t.Fatalf("this test did not meet the moment it is about: %v", ops)
	}
	if _, err := s.Tenant(t.Context(), "team"); err != nil {
		t.Errorf("the tenant of a live job: %v", err)
	}
}
