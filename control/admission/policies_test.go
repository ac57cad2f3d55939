package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/notify"
	"github.com/ares-scheduler/ares/policy"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// admissionWithPolicies is an Admission with policies. It also records the outcomes of the policies and the alerts that
// they sent.
type admissionWithPolicies struct {
	*Admission

	mu     sync.Mutex
	counts []string
	alerts []string
}

func newAdmissionWithPolicies(t *testing.T, s *store.Store) *admissionWithPolicies {
	t.Helper()
	d := &admissionWithPolicies{Admission: &Admission{Store: s, Now: func() time.Time { return storetest.Noon }, MinLostAfter: 20 * time.Second}}
	view := cache.NewView(time.Now)
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
	controltest.Run(t, func(ctx context.Context) error { return view.Run(ctx, s, func(error) {}) })
	controltest.Await(t, view, "the first snapshot", func() bool { return view.Revision() > 0 })
	return d
}

func (d *admissionWithPolicies) apply(t *testing.T, p ares.Policy) {
	t.Helper()
	if _, _, err := d.Store.ApplyPolicy(t.Context(), p.WithDefaults()); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
}

// The method `told` returns the policy outcomes and the alerts that were recorded since its previous call.
func (d *admissionWithPolicies) told() (counts, alerts []string) {
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

// TestPolicyRejects uses a tenant that has used up its budget. New jobs must be rejected and an alert must be sent, but
// jobs accepted before are not affected.
func TestPolicyRejects(t *testing.T) {
	d := newAdmissionWithPolicies(t, withTenant(t))
	spent := 10.0
	d.Policies.Spent = func(string) float64 { return spent }
	d.apply(t, ares.Policy{Name: "gpu-budget", On: ares.OnSubmission, Rule: "tenant.gpu_hours < tenant.quota", Message: "the budget is used up", Alert: []string{"ops"}})
	first, err := d.submitOne(t.Context(), spec(asking("one")), "ann")
	if err != nil || len(first.Warnings) > 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	if counts, alerts := d.told(); !slices.Equal(counts, []string{"gpu-budget allowed"}) || len(alerts) > 0 {
		t.Errorf("counted %v, alerted %v", counts, alerts)
	}
	spent = 100
	if _, err = d.submitOne(t.Context(), spec(asking("two")), "ann"); err != nil {
		t.Errorf("usage is cached for a second: %v", err)
	}
	d.told()
	d.Policies.Now = func() time.Time { return storetest.Noon.Add(time.Second) }
	_, err = d.submitOne(t.Context(), spec(asking("three")), "ann")
	wantCode(t, err, ares.PolicyDenied, "policy gpu-budget: the budget is used up")
	if counts, alerts := d.told(); !slices.Equal(counts, []string{"gpu-budget rejected"}) || !slices.Equal(alerts, []string{"ops: policy gpu-budget: the budget is used up"}) {
		t.Errorf("counted %v, alerted %v", counts, alerts)
	}
	again, err := d.submitOne(t.Context(), spec(asking("one")), "ann")
	if err != nil || !again.Duplicate || again.ID != first.ID {
		t.Errorf("the same request again: %+v, %v", again, err)
	}
	if _, err = d.Draft(t.Context(), Request{Submitted: spec(), Owner: "ann"}); ares.CodeOf(err) != ares.PolicyDenied {
		t.Errorf("a plan: %v", err)
	}
	if counts, alerts := d.told(); len(counts)+len(alerts) > 0 {
		t.Errorf("nothing was rejected, yet %v, %v", counts, alerts)
	}
	if _, _, err = d.Store.DeletePolicy(t.Context(), "", "gpu-budget"); err != nil {
		t.Fatal(err)
	}
	d.caughtUp(t)
	if _, err = d.submitOne(t.Context(), spec(), "ann"); err != nil {
		t.Errorf("after it was deleted: %v", err)
	}
}

// TestPolicyWarns checks that the submitter gets the policy's warning and that the warning is stored with the job.
// Each job of a batch gets its own warnings.
func TestPolicyWarns(t *testing.T) {
	d := newAdmissionWithPolicies(t, withTenant(t))
	d.apply(t, ares.Policy{Name: "team", On: ares.OnSubmission, Rule: `"team" in job.labels`, Action: ares.Warn, Message: "say which team", Alert: []string{"ops"}})
	d.apply(t, ares.Policy{Name: "small", On: ares.OnSubmission, Rule: "job.cpu_cores < 8", Mode: ares.DryRun, Alert: []string{"ops"}})
	labelled := func(s *ares.Spec) { s.Labels = map[string]string{"team": "a"} }
	large := func(s *ares.Spec) { s.CPUs = 9 }
	since := d.View.Revision()
	out := d.submitAll(t.Context(), []ares.Spec{spec(large), spec(labelled), {}}, "ann")
	if len(out[0].Warnings) != 1 || out[0].Warnings[0] != "policy team: say which team" || len(out[1].Warnings) > 0 || out[2].Err == nil {
		t.Fatalf("%+v", out)
	}
	counts, alerts := d.told()
	if want := []string{"small rejected", "team warned", "small allowed", "team allowed"}; !slices.Equal(counts, want) || !slices.Equal(alerts, []string{"ops: policy team: say which team"}) {
		t.Errorf("counted %v, alerted %v", counts, alerts)
	}
	job := storetest.Get(t, d.Store, out[0].ID).Job
	if len(job.Notes) != 1 || job.TransitionText(ares.NewRun(storetest.Noon).Transitions[0]) != "accepted; policy team: say which team" {
		t.Errorf("notes %+v", job.Notes)
	}
	d.caughtUp(t)
	events, _, _, err := d.View.EventsSince(since)
	if err != nil || !slices.ContainsFunc(events, func(h cache.StreamEvent) bool {
		return h.Job == job.ID && h.Message == "accepted; policy team: say which team"
	}) {
		t.Errorf("events %+v, %v", events, err)
	}
}

// TestPolicyRequiresNodeLabels checks that node labels required by a policy become part of the job. A retry must be
// checked against the current policies.
func TestPolicyRequiresNodeLabels(t *testing.T) {
	d := newAdmissionWithPolicies(t, withTenant(t))
	d.apply(t, ares.Policy{Name: "pool", On: ares.OnPlacement, Require: `{"pool": "a100"}`})
	mine := func(s *ares.Spec) { s.EditPlacement().NodeSelector = map[string]string{"zone": "z"} }
	said := spec(mine, asking("one"))
	got, err := d.submitOne(t.Context(), said, "ann")
	if err != nil || len(got.Warnings) != 1 || len(said.Placement().NodeSelector) != 1 {
		t.Fatalf("%+v, %v, the caller's own %v", got, err, said.Placement().NodeSelector)
	}
	job := storetest.Get(t, d.Store, got.ID).Job
	if !maps.Equal(job.Placement().NodeSelector, map[string]string{"zone": "z", "pool": "a100"}) || !job.Required() || job.Notes[0].Text != "policy pool requires node label pool=a100" {
		t.Errorf("%v, %+v", job.Placement().NodeSelector, job.Notes)
	}
	again, err := d.submitOne(t.Context(), spec(mine, asking("one")), "ann")
	if err != nil || !again.Duplicate {
		t.Errorf("the same request again: %+v, %v", again, err)
	}
	_, err = d.submitOne(t.Context(), spec(func(s *ares.Spec) { s.EditPlacement().NodeSelector = map[string]string{"pool": "t4"} }), "ann")
	wantCode(t, err, ares.PolicyDenied, "policy pool requires node label pool=a100, the job asks for pool=t4")

	if _, err = d.Cancel(t.Context(), got.ID, "ann"); err != nil {
		t.Fatal(err)
	}
	d.apply(t, ares.Policy{Name: "pool", On: ares.OnPlacement, Require: `{"pool": "h100"}`})
	retry, err := d.Retry(t.Context(), got.ID, Request{Owner: "ann"})
	if err != nil || len(retry.Warnings) != 1 {
		t.Fatalf("%+v, %v", retry, err)
	}
	if labels := storetest.Get(t, d.Store, retry.ID).Job.Placement().NodeSelector; !maps.Equal(labels, map[string]string{"zone": "z", "pool": "h100"}) {
		t.Errorf("the retry asks for %v", labels)
	}
}

// TestPolicyInput checks that a policy can read the tenant, its usage and the user.
func TestPolicyInput(t *testing.T) {
	d := newAdmissionWithPolicies(t, withTenant(t))
	d.apply(t, ares.Policy{
		Name: "sees", On: ares.OnSubmission,
		Rule: `usage.pending < 2 && usage.queue_pending < 2 && usage.gpus == 0 && user.name == "oidc:ann" && user.groups == ["ml"] && user.roles == ["submitter"] &&
			tenant.id == "default" && tenant.quota == 100.0 && now == timestamp("2026-01-02T12:00:00Z")`,
	})
	d.Policies.Now = func() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }
	ctx := WithUser(t.Context(), &ares.Identity{Name: "oidc:ann", Groups: []string{"ml"}, Bindings: []ares.Binding{{Role: ares.Submitter, Tenant: "default"}}})
	out := d.submitAll(ctx, []ares.Spec{spec(), spec(), spec()}, "oidc:ann")
	if out[0].Err != nil || out[1].Err != nil || ares.CodeOf(out[2].Err) != ares.PolicyDenied { // the third job is checked before the view knows the first two
		t.Errorf("%v, %v, %v", out[0].Err, out[1].Err, out[2].Err)
	}
	_, err := d.submitOne(t.Context(), spec(), "somebody")
	wantCode(t, err, ares.PolicyDenied)
}

