package lifecycle

import (
	"testing"
	"time"

	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/history"
)

// TestMonthsAreClosed closes a month when it has ended for three days and all of its jobs are in history. A job that still runs is on
// the bill with its usage until the end of the month.
func TestMonthsAreClosed(t *testing.T) {
	b := newBooks(t, t.TempDir())
	b.rec.Currency = "EUR"
	_, end := b.job()
	b.job() // runs on
	end()
	b.caughtUp()
	month := b.now.UTC().Format("2006-01")
	first, err := time.Parse("2006-01", month)
	if err != nil {
		t.Fatal(err)
	}
	status := func() (closed bool, gpuTime int64) {
		t.Helper()
		bill, failed := b.rec.Accounting.Bill(t.Context(), month, "EUR", history.BillFilter{})
		if failed == nil {
			failed = b.rec.closeMonths(t.Context())
		}
		if failed != nil {
			t.Fatal(failed)
		}
		for _, l := range bill.Lines {
			gpuTime += l.GPUMilliseconds
		}
		return !bill.ClosedAt.IsZero(), gpuTime
	}
	at, err := accounting.ClosesAt(month)
	if err != nil || !at.Equal(first.AddDate(0, 1, 3)) {
		t.Errorf("the month is closed at %v, %v", at, err)
	}
	b.now = at.Add(-time.Minute)
	b.record()
	status()
	if closed, _ := status(); closed {
		t.Error("the month is closed before its time")
	}
	b.now = at.Add(25 * time.Hour)
	_, before := status()
	closed, after := status()
	if !closed || before != after || after == 0 {
		t.Errorf("closed %v, with %d ms of GPU time before and %d after", closed, before, after)
	}
	b.now = b.now.Add(240 * time.Hour)
	if _, later := status(); later != after {
		t.Errorf("a closed bill went from %d to %d ms", after, later)
	}
}
