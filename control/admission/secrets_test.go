package admission

import (
	"context"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storetest"
)

// knownSecrets holds the secrets that exist, as TENANT/NAME.
type knownSecrets map[string]bool

func (s knownSecrets) Check(_ context.Context, tenant string, refs []ares.SecretRef) error {
	var p ares.Problems
	for _, r := range refs {
		if !s[tenant+"/"+r.Name] {
			p.Add("secrets[0].name", "tenant %s has no secret %q", tenant, r.Name)
		}
	}
	return p.Err()
}

func TestSecretsOfAJobMustExist(t *testing.T) {
	a := newAdmission(t)
	spec := storetest.Sleep()
	spec.Tenant, spec.Secrets = ares.DefaultTenant, []ares.SecretRef{{Name: "hub", Env: "TOKEN"}}
	if _, err := a.submitOne(t.Context(), spec, "ann"); ares.CodeOf(err) != ares.FeatureDisabled {
		t.Errorf("without secrets: %v", err)
	}
	a.Secrets = knownSecrets{"other/hub": true}
	if _, err := a.submitOne(t.Context(), spec, "ann"); ares.CodeOf(err) != ares.Invalid || !strings.Contains(err.Error(), `secrets[0].name: tenant default has no secret "hub"`) {
		t.Errorf("another tenant's secret: %v", err)
	}
	if _, err := a.Draft(t.Context(), Request{Submitted: spec, Owner: "ann"}); ares.CodeOf(err) != ares.Invalid {
		t.Errorf("a plan with another tenant's secret: %v", err)
	}
	a.Secrets = knownSecrets{"default/hub": true}
	got, err := a.submitOne(t.Context(), spec, "ann")
	if err != nil {
		t.Fatal(err)
	}
	if stored := storetest.Get(t, a.Store, got.ID).Job; len(stored.Secrets) != 1 || stored.Secrets[0] != spec.Secrets[0] {
		t.Errorf("stored %+v", stored.Secrets)
	}
}