// TestPolicyOfANewerVersion checks a policy that this server cannot read. The policy must reject everything it applies
// to, and every server must list it with the reason.
func TestPolicyOfANewerVersion(t *testing.T) {
	s := withTenant(t)
	d, other := newAdmissionWithPolicies(t, s), newAdmissionWithPolicies(t, s)
	d.apply(t, ares.Policy{Name: "future", On: ares.OnSubmission, Rule: "job.quantum_cores < 8"})
	other.caughtUp(t)
	for _, server := range []*admissionWithPolicies{d, other} {
		_, err := server.submitOne(t.Context(), spec(), "ann")
		wantCode(t, err, ares.PolicyDenied, "policy future cannot be read by this version")
		if server.Policies.Broken("*/future") == nil || len(server.Policies.List()) != 1 {
			t.Error("it is not listed as broken")
		}
	}
	d.apply(t, ares.Policy{Name: "future", On: ares.OnSubmission, Rule: "job.gpus < 8"})
	other.caughtUp(t)
	if _, err := other.submitOne(t.Context(), spec(), "ann"); err != nil || other.Policies.Broken("*/future") != nil {
		t.Errorf("after it was corrected: %v", err)
	}
}

// TestAccessPolicies checks that the caller is not even looked up if no access policy exists.
func TestAccessPolicies(t *testing.T) {
	d := newAdmissionWithPolicies(t, withTenant(t))
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

// TestAlertsThatOneCallerCauses checks that a caller cannot make ever new alerts of a platform's policy by naming ever new tenants.
// A message that quotes the caller's text is marked, so that its links and mentions have no effect.
func TestAlertsThatOneCallerCauses(t *testing.T) {
	d := newAdmissionWithPolicies(t, withTenant(t))
	keys := map[string]bool{}
	d.Policies.Alert = func(_ string, a notify.Alert) {
		keys[a.Key] = true
		if !a.Written {
			t.Errorf("the message of %s is not marked", a.Key)
		}
	}
	d.apply(t, ares.Policy{Name: "lists", On: ares.OnAccess, Rule: "false", MessageExpression: "object.tenant", Mode: ares.WarnOnly, Alert: []string{"ops"}})
	for i := range 20 {
		err := d.Policies.Access(func() policy.Access {
			return policy.Access{User: policy.User{Name: fmt.Sprint("token:red/", i), Tenant: "red"}, Request: policy.Request{Action: "ListJobs"}, Object: policy.Object{Tenant: fmt.Sprint("invented", i)}}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(keys) != 1 {
		t.Errorf("the caller made %d alerts", len(keys))
	}
}
