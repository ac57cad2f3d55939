package storetest

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var lentLaws = []law{
	{"ALoanIsOfTheLastHub", lentHub},
	{"ALoanOnlyGetsNewer", lentVersions},
	{"AnEditKeepsTheLoan", lentEdits},
	{"ATenantOfTheHubIsCreated", sharedTenant},
}

func memberOf(t *testing.T, s *store.Store, hub string) {
	t.Helper()
	if _, err := s.UpdateMembership(t.Context(), func(m *store.Membership) error { m.Name, m.HubIncarnation = "west", hub; return nil }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.DeleteMembership(t.Context()) })
}

func tenantNow(t *testing.T, s *store.Store, id string) ares.Tenant {
	t.Helper()
	got, err := s.Tenant(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func lentHub(t *testing.T, s *store.Store) {
	lead, resign := NewLead(t, s)
	tenant := NewTenant(t, s)
	set := func(hub string, version int64) error {
		_, err := s.SetLoan(t.Context(), lead, tenant.ID, ares.Loan{Hub: hub, Version: version, GPUs: 4, Quota: 8})
		return err
	}
	if err := s.DeleteMembership(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused(t, set("hub-1", 5), ares.Fenced, "has left its hub")
	memberOf(t, s, "hub-2")
	refused(t, set("hub-1", 5), ares.Fenced, "greeted the hub hub-2 since")
	_, err := s.SetLoan(t.Context(), lead, "no-tenant", ares.Loan{Hub: "hub-2"})
	refused(t, err, ares.NotFound)
	if err = set("hub-2", 5); err != nil {
		t.Fatal(err)
	}
	if got := tenantNow(t, s, tenant.ID).Loan; got == nil || *got != (ares.Loan{Hub: "hub-2", Version: 5, GPUs: 4, Quota: 8}) {
		t.Errorf("the loan is %+v", got)
	}
	resign()
	refused(t, set("hub-2", 6), ares.Fenced, "no longer the leader")
}

func lentVersions(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	tenant := NewTenant(t, s)
	memberOf(t, s, "hub-1")
	set := func(version int64, gpus int) error {
		_, err := s.SetLoan(t.Context(), lead, tenant.ID, ares.Loan{Hub: "hub-1", Version: version, GPUs: gpus, Quota: 8})
		return err
	}
	for _, version := range []int64{5, 7} {
		if err := set(version, int(version)); err != nil {
			t.Fatal(err)
		}
	}
	wroteNothing(t, s, "the same loan again", func() error { return set(7, 7) })
	refused(t, set(6, 6), ares.Fenced, "older than the loan 7")
	if got := tenantNow(t, s, tenant.ID); got.Loan.GPUs != 7 || got.WithinLoan().Limits.GPUs != 7 || got.WithinQuota().Limits.GPUs != 8 {
		t.Errorf("the tenant is %+v with the loan %+v", got, got.Loan)
	}
	if err := s.ClearLoans(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if got := tenantNow(t, s, tenant.ID); got.Loan == nil || got.WithinLoan().Limits.GPUs != 0 {
		t.Errorf("a cleared loan is %+v", got.Loan)
	}
	if err := set(7, 7); err != nil { // the hub confirms it
		t.Fatal(err)
	}
	budget := ares.LoanBudget{Hours: 9, Secs: 500, Uncounted: 30, Month: "2030-01"}
	if _, err := s.SetLoan(t.Context(), lead, tenant.ID, ares.Loan{Hub: "hub-1", Version: 7, GPUs: 7, Quota: 8, Budget: budget}); err != nil {
		t.Fatal(err)
	}
	if got := tenantNow(t, s, tenant.ID); got.Loan.GPUs != 7 || got.Loan.Budget != budget {
		t.Errorf("a confirmed loan is %+v", got.Loan)
	}
	if err := s.ClearLoans(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if got := tenantNow(t, s, tenant.ID); got.Loan != nil || got.WithinLoan().Limits.GPUs != tenant.Limits.GPUs {
		t.Errorf("after the end of the membership the loan is %+v", got.Loan)
	}
}

func lentEdits(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	tenant := NewTenant(t, s)
	memberOf(t, s, "hub-1")
	if _, err := s.SetLoan(t.Context(), lead, tenant.ID, ares.Loan{Hub: "hub-1", Version: 3, GPUs: 2, Quota: 8}); err != nil {
		t.Fatal(err)
	}
	edited := tenantNow(t, s, tenant.ID)
	edited.Limits.CPUs = 17
	if _, err := s.UpdateTenant(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	if got := tenantNow(t, s, tenant.ID); got.Loan == nil || got.Loan.GPUs != 2 || got.Limits.CPUs != 17 {
		t.Errorf("after an edit the tenant is %+v with the loan %+v", got, got.Loan)
	}
	if _, err := s.SetLoan(t.Context(), lead, tenant.ID, ares.Loan{Hub: "hub-1", Version: 4, GPUs: 3, Quota: 8}); err != nil {
		t.Fatal(err)
	}
	if got := tenantNow(t, s, tenant.ID); got.Limits.CPUs != 17 || got.Loan.GPUs != 3 {
		t.Errorf("after a loan the tenant is %+v with the loan %+v", got, got.Loan)
	}
	_, err := s.UpdateTenant(t.Context(), edited)
	refused(t, err, ares.Conflict) // an edit that was read before the loan
}

func sharedTenant(t *testing.T, s *store.Store) {
	lead, _ := NewLead(t, s)
	memberOf(t, s, "hub-1")
	of := ares.Tenant{ID: Name("tenant"), Name: "Team", Weight: 2, PriorityTier: ares.High, MayPreempt: true, Shared: &ares.Shared{Hub: "hub-1", Version: 5}}
	share := func(hub string, version int64, weight float64) error {
		next := of
		next.Weight, next.Shared = weight, &ares.Shared{Hub: hub, Version: version}
		return s.ShareTenant(t.Context(), lead, next, Noon)
	}
	if err := share("hub-1", 5, 2); err != nil {
		t.Fatal(err)
	}
	made := tenantNow(t, s, of.ID)
	if made.Weight != 2 || made.PriorityTier != ares.High || !made.MayPreempt || made.Limits != ares.NoLimits() || made.Shared == nil || made.Shared.Version != 5 {
		t.Errorf("the created tenant is %+v", made)
	}
	wroteNothing(t, s, "the same version again", func() error { return share("hub-1", 5, 2) })
	if err := share("hub-1", 8, 3); err != nil {
		t.Fatal(err)
	}
	refused(t, share("hub-1", 7, 9), ares.Fenced, "older than the version 8")
	refused(t, share("hub-0", 9, 9), ares.Fenced, "greeted the hub hub-1 since")
	memberOf(t, s, "hub-1 restored")
	if err := share("hub-1 restored", 4, 3); err != nil { // its backup has an older record
		t.Error(err)
	}
	now := tenantNow(t, s, of.ID)
	if now.Weight != 3 || !now.CreatedAt.Equal(Noon) {
		t.Errorf("the tenant is %+v", now)
	}
	heavier := now
	heavier.Weight = 4
	refused(t, heavier.CheckShared(&now), ares.Conflict, "fair_share_weight: the hub decides")
	more := now
	more.Limits.CPUs = 5
	if err := more.CheckShared(&now); err != nil {
		t.Error(err)
	}
}
