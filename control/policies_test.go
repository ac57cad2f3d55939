package control

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/notify"
	"github.com/ares-scheduler/ares/policy"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// policed is a desk with policies, what they came to and what was told.
type policed struct {
	*Desk

	mu     sync.Mutex
	counts []string
	alerts []string
}

func newPoliced(t *testing.T, s *store.Store) *policed {
	t.Helper()
	d := &policed{Desk: &Desk{Store: s, Now: func() time.Time { return noon }, MinLostAfter: 20 * time.Second}}
	view := NewView(time.Now)
	var err error
	if d.Policies, err = NewPolicies(view); err != nil {
		t.Fatal(err)
	}
	d.View, d.Policies.Now = view, d.Now
	d.Policies.Count = func(p *ares.Policy, o policy.Outcome) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.counts = append(d.counts, p.Name+" "+string(o))
	}
	d.Policies.Alert = func(channel string, a notify.Alert) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.alerts = append(d.alerts, channel+": "+a.Text)
	}
	run(t, func(ctx context.Context) error { return view.Run(ctx, s, func(error) {}) })
	await(t, view, "the first snapshot", func() bool { return view.Revision() > 0 })
	return d
}

func (d *policed) apply(t *testing.T, p ares.Policy) {
	t.Helper()
	if _, _, err := d.Store.ApplyPolicy(t.Context(), p.WithDefaults()); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
}

// told empties what was counted and alerted, and returns it.
func (d *policed) told() (counts, alerts []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	counts, alerts = d.counts, d.alerts
	d.counts, d.alerts = nil, nil
	return counts, alerts
}

func withTenant(t *testing.T) *store.Store {
	t.Helper()
	s := storetest.Embedded(t)
	if err := s.RegisterTenant(t.Context(), ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits(), GPUHours: 100}); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPolicyRefuses: the spec's own example. A tenant that has used up its budget
// submits nothing new, somebody is told, and what was accepted before stays.
func TestPolicyRefuses(t *testing.T) {
	d := newPoliced(t, withTenant(t))
	spent := 10.0
	d.Policies.Spent = func(string) float64 { return spent }
	d.apply(t, ares.Policy{Name: "gpu-budget", On: ares.OnSubmission, Rule: "tenant.gpu_hours < tenant.quota", Message: "the budget is used up", Alert: []string{"ops"}})
	first, err := d.Submit(t.Context(), spec(asking("one")), "ann")
	if err != nil || len(first.Warnings) > 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	if counts, alerts := d.told(); !slices.Equal(counts, []string{"gpu-budget allowed"}) || len(alerts) > 0 {
		t.Errorf("counted %v, alerted %v", counts, alerts)
	}
	spent = 100
	if _, err = d.Submit(t.Context(), spec(asking("two")), "ann"); err != nil {
		t.Errorf("what was counted is believed for a second: %v", err)
	}
	d.told()
	d.Policies.Now = func() time.Time { return noon.Add(time.Second) }
	_, err = d.Submit(t.Context(), spec(asking("three")), "ann")
	wantCode(t, err, ares.Refused, "policy gpu-budget: the budget is used up")
	if counts, alerts := d.told(); !slices.Equal(counts, []string{"gpu-budget rejected"}) || !slices.Equal(alerts, []string{"ops: policy gpu-budget: the budget is used up"}) {
		t.Errorf("counted %v, alerted %v", counts, alerts)
	}
	again, err := d.Submit(t.Context(), spec(asking("one")), "ann")
	if err != nil || !again.Duplicate || again.ID != first.ID {
		t.Errorf("the same request again: %+v, %v", again, err)
	}
	if _, err = d.Draft(t.Context(), spec(), "ann"); ares.CodeOf(err) != ares.Refused {
		t.Errorf("a plan: %v", err)
	}
	if counts, alerts := d.told(); len(counts)+len(alerts) > 0 {
		t.Errorf("nobody was refused, and %v, %v", counts, alerts)
	}
	if _, _, err = d.Store.DeletePolicy(t.Context(), "", "gpu-budget"); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
	if _, err = d.Submit(t.Context(), spec(), "ann"); err != nil {
		t.Errorf("after it was deleted: %v", err)
	}
}

