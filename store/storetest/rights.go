package storetest

import (
	"slices"
	"strings"
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
