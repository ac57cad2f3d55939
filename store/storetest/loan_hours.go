package storetest

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var loanHourLaws = []law{
	{"HoursStayWithinTheBudget", hoursBudget},
	{"OnlyAnAnswerLowersHours", hoursLowered},
	{"UsedHoursStay", hoursUsed},
	{"ARestoredClusterHasUsedWhatItHadUsed", hoursOfARestoredCluster},
	{"AFormerMemberHasUsedWhatItHadUsed", hoursOfAFormerMember},
}

// The months of these laws.
const (
	month     = "2030-01"
	nextMonth = "2030-02"
)

// newHourLender returns a lender whose tenant has a budget of one GPU-hour.
func newHourLender(t *testing.T, s *store.Store) *lender {
	t.Helper()
	l := newLender(t, s, ares.Unlimited)
	l.setBudget(1)
	return l
}

func (l *lender) setBudget(hours int) {
	l.Helper()
	l.tenant.GPUHours = hours
	var err error
	if l.tenant, err = l.s.UpdateTenant(l.Context(), l.tenant); err != nil {
		l.Fatal(err)
	}
}

// firstHours returns the first loan of a new cluster, which has answered that it has used so many GPU-seconds.
func (l *lender) firstHours(used int64) store.Loan {
	l.Helper()
	return l.answerHours(l.fresh(NewCluster(l, l.s, "one-1").Name), "one-1", month, used)
}

func (l *lender) answerHours(to store.Loan, incarnation, month string, used int64) store.Loan {
	l.Helper()
	a := answerTo(to, 0)
	a.Incarnation, a.Hours = incarnation, &store.HoursAnswer{Month: month, Used: used}
	got, err := l.s.LoanAnswered(l.Context(), l.lead, a)
	if err != nil {
		l.Fatalf("answer %+v to %+v: %v", a, to, err)
	}
	return got
}

// seconds returns a loan with other GPU-seconds in a month.
func seconds(of store.Loan, in string, secs, limit int64) store.Loan {
	of.Hours = of.Hours.In(in)
	of.Hours.Secs, of.Hours.Limit = secs, limit
	return of
}

func hoursBudget(t *testing.T, s *store.Store) {
	l := newHourLender(t, s)
	a, b := l.firstHours(0), l.firstHours(0)
	a = l.lend(seconds(a, month, 2000, 2000))
	_, err := s.Lend(t.Context(), l.lead, seconds(b, month, 1601, 1601))
	refused(t, err, ares.QuotaExceeded, "budget of 3600 GPU-seconds", "may use 2000")
	b = l.lend(seconds(b, month, 1000, 1000))
	wroteNothing(t, s, "the same loan again", func() error {
		again, err := s.Lend(t.Context(), l.lead, seconds(b, month, 1000, 1000))
		if again != b {
			t.Errorf("repeated: %+v, want %+v", again, b)
		}
		return err
	})
	used := a
	used.Hours.Used = 2500 // by a job that was running when the loan was used up
	a = l.lend(used)
	_, err = s.Lend(t.Context(), l.lead, seconds(b, month, 1101, 1101))
	refused(t, err, ares.QuotaExceeded, "may use 2500")
	b = l.lend(seconds(b, month, 1100, 1100))
	_, err = s.Lend(t.Context(), l.lead, seconds(a, month, 2501, 2501))
	refused(t, err, ares.QuotaExceeded)
	l.setBudget(2)
	l.lend(seconds(a, month, 6100, 6100))
	_, err = s.Lend(t.Context(), l.lead, seconds(b, month, 1101, 1101))
	refused(t, err, ares.QuotaExceeded)

	// Before a cluster has said that it keeps to the budget, it gets nothing of it.
	plain := l.first()
	_, err = s.Lend(t.Context(), l.lead, seconds(plain, month, 1, 1))
	refused(t, err, ares.Fenced, "has not said yet")
	kept := plain
	kept.Hours.Kept = true
	_, err = s.Lend(t.Context(), l.lead, kept)
	refused(t, err, ares.Fenced, "have changed")
	none := b
	none.Hours = store.LoanHours{}
	_, err = s.Lend(t.Context(), l.lead, none)
	refused(t, err, ares.Fenced, "have changed")
	l.setBudget(0)
	_, err = s.Lend(t.Context(), l.lead, seconds(b, month, 1101, 1101))
	refused(t, err, ares.Fenced, "have changed")
	l.lend(none)
}