// TestPolicyWarns: who submits is told, and the job keeps it; each job of a batch
// for itself.
func TestPolicyWarns(t *testing.T) {
	d := newPoliced(t, withTenant(t))
	d.apply(t, ares.Policy{Name: "team", On: ares.OnSubmission, Rule: `"team" in job.labels`, Action: ares.Warn, Message: "say which team", Alert: []string{"ops"}})
	d.apply(t, ares.Policy{Name: "small", On: ares.OnSubmission, Rule: "job.cpu_cores < 8", Mode: ares.DryRun, Alert: []string{"ops"}})
	labelled := func(s *ares.Spec) { s.Labels = map[string]string{"team": "a"} }
	large := func(s *ares.Spec) { s.CPUs = 9 }
	since := d.View.Revision()
	out := d.SubmitAll(t.Context(), []ares.Spec{spec(large), spec(labelled), {}}, "ann")
	if len(out[0].Warnings) != 1 || out[0].Warnings[0] != "policy team: say which team" || len(out[1].Warnings) > 0 || out[2].Err == nil {
		t.Fatalf("%+v", out)
	}
	counts, alerts := d.told()
	if want := []string{"small rejected", "team warned", "small allowed", "team allowed"}; !slices.Equal(counts, want) || !slices.Equal(alerts, []string{"ops: policy team: say which team"}) {
		t.Errorf("counted %v, alerted %v", counts, alerts)
	}
	job := storetest.Get(t, d.Store, out[0].ID).Job
	if len(job.Notes) != 1 || job.Told(ares.NewRun(noon).Transitions[0]) != "accepted; policy team: say which team" {
		t.Errorf("notes %+v", job.Notes)
	}
	d.caughtUp(t)
	events, _, _, err := d.View.EventsSince(since)
	if err != nil || !slices.ContainsFunc(events, func(h Happening) bool {
		return h.Job == job.ID && h.Message == "accepted; policy team: say which team"
	}) {
		t.Errorf("events %+v, %v", events, err)
	}
}

// TestPolicyPlaces: the labels that a policy requires are part of the job, and who
// retries it is judged by the policies of then.
func TestPolicyPlaces(t *testing.T) {
	d := newPoliced(t, withTenant(t))
	d.apply(t, ares.Policy{Name: "pool", On: ares.OnPlacement, Require: `{"pool": "a100"}`})
	mine := func(s *ares.Spec) { s.Placement.NodeSelector = map[string]string{"zone": "z"} }
	said := spec(mine, asking("one"))
	got, err := d.Submit(t.Context(), said, "ann")
	if err != nil || len(got.Warnings) != 1 || len(said.Placement.NodeSelector) != 1 {
		t.Fatalf("%+v, %v, the caller's own %v", got, err, said.Placement.NodeSelector)
	}
	job := storetest.Get(t, d.Store, got.ID).Job
	if !maps.Equal(job.Placement.NodeSelector, map[string]string{"zone": "z", "pool": "a100"}) || !job.Required() || job.Notes[0].Text != "policy pool requires node label pool=a100" {
		t.Errorf("%v, %+v", job.Placement.NodeSelector, job.Notes)
	}
	again, err := d.Submit(t.Context(), spec(mine, asking("one")), "ann")
	if err != nil || !again.Duplicate {
		t.Errorf("the same request again: %+v, %v", again, err)
	}
	_, err = d.Submit(t.Context(), spec(func(s *ares.Spec) { s.Placement.NodeSelector = map[string]string{"pool": "t4"} }), "ann")
	wantCode(t, err, ares.Refused, "policy pool requires node label pool=a100, the job asks for pool=t4")

	if _, err = d.Cancel(t.Context(), got.ID, "ann"); err != nil {
		t.Fatal(err)
	}
	d.apply(t, ares.Policy{Name: "pool", On: ares.OnPlacement, Require: `{"pool": "h100"}`})
	retry, err := d.Retry(t.Context(), got.ID, "", "ann")
	if err != nil || len(retry.Warnings) != 1 {
		t.Fatalf("%+v, %v", retry, err)
	}
	if labels := storetest.Get(t, d.Store, retry.ID).Job.Placement.NodeSelector; !maps.Equal(labels, map[string]string{"zone": "z", "pool": "h100"}) {
		t.Errorf("the retry asks for %v", labels)
	}
}

