package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// deletedLeavesNoRights checks that nothing of a deleted tenant's rights remains: its tokens, the bindings in it, the
// bindings of its tokens in other tenants, and its roles in tokens of others. A tenant that exists keeps all of them.
func deletedLeavesNoRights(t *testing.T, s *store.Store) {
	ctx, gone, other := t.Context(), NewTenant(t, s), NewTenant(t, s)
	put := func(name string, bindings ...ares.Binding) {
		if err := s.PutToken(ctx, store.Token{Name: name, Hash: []byte(name), Bindings: bindings}); err != nil {
			t.Fatal(err)
		}
	}
	bind := func(subject, tenant string) {
		if _, err := s.CreateBinding(ctx, store.Binding{Subject: subject, Binding: ares.Binding{Role: ares.Viewer, Tenant: tenant}}); err != nil {
			t.Fatal(err)
		}
	}
	put(gone.ID+"/ci", ares.Binding{Role: ares.Viewer, Tenant: gone.ID})
	put(other.ID+"/ci", ares.Binding{Role: ares.Viewer, Tenant: other.ID}, ares.Binding{Role: ares.Submitter, Tenant: gone.ID})
	bind("oidc:ann", gone.ID)
	bind("token:"+gone.ID+"/ci", other.ID)
	bind("oidc:bob", other.ID)
	rights := func() (out []string) {
		bindings, err := s.Bindings(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range bindings {
			out = append(out, b.Subject+" in "+b.Tenant)
		}
		tokens, err := s.Tokens(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range tokens {
			for _, b := range k.Bindings {
				out = append(out, k.Name+" in "+b.Tenant)
			}
		}
		out = slices.DeleteFunc(out, func(r string) bool { return !strings.Contains(r, gone.ID) && !strings.Contains(r, other.ID) })
		slices.Sort(out)
		return out
	}
	before := rights()
	if err := s.DropQueues(ctx, gone.ID); err != nil {
		t.Fatal(err)
	}
	if got := rights(); len(got) != 6 || !slices.Equal(got, before) {
		t.Errorf("a tenant that exists has %v, want %v", got, before)
	}
	if err := s.DeleteTenant(ctx, gone.ID, gone.Revision); err != nil {
		t.Fatal(err)
	}
	if ids, err := s.TenantIDs(ctx); err != nil || slices.Contains(ids, gone.ID) || !slices.Contains(ids, other.ID) {
		t.Errorf("the tenants are %v, %v", ids, err)
	}
	if _, err := s.CreateTenant(ctx, gone); err != nil {
		t.Fatal(err)
	}
	want := []string{"oidc:bob in " + other.ID, other.ID + "/ci in " + other.ID}
	slices.Sort(want)
	if got := rights(); !slices.Equal(got, want) {
		t.Errorf("a tenant of the same name finds %v, want %v", got, want)
	}
}

// undoneDeletion deletes a tenant and restores it. Its secrets, policies and rights must be there as before.
func undoneDeletion(t *testing.T, s *store.Store) {
	ctx, tenant := t.Context(), NewTenant(t, s)
	kept, err := putSecret(t, s, tenant.ID, "hub", 1)
	if err != nil {
		t.Fatal(err)
	}
	policy, _, err := s.ApplyPolicy(ctx, rule("own", tenant.ID))
	if err != nil {
		t.Fatal(err)
	}
	b := store.Binding{Subject: "oidc:ann", Binding: ares.Binding{Role: ares.Viewer, Tenant: tenant.ID}}
	if _, err = s.CreateBinding(ctx, b); err != nil {
		t.Fatal(err)
	}
	if err = s.DeleteTenant(ctx, tenant.ID, tenant.Revision); err != nil {
		t.Fatal(err)
	}
	if _, err = s.UndeleteTenant(ctx, tenant); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Secret(ctx, tenant.ID, "hub"); err != nil || got.Revision != kept.Revision {
		t.Errorf("the secret is %+v, %v", got, err)
	}
	if got, err := s.Policy(ctx, tenant.ID, "own"); err != nil || got.Revision != policy.Revision {
		t.Errorf("the policy is %+v, %v", got, err)
	}
	all, err := s.Bindings(ctx)
	if err != nil || !slices.ContainsFunc(all, func(o store.Binding) bool { return o.Tenant == tenant.ID && o.Subject == b.Subject }) {
		t.Errorf("the binding is not in %+v, %v", all, err)
	}
}

// createdTogether creates two tenants at the same time that both had roles in the same tokens. Neither may find its role again.
func createdTogether(t *testing.T, s *store.Store) {
	ctx := t.Context()
	pair := []ares.Tenant{NewTenant(t, s), NewTenant(t, s)}
	const tokens = 20 // the more tokens, the likelier the two creations conflict
	name := Name("shared")
	for i := range tokens {
		err := s.PutToken(ctx, store.Token{Name: fmt.Sprintf("%s-%d", name, i), Hash: fmt.Append(nil, name, i), Bindings: []ares.Binding{
			{Role: ares.Viewer, Tenant: pair[0].ID}, {Role: ares.Viewer, Tenant: pair[1].ID},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tenant := range pair {
		if err := s.DeleteTenant(ctx, tenant.ID, tenant.Revision); err != nil {
			t.Fatal(err)
		}
	}
	var both sync.WaitGroup
	for _, tenant := range pair {
		both.Go(func() {
			if _, err := s.CreateTenant(ctx, tenant); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	all, err := s.Tokens(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, k := range all {
		if strings.HasPrefix(k.Name, name+"-") {
			found++
			if len(k.Bindings) > 0 {
				t.Errorf("token %s still has %v", k.Name, k.Bindings)
			}
		}
	}
	if found != tokens {
		t.Errorf("found %d tokens", found)
	}
}

// pendingIsAccepted checks that a pending binding is stored as such until it is accepted.
func pendingIsAccepted(t *testing.T, s *store.Store) {
	ctx, tenant := t.Context(), NewTenant(t, s)
	b := store.Binding{Subject: "token:x/ci", Binding: ares.Binding{Role: ares.Viewer, Tenant: tenant.ID}, CreatedBy: "ann", CreatedAt: Noon, Pending: true}
	_, _, err := s.AcceptBinding(ctx, b, "bob")
	refused(t, err, ares.NotFound)
	if _, err = s.CreateBinding(ctx, b); err != nil {
		t.Fatal(err)
	}
	find := func() store.Binding {
		all, err := s.Bindings(ctx)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(o store.Binding) bool { return o.Tenant == tenant.ID })
		return all[i]
	}
	if got := find(); !got.Pending || got.AcceptedBy != "" {
		t.Errorf("stored %+v", got)
	}
	for range 2 { // repeating it changes nothing
		_, now, err := s.AcceptBinding(ctx, b, "bob")
		if err != nil || now.Pending || now.AcceptedBy != "bob" || now.CreatedBy != "ann" {
			t.Errorf("accepted %+v, %v", now, err)
		}
	}
	if got := find(); got.Pending || got.AcceptedBy != "bob" || !got.CreatedAt.Equal(Noon) {
		t.Errorf("stored %+v", got)
	}
}
