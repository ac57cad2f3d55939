package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var policyLaws = []law{
	{"APolicyIsReplacedByItsName", policyRules},
	{"APolicyNeedsItsTenant", policyNeeds},
	{"PoliciesHaveAnEnd", policyLimits},
	{"AWatchShowsPolicies", watchPolicies},
	{"AJobKeepsWhatPoliciesSaid", jobNotes},
}

func rule(name, tenant string) ares.Policy {
	return ares.Policy{
		Name: name, Tenant: tenant, On: ares.OnSubmission, Match: "job.gpus > 0", Rule: "job.gpus < 8", Action: ares.RejectJob, Message: "too many",
		Mode: ares.WarnOnly, Alert: []string{"ops"}, Priority: -3, Why: "because", By: "ann", At: Noon,
	}
}

func policyRules(t *testing.T, s *store.Store) {
	want := rule("small", "")
	made, was, err := s.ApplyPolicy(t.Context(), want)
	if err != nil || was != nil {
		t.Fatalf("%+v, %v", was, err)
	}
	want.Revision = made.Revision
	got, err := s.Policy(t.Context(), "", "small")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
	again := rule("small", "")
	again.By = "bob"
	if got, was, err = s.ApplyPolicy(t.Context(), again); err != nil || !reflect.DeepEqual(got, want) || was == nil || was.Revision != made.Revision {
		t.Errorf("the same again gave %+v, %+v, %v", got, was, err)
	}
	again.On, again.Rule, again.Match, again.Require, again.MessageExpression, again.Message, again.Action = ares.OnPlacement, "", "", `{"a": "b"}`, `"x"`, "", ares.RequireLabels
	got, was, err = s.ApplyPolicy(t.Context(), again)
	if err != nil || got.Revision <= made.Revision || was == nil || !reflect.DeepEqual(*was, want) {
		t.Errorf("another gave %+v, %+v, %v", got, was, err)
	}
	again.Revision = got.Revision
	if got, err = s.Policy(t.Context(), "", "small"); err != nil || !reflect.DeepEqual(got, again) {
		t.Errorf("read %+v, %v, want %+v", got, err, again)
	}
	last, gone, err := s.DeletePolicy(t.Context(), "", "small")
	if err != nil || gone <= got.Revision || !reflect.DeepEqual(last, again) {
		t.Fatalf("%+v is gone at %d, %v", last, gone, err)
	}
	_, _, err = s.DeletePolicy(t.Context(), "", "small")
	refused(t, err, ares.NotFound, "ares policy list")
	_, err = s.Policy(t.Context(), "", "small")
	refused(t, err, ares.NotFound)
}

func policyNeeds(t *testing.T, s *store.Store) {
	_, _, err := s.ApplyPolicy(t.Context(), rule("own", Name("nobody")))
	refused(t, err, ares.NotFound, "ares tenant create")
	tenant := NewTenant(t, s)
	for _, whose := range []string{"", tenant.ID} {
		if _, _, err = s.ApplyPolicy(t.Context(), rule("own", whose)); err != nil {
			t.Fatal(err)
		}
	}
	if err = s.DeleteTenant(t.Context(), tenant.ID, tenant.Revision); err != nil {
		t.Fatal(err)
	}
	if err = s.DropQueues(t.Context(), tenant.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.Policy(t.Context(), tenant.ID, "own")
	refused(t, err, ares.NotFound)
	if _, err = s.Policy(t.Context(), "", "own"); err != nil {
		t.Errorf("the one of the same name for all went too: %v", err)
	}
}

func policyLimits(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s)
	for i := range ares.MaxTenantPolicies {
		if _, _, err := s.ApplyPolicy(t.Context(), rule(fmt.Sprintf("p%d", i), tenant.ID)); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := s.ApplyPolicy(t.Context(), rule("more", tenant.ID))
	refused(t, err, ares.LimitReached, "which is the limit")
	change := rule("p0", tenant.ID)
	change.Rule = "true"
	if _, _, err = s.ApplyPolicy(t.Context(), change); err != nil {
		t.Errorf("one that is there could not be changed: %v", err)
	}
}

func watchPolicies(t *testing.T, s *store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batches, ended := make(chan ares.Batch, 64), make(chan error, 1)
	go func() {
		ended <- s.Watch(ctx, func(b ares.Batch) error {
			batches <- b
			return nil
		})
	}()
	<-batches
	made, _, err := s.ApplyPolicy(ctx, rule("seen", ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = s.DeletePolicy(ctx, "", "seen"); err != nil {
		t.Fatal(err)
	}
	seen := false
	for gone := false; !gone; {
		b := <-batches
		data, err := store.EncodeBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := store.DecodeBatch(data)
		if err != nil || !reflect.DeepEqual(kept.Events, b.Events) {
			t.Errorf("a recording keeps %+v of %+v, %v", kept.Events, b.Events, err)
		}
		for _, e := range b.Events {
			seen = seen || e.Policy != nil && reflect.DeepEqual(*e.Policy, made)
			gone = gone || e.Gone == ares.Gone{Kind: ares.KindPolicy, ID: made.ID()}
		}
	}
	if !seen {
		t.Error("the watch did not show the policy as it was written")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
}

func jobNotes(t *testing.T, s *store.Store) {
	ask := JobOf(NewTenant(t, s), Sleep())
	ask.Job.Notes = []ares.PolicyNote{{Policy: "team", Text: "say which"}, {Policy: "pool", Text: "to the pool", Labels: map[string]string{"pool": "a100"}}}
	got := s.Create(t.Context(), []store.Creation{ask})[0]
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	if kept := Get(t, s, got.ID).Job; !reflect.DeepEqual(kept.Notes, ask.Job.Notes) {
		t.Errorf("kept %+v", kept.Notes)
	}
}