// TestPolicySees: what a policy is told of the tenant, its use and the user.
func TestPolicySees(t *testing.T) {
	d := newPoliced(t, withTenant(t))
	d.apply(t, ares.Policy{
		Name: "sees", On: ares.OnSubmission,
		Rule: `usage.pending < 2 && usage.queue_pending < 2 && usage.gpus == 0 && user.name == "oidc:ann" && user.groups == ["ml"] && user.roles == ["submitter"] &&
			tenant.id == "default" && tenant.quota == 100.0 && now == timestamp("2026-01-02T12:00:00Z")`,
	})
	d.Policies.Now = func() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }
	ctx := WithUser(t.Context(), &ares.Identity{Name: "oidc:ann", Groups: []string{"ml"}, Bindings: []ares.Binding{{Role: ares.Submitter, Tenant: "default"}}})
	out := d.SubmitAll(ctx, []ares.Spec{spec(), spec(), spec()}, "oidc:ann")
	if out[0].Err != nil || out[1].Err != nil || ares.CodeOf(out[2].Err) != ares.Refused { // the third is before the view knows the first two
		t.Errorf("%v, %v, %v", out[0].Err, out[1].Err, out[2].Err)
	}
	_, err := d.Submit(t.Context(), spec(), "somebody")
	wantCode(t, err, ares.Refused)
}

// TestPolicyOfANewerVersion: a policy that this server cannot read refuses what it is
// about, and is listed with the reason; on another server nothing else is so.
func TestPolicyOfANewerVersion(t *testing.T) {
	s := withTenant(t)
	d, other := newPoliced(t, s), newPoliced(t, s)
	d.apply(t, ares.Policy{Name: "future", On: ares.OnSubmission, Rule: "job.quantum_cores < 8"})
	other.caughtUp(t)
	for _, desk := range []*policed{d, other} {
		_, err := desk.Submit(t.Context(), spec(), "ann")
		wantCode(t, err, ares.Refused, "policy future cannot be read by this version")
		if desk.Policies.Broken("*/future") == nil || len(desk.Policies.List()) != 1 {
			t.Error("it is not said to be broken")
		}
	}
	d.apply(t, ares.Policy{Name: "future", On: ares.OnSubmission, Rule: "job.gpus < 8"})
	other.caughtUp(t)
	if _, err := other.Submit(t.Context(), spec(), "ann"); err != nil || other.Policies.Broken("*/future") != nil {
		t.Errorf("after it was mended: %v", err)
	}
}

// TestAccessIsAsked: nobody is asked about a call where no policy is about calls.
func TestAccessIsAsked(t *testing.T) {
	d := newPoliced(t, withTenant(t))
	asked := 0
	who := func() policy.Access {
		asked++
		return policy.Access{User: policy.User{Name: "ann"}, Request: policy.Request{Action: "CancelJob"}, Object: policy.Object{Kind: "job", Tenant: "default"}}
	}
	d.apply(t, ares.Policy{Name: "small", On: ares.OnSubmission, Rule: "job.gpus < 8"})
	if err := d.Policies.Access(who); err != nil || asked != 0 {
		t.Errorf("%v, asked %d times", err, asked)
	}
	d.apply(t, ares.Policy{Name: "no-cancel", Tenant: "default", On: ares.OnAccess, Rule: `request.action != "CancelJob"`, Alert: []string{"ops"}})
	wantCode(t, d.Policies.Access(who), ares.Forbidden, "policy no-cancel")
	if counts, alerts := d.told(); !slices.Equal(counts, []string{"no-cancel rejected"}) || len(alerts) != 1 || !strings.HasPrefix(alerts[0], "ops: ") {
		t.Errorf("counted %v, alerted %v", counts, alerts)
	}
}