func hoursLowered(t *testing.T, s *store.Store) {
	l := newHourLender(t, s)
	a, b := l.firstHours(0), l.firstHours(0)
	a = l.lend(seconds(a, month, 3600, 3600))
	_, err := s.Lend(t.Context(), l.lead, seconds(a, month, 600, 600))
	refused(t, err, ares.Conflict, "only an answer")
	a = l.lend(seconds(a, month, 3600, 600))
	_, err = s.Lend(t.Context(), l.lead, seconds(b, month, 1, 1))
	refused(t, err, ares.QuotaExceeded)
	if got := l.answer(a, 0); got.Hours.Secs != 3600 { // of a cluster whose version knows no hours
		t.Errorf("an answer without hours has lowered them: %+v", got)
	}
	a = l.answerHours(a, "one-1", month, 1000)
	if a.Hours.Secs != 600 || a.Hours.Used != 1000 {
		t.Errorf("after the answer: %+v", a)
	}
	_, err = s.Lend(t.Context(), l.lead, seconds(b, month, 2601, 2601))
	refused(t, err, ares.QuotaExceeded)
	l.lend(seconds(b, month, 2600, 2600))
}

func hoursUsed(t *testing.T, s *store.Store) {
	l := newHourLender(t, s)
	a, b := l.firstHours(500), l.firstHours(0)
	if a.Hours.Secs != 0 || a.Hours.Used != 500 {
		t.Errorf("the first loan of a cluster that has used 500 is %+v", a)
	}
	_, err := s.Lend(t.Context(), l.lead, seconds(b, month, 3101, 3101))
	refused(t, err, ares.QuotaExceeded)
	less := a
	less.Hours.Used = 400
	_, err = s.Lend(t.Context(), l.lead, less)
	refused(t, err, ares.Fenced, "have changed")
	if a = l.answerHours(a, "one-1", month, 300); a.Hours.Used != 500 { // a late answer
		t.Errorf("the use became less: %+v", a)
	}
	a = l.lend(seconds(a, month, 1000, 1000))

	// In the next month, the loan is the same, and nothing is used.
	b = l.lend(seconds(b, nextMonth, 2600, 2600))
	a = l.answerHours(a, "one-1", nextMonth, 20)
	if a.Hours.Secs != 1000 || a.Hours.Used != 20 {
		t.Errorf("in the next month: %+v", a)
	}
	a = l.lend(seconds(a, nextMonth, 1000, 100))
	if got := l.answerHours(a, "one-1", month, 900); got != a { // its clock was set back
		t.Errorf("an answer of the last month counts: %+v", got)
	}
	late := a
	late.Hours.Month, late.Hours.Secs, late.Hours.Limit = month, 1001, 1001
	_, err = s.Lend(t.Context(), l.lead, late)
	refused(t, err, ares.Fenced, "have changed")
}

func hoursOfARestoredCluster(t *testing.T, s *store.Store) {
	l := newHourLender(t, s)
	a := l.lend(seconds(l.firstHours(0), month, 3600, 3600))
	next := a
	next.Hours.Used = 1000
	a = l.lend(next)
	if _, err := s.UpdateCluster(t.Context(), a.Cluster, func(c *store.Cluster) error { c.Incarnation = "one-2"; return nil }); err != nil {
		t.Fatal(err)
	}
	a = l.answerHours(a, "one-2", month, 300)
	if want := (store.LoanHours{Kept: true, Secs: 3600, Limit: 3600, Month: month, Used: 1000, Uncounted: 700, Incarnation: "one-2"}); a.Hours != want {
		t.Errorf("after the restore: %+v, want %+v", a.Hours, want)
	}
	if a = l.answerHours(a, "one-2", month, 400); a.Hours.Used != 1100 || a.Hours.Uncounted != 700 {
		t.Errorf("after more use: %+v", a.Hours)
	}
	if a = l.answerHours(a, "one-2", nextMonth, 5); a.Hours.Used != 5 || a.Hours.Uncounted != 0 {
		t.Errorf("in the next month: %+v", a.Hours)
	}
}

func hoursOfAFormerMember(t *testing.T, s *store.Store) {
	l := newHourLender(t, s)
	a, b := l.lend(seconds(l.firstHours(1000), month, 3600, 3600)), l.firstHours(0)
	if _, err := s.UpdateCluster(t.Context(), a.Cluster, func(c *store.Cluster) error { c.Decided = store.ClusterDead; return nil }); err != nil {
		t.Fatal(err)
	}
	end := func(in string) store.Loan {
		t.Helper()
		got, err := s.EndLoan(t.Context(), l.lead, nil, a.Tenant, a.Cluster, in)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	left := end(month)
	if left.Hours.Secs != 0 || left.Hours.Used != 1000 || !left.Fresh {
		t.Errorf("the rest is %+v", left)
	}
	wroteNothing(t, s, "the same end again", func() error { end(month); return nil })
	_, err := s.Lend(t.Context(), l.lead, seconds(b, month, 2601, 2601))
	refused(t, err, ares.QuotaExceeded)
	b = l.lend(seconds(b, month, 2600, 2600))
	if got := end(nextMonth); got.Revision != 0 {
		t.Errorf("in the next month, the rest is %+v", got)
	}
	l.lend(seconds(b, nextMonth, 3600, 3600))
}
