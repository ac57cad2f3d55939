package storetest

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var tenantLaws = []law{
	{"ATenantChangesByItsRevision", tenantRules},
	{"ATokenReplacesTheOneOfItsName", tokenRules},
	{"ADumpHidesWhatATokenHashesTo", dumpHides},
	{"KeysAreReadable", keysReadable},
	{"ADeletedTenantLeavesNoRights", deletedLeavesNoRights},
	{"AnUndoneDeletionLosesNothing", undoneDeletion},
	{"TenantsCreatedTogetherLeaveNoRoles", createdTogether},
	{"APendingBindingIsAccepted", pendingIsAccepted},
}

func tenantRules(t *testing.T, s *store.Store) {
	want := ares.Tenant{
		ID: Name("tenant"), Name: "Team A", PriorityTier: ares.High, Weight: 2.5, MayPreempt: true, LostAfterSecs: 90, CreatedAt: Noon, GPUHours: 5000,
		Limits: ares.Limits{GPUs: 1, GPUMemoryMB: 2, CPUs: 3, MemoryMB: 4, ConcurrentJobs: 5, PendingJobs: 6},
		Quotas: []ares.Quota{{Model: "h100", Nominal: 16, Borrow: 8, Lend: 4}, {Nominal: 64, Borrow: ares.Unlimited, Lend: ares.Unlimited}},
	}
	made, err := s.CreateTenant(t.Context(), want)
	if err != nil || made.Revision == 0 {
		t.Fatalf("%+v, %v", made, err)
	}
	want.Revision = made.Revision
	var got ares.Tenant
	if got, err = s.Tenant(t.Context(), want.ID); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("stored %+v, want %+v, %v", got, want, err)
	}
	if got, err = s.CreateTenant(t.Context(), want); err != nil || got.Revision != made.Revision {
		t.Errorf("the same again: %+v, %v", got, err)
	}
	other := want
	other.Limits.GPUs = 64
	_, err = s.CreateTenant(t.Context(), other)
	refused(t, err, ares.Conflict, "exists already")
	if err = s.RegisterTenant(t.Context(), other); err != nil {
		t.Errorf("registering leaves an existing one: %v", err)
	}
	changed, err := s.UpdateTenant(t.Context(), other)
	if err != nil || changed.Revision <= made.Revision {
		t.Fatalf("%+v, %v", changed, err)
	}
	want.Limits.GPUs = 7
	_, err = s.UpdateTenant(t.Context(), want)
	refused(t, err, ares.Conflict, "changed by another request")
	refused(t, s.DeleteTenant(t.Context(), want.ID, made.Revision), ares.Conflict)
	if err = s.DeleteTenant(t.Context(), want.ID, changed.Revision); err != nil {
		t.Fatal(err)
	}
	_, err = s.Tenant(t.Context(), want.ID)
	refused(t, err, ares.NotFound, want.ID)
	_, err = s.UpdateTenant(t.Context(), changed)
	refused(t, err, ares.NotFound)
}

func tokenRules(t *testing.T, s *store.Store) {
	name := Name("token")
	for _, role := range []string{"viewer", "admin"} {
		if err := s.PutToken(t.Context(), store.Token{Name: name, Hash: []byte("hash of " + role), Role: role}); err != nil {
			t.Fatal(err)
		}
	}
	tokens, err := s.Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, tok := range tokens {
		if tok.Name == name {
			found++
			if tok.Role != "admin" || !bytes.Equal(tok.Hash, []byte("hash of admin")) {
				t.Errorf("got %+v", tok)
			}
		}
	}
	if found != 1 {
		t.Errorf("found %d tokens of that name", found)
	}
}

func dumpHides(t *testing.T, s *store.Store) {
	secret := "a-hash-nobody-may-see"
	if err := s.PutToken(t.Context(), store.Token{Name: Name("token"), Hash: []byte(secret), Role: "admin"}); err != nil {
		t.Fatal(err)
	}
	tokens := 0
	for _, raw := range Records(t, s, "") {
		if strings.HasPrefix(raw.Key, "/ares/tokens/") {
			tokens++
			if strings.Contains(raw.JSON, "hash") || strings.Contains(raw.JSON, "YS1oYXNo") { // the secret in base64
				t.Errorf("a dump shows %s", raw.JSON)
			}
		}
	}
	if tokens == 0 {
		t.Error("the dump has no tokens at all")
	}
}

func keysReadable(t *testing.T, s *store.Store) {
	st := newStage(t, s, 1)
	st.claim(t, s)
	id := string(st.job.ID)
	want := map[string]bool{
		"/ares/jobs/" + id: true, "/ares/runs/" + id: true, "/ares/leases/" + id: true, "/ares/leases/" + id + "/0": true,
		"/ares/nodes/" + st.nodes[0].ID: true, "/ares/sessions/" + st.nodes[0].ID: true, "/ares/tenants/" + st.job.Tenant: true,
		"/ares/loop/plan": true, "/ares/loop/leader": true,
	}
	for _, raw := range Records(t, s, "") {
		delete(want, raw.Key)
		for _, c := range raw.Key {
			if c <= ' ' || c > '~' {
				t.Errorf("the key %q is not readable", raw.Key)
			}
		}
		if !strings.HasPrefix(raw.Key, "/ares/") || raw.Revision < raw.CreateRevision || raw.CreateRevision == 0 {
			t.Errorf("got %+v", raw)
		}
		if strings.Contains(raw.JSON, "undecodable") {
			t.Errorf("%s is undecodable", raw.Key)
		}
	}
	for key := range want {
		t.Errorf("there is no %s", key)
	}
}
