package storetest

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var loanLaws = []law{
	{"LoansStayWithinTheQuota", loanQuota},
	{"OnlyAnAnswerLowersALoan", loanLowered},
	{"AnAnswerIsToTheLastRequest", loanAnswers},
	{"OnlyTheLeaderLends", loanLeader},
	{"OnlyMembersHaveLoans", loanMembers},
}

// lender is the hub's leader with a tenant and its loans.
type lender struct {
	*testing.T

	s      *store.Store
	lead   *store.Leadership
	resign func()
	tenant ares.Tenant
}

func newLender(t *testing.T, s *store.Store, quota int) *lender {
	t.Helper()
	lead, resign := NewLead(t, s)
	tenant := NewTenant(t, s)
	tenant.Limits.GPUs = quota
	tenant, err := s.UpdateTenant(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return &lender{t, s, lead, resign, tenant}
}

// The method `first` returns the first loan of a new cluster, which has answered that it uses nothing.
func (l *lender) first() store.Loan {
	l.Helper()
	return l.answer(l.fresh(NewCluster(l, l.s, "one-1").Name), 0)
}

func (l *lender) fresh(cluster string) store.Loan {
	l.Helper()
	return l.lend(store.Loan{Tenant: l.tenant.ID, Cluster: cluster, Fresh: true})
}

func (l *lender) lend(next store.Loan) store.Loan {
	l.Helper()
	got, err := l.s.Lend(l.Context(), l.lead, next)
	if err != nil {
		l.Fatalf("lend %+v: %v", next, err)
	}
	return got
}

func (l *lender) answer(to store.Loan, gpus int) store.Loan {
	l.Helper()
	got, err := l.s.LoanAnswered(l.Context(), l.lead, answerTo(to, gpus))
	if err != nil {
		l.Fatalf("answer %d to %+v: %v", gpus, to, err)
	}
	return got
}

func answerTo(to store.Loan, gpus int) store.LoanAnswer {
	return store.LoanAnswer{Tenant: to.Tenant, Cluster: to.Cluster, Incarnation: "one-1", Version: to.Revision, GPUs: gpus}
}

// The function `told` returns a loan with other amounts.
func told(l store.Loan, gpus, limit int) store.Loan {
	l.GPUs, l.Limit = gpus, limit
	return l
}

func loanQuota(t *testing.T, s *store.Store) {
	l := newLender(t, s, 8)
	a, b := l.first(), l.first()
	a = l.lend(told(a, 5, 5))
	_, err := s.Lend(t.Context(), l.lead, told(b, 4, 4))
	refused(t, err, ares.QuotaExceeded, "limit of 8 devices", "may use 5")
	b = l.lend(told(b, 3, 3))
	wroteNothing(t, s, "the same loan again", func() error {
		again, err := s.Lend(t.Context(), l.lead, told(b, 3, 3))
		if again != b {
			t.Errorf("repeated: %+v, want %+v", again, b)
		}
		return err
	})
	all, err := s.TenantLoans(t.Context(), l.tenant.ID)
	if err != nil || len(all) != 2 || all[0].GPUs+all[1].GPUs != 8 {
		t.Errorf("the loans are %+v, %v", all, err)
	}
	l.tenant.Limits.GPUs = 9
	if l.tenant, err = s.UpdateTenant(t.Context(), l.tenant); err != nil {
		t.Fatal(err)
	}
	l.lend(told(a, 6, 6))
	_, err = s.Lend(t.Context(), l.lead, told(b, 4, 4))
	refused(t, err, ares.QuotaExceeded)
	l.tenant.Limits.GPUs = ares.Unlimited
	if _, err = s.UpdateTenant(t.Context(), l.tenant); err != nil {
		t.Fatal(err)
	}
	l.lend(told(b, ares.Unlimited, ares.Unlimited))
}

func loanLowered(t *testing.T, s *store.Store) {
	l := newLender(t, s, 8)
	a, b := l.first(), l.first()
	a = l.lend(told(a, 8, 8))
	_, err := s.Lend(t.Context(), l.lead, told(a, 2, 2))
	refused(t, err, ares.Conflict, "only an answer")
	a = l.lend(told(a, 8, 2)) // it is asked to use 2 at most
	_, err = s.Lend(t.Context(), l.lead, told(b, 1, 1))
	refused(t, err, ares.QuotaExceeded)
	a = l.answer(a, 5)
	if a.GPUs != 5 || a.Limit != 2 {
		t.Errorf("after the answer: %+v", a)
	}
	_, err = s.Lend(t.Context(), l.lead, told(b, 4, 4))
	refused(t, err, ares.QuotaExceeded)
	l.lend(told(b, 3, 3))
	if a = l.answer(a, 1); a.GPUs != 2 {
		t.Errorf("a cluster that uses less than its limit may still use its limit: %+v", a)
	}
}

func loanAnswers(t *testing.T, s *store.Store) {
	l := newLender(t, s, 8)
	c := NewCluster(t, s, "one-1")
	first := l.fresh(c.Name)
	_, err := s.Lend(t.Context(), l.lead, store.Loan{Tenant: first.Tenant, Cluster: c.Name, GPUs: 4, Limit: 4, Revision: first.Revision})
	refused(t, err, ares.Fenced, "has not said yet")
	a := l.answer(first, 0)
	a = l.lend(told(a, 6, 6))
	asked := l.lend(told(a, 6, 1))
	again := l.lend(told(asked, 6, 4)) // it may have more after all
	_, err = s.LoanAnswered(t.Context(), l.lead, answerTo(asked, 1))
	refused(t, err, ares.Fenced, "not to the last loan")
	_, err = s.Lend(t.Context(), l.lead, told(asked, 7, 7))
	refused(t, err, ares.Fenced, "has changed")
	other := answerTo(again, 4)
	other.Incarnation = "one-2"
	_, err = s.LoanAnswered(t.Context(), l.lead, other)
	refused(t, err, ares.Fenced, "has not confirmed")
	if _, err = s.UpdateCluster(t.Context(), c.Name, func(c *store.Cluster) error { c.Reconciling = true; return nil }); err != nil {
		t.Fatal(err)
	}
	_, err = s.LoanAnswered(t.Context(), l.lead, answerTo(again, 4))
	refused(t, err, ares.Fenced, "has not confirmed")
	if _, err = s.UpdateCluster(t.Context(), c.Name, func(c *store.Cluster) error { c.Reconciling = false; return nil }); err != nil {
		t.Fatal(err)
	}
	last := l.answer(again, 4)
	wroteNothing(t, s, "an answer that changes nothing", func() error {
		_, err := s.LoanAnswered(t.Context(), l.lead, answerTo(last, 4))
		return err
	})
}

func loanLeader(t *testing.T, s *store.Store) {
	l := newLender(t, s, 8)
	a := l.lend(told(l.first(), 4, 4))
	late := l.lead
	l.resign()
	l.lead, _ = NewLead(t, s)
	_, err := s.Lend(t.Context(), late, told(a, 5, 5))
	refused(t, err, ares.Fenced, "no longer the leader")
	a = l.lend(told(a, 4, 0))
	_, err = s.LoanAnswered(t.Context(), late, answerTo(a, 0))
	refused(t, err, ares.Fenced, "no longer the leader")
}

func loanMembers(t *testing.T, s *store.Store) {
	l := newLender(t, s, 8)
	a := l.lend(told(l.first(), 8, 8))
	b := l.first()
	end := func(of store.Loan) error {
		_, err := s.EndLoan(t.Context(), l.lead, nil, of.Tenant, of.Cluster, month)
		return err
	}
	refused(t, end(a), ares.Conflict, "only its answer")
	if _, err := s.UpdateCluster(t.Context(), a.Cluster, func(c *store.Cluster) error { c.Decided = store.ClusterDead; return nil }); err != nil {
		t.Fatal(err)
	}
	_, err := s.Lend(t.Context(), l.lead, told(a, 8, 3))
	refused(t, err, ares.Fenced, "not a member")
	if err = end(a); err != nil {
		t.Fatal(err)
	}
	wroteNothing(t, s, "the same end again", func() error { return end(a) })
	b = l.lend(told(b, 8, 8))
	if _, err = s.UpdateCluster(t.Context(), b.Cluster, func(c *store.Cluster) error { c.LocalTenants = []string{b.Tenant}; return nil }); err != nil {
		t.Fatal(err)
	}
	if err = end(b); err != nil {
		t.Fatal(err)
	}
	if all, err := s.TenantLoans(t.Context(), b.Tenant); err != nil || len(all) > 0 {
		t.Errorf("loans are left: %+v, %v", all, err)
	}
}
