package accounting

import (
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/history/historytest"
)

// TestAMonthIsNotClosedWithAnInconsistentSum moves a job to history during each computation of a sum. A job may be missing from such a
// sum or counted twice, so the month must stay open.
func TestAMonthIsNotClosedWithAnInconsistentSum(t *testing.T) {
	h := historytest.SQLite(t).Open(t)
	moving := true
	var l *Accounting
	l = NewAccounting(cache.NewView(nil), h, func() time.Time {
		if moving {
			l.mu.Lock()
			l.moved++
			l.mu.Unlock()
		}
		return historytest.Noon.AddDate(0, 2, 0)
	})
	if _, err := h.Put(t.Context(), []history.Finished{historytest.Made{ID: "a"}.Finished()}); err != nil {
		t.Fatal(err)
	}
	if closed, err := l.CloseMonths(t.Context(), "EUR"); err != nil || len(closed) != 0 {
		t.Errorf("while jobs move to history, closed %v, %v", closed, err)
	}
	moving = false
	if closed, err := l.CloseMonths(t.Context(), "EUR"); err != nil || len(closed) != 1 {
		t.Errorf("the next time, closed %v, %v", closed, err)
	}
}

// TestNoBillOfAFutureMonth checks that the bill of a month that has not begun is an error, and not an empty bill.
func TestNoBillOfAFutureMonth(t *testing.T) {
	l := NewAccounting(cache.NewView(nil), historytest.SQLite(t).Open(t), func() time.Time { return time.Date(2030, 1, 31, 23, 59, 0, 0, time.UTC) })
	if _, err := l.Bill(t.Context(), "2030-01", "EUR", history.BillFilter{}); err != nil {
		t.Error(err)
	}
	_, err := l.Bill(t.Context(), "2030-02", "EUR", history.BillFilter{})
	if ares.CodeOf(err) != ares.Invalid || !strings.Contains(err.Error(), "the month 2030-02 has not begun, so it has no costs yet: choose 2030-01 or an earlier month") {
		t.Errorf("got %v", err)
	}
}

// TestABillHasOnlyTheSelectedLines reads the bill of a month with a filter, before and after the month is closed. The other lines are
// left out by the database, and the selected lines are the same as in the whole bill.
func TestABillHasOnlyTheSelectedLines(t *testing.T) {
	h := historytest.SQLite(t).Open(t)
	l := NewAccounting(cache.NewView(nil), h, func() time.Time { return historytest.Noon.AddDate(0, 2, 0) })
	for i, tenant := range []string{"a", "b", "c"} {
		if _, err := h.Put(t.Context(), []history.Finished{historytest.Made{ID: tenant, Tenant: tenant, Revision: int64(i + 1)}.Finished()}); err != nil {
			t.Fatal(err)
		}
	}
	bill := func(of history.BillFilter) []history.BillLine {
		t.Helper()
		b, err := l.Bill(t.Context(), "2030-01", "EUR", of)
		if err != nil {
			t.Fatal(err)
		}
		return b.Lines
	}
	for range 2 {
		whole := bill(history.BillFilter{})
		if len(whole) != 3 {
			t.Fatalf("the whole bill is %+v", whole)
		}
		for _, of := range []history.BillFilter{{Tenant: "b"}, {Within: []history.Scope{{Tenant: "b"}}}, {Within: []history.Scope{{Tenant: "b", Queue: "default"}}, Queue: "default"}} {
			if got := bill(of); !slices.Equal(got, whole[1:2]) {
				t.Errorf("%+v selects %+v, want %+v", of, got, whole[1:2])
			}
		}
		if got := bill(history.BillFilter{Within: []history.Scope{{Tenant: "a"}}, Tenant: "b"}); len(got) != 0 {
			t.Errorf("the reader sees %+v of another tenant", got)
		}
		if _, err := l.CloseMonths(t.Context(), "EUR"); err != nil {
			t.Fatal(err)
		}
	}
}
