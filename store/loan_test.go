package store_test

import (
	"math/rand/v2"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// limited returns a tenant with a GPU limit.
func limited(t *testing.T, s *store.Store, gpus int) ares.Tenant {
	t.Helper()
	tenant := storetest.NewTenant(t, s)
	tenant.Limits.GPUs = gpus
	tenant, err := s.UpdateTenant(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return tenant
}

// firstLoan lends nothing to a cluster that has answered that it uses nothing.
func firstLoan(t *testing.T, s *store.Store, lead *store.Leadership, tenant, cluster, incarnation string) store.Loan {
	t.Helper()
	l, err := s.Lend(t.Context(), lead, store.Loan{Tenant: tenant, Cluster: cluster, Fresh: true})
	if err == nil {
		l, err = s.LoanAnswered(t.Context(), lead, store.LoanAnswer{Tenant: tenant, Cluster: cluster, Incarnation: incarnation, Version: l.Revision})
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLoansAreCompared changes a record between the read and the write of a verb. The verb must then decide again.
func TestLoansAreCompared(t *testing.T) {
	i := newInterrupted(t)
	ctx, s := t.Context(), i.Store
	lead, _ := storetest.NewLead(t, s)
	one, two := storetest.NewCluster(t, s, "one-1"), storetest.NewCluster(t, s, "two-1")
	tenant := limited(t, s, 8)
	a, b := firstLoan(t, s, lead, tenant.ID, one.Name, "one-1"), firstLoan(t, s, lead, tenant.ID, two.Name, "two-1")
	a.GPUs, a.Limit, b.GPUs, b.Limit = 5, 5, 5, 5
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	i.between("read loans", func() { _, err := s.Lend(ctx, lead, a); must(err) })
	if _, err := s.Lend(ctx, lead, b); ares.CodeOf(err) != ares.QuotaExceeded {
		t.Errorf("two clusters have more than the quota: %v", err)
	}
	b.GPUs, b.Limit = 3, 3
	i.between("read loans", func() {
		var err error
		tenant.Limits.GPUs = 7
		tenant, err = s.UpdateTenant(ctx, tenant)
		must(err)
	})
	if _, err := s.Lend(ctx, lead, b); ares.CodeOf(err) != ares.QuotaExceeded {
		t.Errorf("a cluster has a loan of a quota that was lowered meanwhile: %v", err)
	}
	b.GPUs, b.Limit = 2, 2
	i.between("read loans", func() {
		_, err := s.UpdateCluster(ctx, two.Name, func(c *store.Cluster) error { c.Decided = store.ClusterDead; return nil })
		must(err)
	})
	if _, err := s.Lend(ctx, lead, b); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("a cluster that was declared dead meanwhile has a loan: %v", err)
	}
	i.between("read loans", func() {
		_, err := s.UpdateCluster(ctx, two.Name, func(c *store.Cluster) error { c.Decided = store.ClusterReady; return nil })
		must(err)
	})
	if _, err := s.EndLoan(ctx, lead, nil, tenant.ID, two.Name, "2030-01"); ares.CodeOf(err) != ares.Conflict {
		t.Errorf("the loan of a cluster that has joined again meanwhile was deleted: %v", err)
	}
}

// TestRestoreOfLoans checks rules F6 and F10: a restored member has no loan, a restored hub lends nothing until its members have
// said what they may use, and a copy has nothing of both.
func TestRestoreOfLoans(t *testing.T) {
	old := storetest.Embedded(t)
	lead, resign := storetest.NewLead(t, old)
	tenant := limited(t, old, 8)
	one := storetest.NewCluster(t, old, "one-1")
	a := firstLoan(t, old, lead, tenant.ID, one.Name, "one-1")
	a.GPUs, a.Limit = 5, 5
	a, err := old.Lend(t.Context(), lead, a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = old.UpdateMembership(t.Context(), func(m *store.Membership) error { m.Name, m.HubIncarnation = "west", "hub-1"; return nil }); err != nil {
		t.Fatal(err)
	}
	lent := limited(t, old, 20)
	if _, err = old.SetLoan(t.Context(), lead, lent.ID, ares.Loan{Hub: "hub-1", Version: 9, GPUs: 6, Quota: 12}); err != nil {
		t.Fatal(err)
	}
	resign()
	file := backup(t, old)

	s, done := restored(t, store.Restoration{File: file})
	if !done.Asks {
		t.Fatalf("it did %+v", done)
	}
	lead, _ = storetest.NewLead(t, s)
	if got, err := s.Tenant(t.Context(), lent.ID); err != nil || got.Loan == nil || got.Loan.GPUs != 0 || got.Limits.GPUs != 20 {
		t.Errorf("a restored member has the tenant %+v with the loan %+v, %v", got, got.Loan, err)
	}
	next := a
	next.GPUs, next.Limit = 6, 6
	if _, err := s.Lend(t.Context(), lead, next); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("a hub that asks its clusters has lent: %v", err)
	}
	asking, err := s.Asking(t.Context())
	if err != nil || asking == nil {
		t.Fatal(asking, err)
	}
	now := func() store.Loan {
		t.Helper()
		all, err := s.TenantLoans(t.Context(), tenant.ID)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return all[0]
	}
	for range 2 {
		if err = s.AdoptLoan(t.Context(), lead, asking, store.Loan{Tenant: tenant.ID, Cluster: one.Name, GPUs: 5, Limit: 5}); err != nil {
			t.Fatal(err)
		}
	}
	adopted := now()
	if adopted.GPUs != 5 || adopted.Revision <= a.Revision {
		t.Errorf("the adopted loan is %+v after %+v", adopted, a)
	}
	if err = s.EndAsking(t.Context(), lead, asking); err != nil {
		t.Fatal(err)
	}
	if err = s.AdoptLoan(t.Context(), lead, asking, store.Loan{Tenant: tenant.ID, Cluster: one.Name, GPUs: 9}); err == nil {
		t.Error("a loan was adopted after the end of the questions")
	}

	copied, _ := restored(t, store.Restoration{File: file, AsCopy: true})
	if left := storetest.Records(t, copied, "loans/"); len(left) > 0 {
		t.Errorf("the copy has lent %v", left)
	}
	if got, err := copied.Tenant(t.Context(), lent.ID); err != nil || got.Loan != nil {
		t.Errorf("the copy has the loan %+v, %v", got.Loan, err)
	}
}

// lentTo is a member in TestLoanHistories: what it has stored, and what its jobs use.
type lentTo struct {
	cluster     store.Cluster
	incarnation int
	loan        ares.Loan
	use         int
	told        []toldTo // messages under way
	answers     []store.LoanAnswer
}

// toldTo is a loan that the hub has told an incarnation of a member.
type toldTo struct {
	loan        store.Loan
	incarnation int
}

// TestLoanHistories applies the steps of the model test/model/federation/loans.pml in random order to the real store of a hub:
// messages arrive late or twice, or are lost, members are restored, and leaders change. The loans and the use must never exceed
// the quota (O8).
func TestLoanHistories(t *testing.T) {
	const quota = 4
	s := storetest.Embedded(t)
	random := rand.New(rand.NewPCG(10, 8))
	for range 15 {
		h := &loanHistory{T: t, s: s, random: random, quota: quota, tenant: limited(t, s, quota).ID}
		h.lead, h.resign = storetest.NewLead(t, s)
		for range 2 {
			c := storetest.NewCluster(t, s, "1")
			firstLoan(t, s, h.lead, h.tenant, c.Name, "1")
			h.members = append(h.members, &lentTo{cluster: c, incarnation: 1})
		}
		for range 120 {
			h.step(h.members[random.IntN(len(h.members))])
		}
		h.resign()
	}
}

type loanHistory struct {
	*testing.T

	s       *store.Store
	random  *rand.Rand
	quota   int
	tenant  string
	lead    *store.Leadership
	resign  func()
	members []*lentTo
}

func (h *loanHistory) record(m *lentTo) (out store.Loan) {
	h.Helper()
	all, err := h.s.TenantLoans(h.Context(), h.tenant)
	if err != nil {
		h.Fatal(err)
	}
	sum := 0
	for _, l := range all {
		if sum += l.GPUs; l.Cluster == m.cluster.Name {
			out = l
		}
	}
	if sum > h.quota {
		h.Fatalf("%d are lent: %+v", sum, all)
	}
	return out
}

func (h *loanHistory) step(m *lentTo) {
	h.Helper()
	r := h.record(m)
	switch h.random.IntN(8) {
	case 0: // raise
		next := r
		next.GPUs, next.Limit = r.GPUs+1, r.GPUs+1
		if got, err := h.s.Lend(h.Context(), h.lead, next); err == nil {
			m.told = append(m.told, toldTo{got, m.incarnation})
		} else if ares.CodeOf(err) != ares.QuotaExceeded {
			h.Fatal(err)
		}
	case 1: // ask for less
		next := r
		next.Limit = h.random.IntN(r.GPUs + 1)
		got, err := h.s.Lend(h.Context(), h.lead, next)
		if err != nil {
			h.Fatal(err)
		}
		m.told = append(m.told, toldTo{got, m.incarnation})
	case 2, 3: // a message arrives, and stays under way now and then
		if len(m.told) > 0 {
			i := h.random.IntN(len(m.told))
			m.take(h.tenant, m.told[i])
			if h.random.IntN(3) > 0 {
				m.told = append(m.told[:i], m.told[i+1:]...)
			}
		}
	case 4: // so does an answer
		if len(m.answers) > 0 {
			i := h.random.IntN(len(m.answers))
			if _, err := h.s.LoanAnswered(h.Context(), h.lead, m.answers[i]); err != nil && ares.CodeOf(err) != ares.Fenced {
				h.Fatal(err)
			}
			if h.random.IntN(3) > 0 {
				m.answers = append(m.answers[:i], m.answers[i+1:]...)
			}
		}
	case 5, 6: // the engine
		if m.use < m.loan.GPUs && h.random.IntN(2) == 0 {
			m.use++
		} else if m.use > 0 {
			m.use--
		}
	case 7:
		h.fail(m, r)
	}
	sum := 0
	for _, o := range h.members {
		sum += o.use
	}
	if sum > h.quota {
		h.Fatalf("%d are in use", sum)
	}
}

// The method `fail` restores a member, which the hub then confirms, or makes another server the leader.
func (h *loanHistory) fail(m *lentTo, r store.Loan) {
	h.Helper()
	if h.random.IntN(2) == 0 {
		h.resign()
		h.lead, h.resign = storetest.NewLead(h.T, h.s)
		return
	}
	m.incarnation++
	m.use, m.loan.GPUs = 0, 0
	c, err := h.s.UpdateCluster(h.Context(), m.cluster.Name, func(c *store.Cluster) error { c.Incarnation = name(m.incarnation); return nil })
	if err != nil {
		h.Fatal(err)
	}
	m.cluster = c
	m.told = append(m.told, toldTo{r, m.incarnation})
}

func name(incarnation int) string { return string(rune('0' + incarnation)) }

// The method `take` does what a member does with a loan.
func (m *lentTo) take(tenant string, told toldTo) {
	if told.incarnation != m.incarnation || told.loan.Revision < m.loan.Version {
		return
	}
	m.loan.Version, m.loan.GPUs = told.loan.Revision, told.loan.Limit
	if told.loan.Limit < told.loan.GPUs {
		m.answers = append(m.answers, store.LoanAnswer{
			Tenant: tenant, Cluster: m.cluster.Name, Incarnation: name(m.incarnation), Version: told.loan.Revision, GPUs: max(m.use, m.loan.GPUs),
		})
	}
}
