package store_test

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// budgeted returns a tenant with a budget of GPU-hours.
func budgeted(t *testing.T, s *store.Store, hours int) ares.Tenant {
	t.Helper()
	tenant := storetest.NewTenant(t, s)
	tenant.GPUHours = hours
	tenant, err := s.UpdateTenant(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return tenant
}

// firstHours lends nothing to a cluster that has answered what it has used in the month 01.
func firstHours(t *testing.T, s *store.Store, lead *store.Leadership, tenant, cluster, incarnation string, used int64) store.Loan {
	t.Helper()
	l, err := s.Lend(t.Context(), lead, store.Loan{Tenant: tenant, Cluster: cluster, Fresh: true})
	if err == nil {
		l, err = s.LoanAnswered(t.Context(), lead, store.LoanAnswer{
			Tenant: tenant, Cluster: cluster, Incarnation: incarnation, Version: l.Revision, GPUs: ares.Unlimited, Hours: &store.HoursAnswer{Month: "01", Used: used},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestHoursAreCompared changes the budget, or another loan, between the read and the write of a verb.
func TestHoursAreCompared(t *testing.T) {
	i := newInterrupted(t)
	ctx, s := t.Context(), i.Store
	lead, _ := storetest.NewLead(t, s)
	one, two := storetest.NewCluster(t, s, "one-1"), storetest.NewCluster(t, s, "two-1")
	tenant := budgeted(t, s, 2)
	a := firstHours(t, s, lead, tenant.ID, one.Name, "one-1", 0)
	b := firstHours(t, s, lead, tenant.ID, two.Name, "two-1", 0)
	a.Hours.Secs, a.Hours.Limit, b.Hours.Secs, b.Hours.Limit = 5000, 5000, 5000, 5000
	i.between("read loans", func() {
		if _, err := s.Lend(ctx, lead, a); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := s.Lend(ctx, lead, b); ares.CodeOf(err) != ares.QuotaExceeded {
		t.Errorf("two clusters have more than the budget: %v", err)
	}
	b.Hours.Secs, b.Hours.Limit = 2200, 2200
	i.between("read loans", func() {
		tenant.GPUHours = 1
		if _, err := s.UpdateTenant(ctx, tenant); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := s.Lend(ctx, lead, b); ares.CodeOf(err) != ares.QuotaExceeded {
		t.Errorf("a cluster has a loan of a budget that was lowered meanwhile: %v", err)
	}
}

// TestRestoreOfHours checks rules F6 and F10 for GPU-hours: a restored member may use none until the hub has confirmed them, and a
// restored hub learns what each member may use and has used.
func TestRestoreOfHours(t *testing.T) {
	old := storetest.Embedded(t)
	lead, resign := storetest.NewLead(t, old)
	tenant := budgeted(t, old, 2)
	one, two := storetest.NewCluster(t, old, "one-1"), storetest.NewCluster(t, old, "two-2")
	firstHours(t, old, lead, tenant.ID, one.Name, "one-1", 300)
	b := firstHours(t, old, lead, tenant.ID, two.Name, "two-2", 500)
	b.Hours.Secs, b.Hours.Limit, b.Hours.Used = 3000, 3000, 2000
	if _, err := old.Lend(t.Context(), lead, b); err != nil {
		t.Fatal(err)
	}
	if _, err := old.UpdateMembership(t.Context(), func(m *store.Membership) error { m.Name, m.HubIncarnation = "west", "hub-1"; return nil }); err != nil {
		t.Fatal(err)
	}
	lent := limited(t, old, 20)
	if _, err := old.SetLoan(t.Context(), lead, lent.ID, ares.Loan{Hub: "hub-1", Version: 9, GPUs: 0, Quota: 12, Budget: ares.LoanBudget{Hours: 3, Secs: 700}}); err != nil {
		t.Fatal(err)
	}
	resign()
	s, _ := restored(t, store.Restoration{File: backup(t, old)})
	lead, _ = storetest.NewLead(t, s)
	got, err := s.Tenant(t.Context(), lent.ID)
	if secs, limited := got.LentSeconds("01"); err != nil || !limited || secs != 0 {
		t.Errorf("a restored member has the loan %+v, %v", got.Loan, err)
	}
	asking, err := s.Asking(t.Context())
	if err != nil || asking == nil {
		t.Fatal(asking, err)
	}
	now := map[string]store.LoanHours{}
	for range 2 { // the second time changes nothing
		for _, says := range []store.Loan{
			{Cluster: one.Name, Hours: store.LoanHours{Kept: true, Secs: 4000, Month: "01", Used: 600, Uncounted: 50, Incarnation: "one-1"}},
			{Cluster: two.Name, Hours: store.LoanHours{Kept: true, Secs: 0, Month: "01", Used: 1200, Incarnation: "two-3"}}, // it was restored too
		} {
			says.Tenant, says.GPUs, says.Limit = tenant.ID, ares.Unlimited, ares.Unlimited
			if err = s.AdoptLoan(t.Context(), lead, asking, says); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := s.TenantLoans(t.Context(), tenant.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		now[l.Cluster] = l.Hours
	}
	if want := (store.LoanHours{Kept: true, Secs: 4000, Limit: 4000, Month: "01", Used: 650, Uncounted: 50, Incarnation: "one-1"}); now[one.Name] != want {
		t.Errorf("adopted: %+v, want %+v", now[one.Name], want)
	}
	if want := (store.LoanHours{Kept: true, Month: "01", Used: 2000, Uncounted: 800, Incarnation: "two-3"}); now[two.Name] != want {
		t.Errorf("adopted: %+v, want %+v", now[two.Name], want)
	}
	if got, err := s.EndLoan(t.Context(), lead, asking, tenant.ID, two.Name, "01"); err != nil || got.Hours.Used != 2000 || got.Hours.Secs != 0 {
		t.Errorf("of a cluster that says that it has no loan is left: %+v, %v", got, err)
	}
}
