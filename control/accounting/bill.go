package accounting

import (
	"context"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/history"
)

// closeAfter is how long after its end a month is closed. Until then, corrections of prices and jobs that ended late count.
const closeAfter = 3 * 24 * time.Hour

// ClosesAt returns the time at which a month is closed, at the earliest.
func ClosesAt(month string) (time.Time, error) {
	first, _, err := history.ParseMonth(month)
	if err != nil {
		return time.Time{}, err
	}
	at, err := history.ParseDay(first)
	return at.AddDate(0, 1, 0).Add(closeAfter), err
}

// Bill returns the selected lines of a month's bill: the stored lines of a closed month, or the lines as they are now.
func (l *Accounting) Bill(ctx context.Context, month, currency string, of history.BillFilter) (*history.Bill, error) {
	first, _, err := history.ParseMonth(month)
	if err != nil {
		return nil, err
	}
	if today := l.Now().UTC().Format(time.DateOnly); first > today {
		return nil, ares.Errorf(ares.Invalid, "the month %s has not begun, so it has no costs yet: choose %s or an earlier month", month, today[:len("2006-01")]).At("from")
	}
	stored, err := l.History.ClosedBill(ctx, month, of)
	if err != nil || stored != nil {
		return stored, err
	}
	bill, _, err := l.openBill(ctx, month, currency, of)
	return bill, err
}

// openBill computes the selected lines of a month's bill from the usage until now. The result `consistent` is false if a job may be
// missing from the bill or counted twice.
func (l *Accounting) openBill(ctx context.Context, month, currency string, of history.BillFilter) (b *history.Bill, consistent bool, err error) {
	first, last, err := history.ParseMonth(month)
	if err != nil {
		return nil, false, err
	}
	store, err := l.History.Owner(ctx)
	if err != nil {
		return nil, false, err
	}
	prices, err := l.History.Prices(ctx)
	if err != nil {
		return nil, false, err
	}
	by := []history.Dimension{history.ByTenant, history.ByQueue, history.ByModel, history.ByRegion}
	days, consistent, err := l.usage(ctx, history.UsageQuery{Tenant: of.Tenant, Queue: of.Queue, Within: of.Within, From: first, To: last, By: by, Period: history.ByDay})
	if err != nil {
		return nil, false, err
	}
	return history.NewBill(month, store, currency, prices, days), consistent, nil
}

// CloseMonths stores the bills of all months that can be closed, and returns those months. A month stays open as long as a job that
// ended in it is not in history, or if jobs moved to history while its bill was computed. The next call tries again.
func (l *Accounting) CloseMonths(ctx context.Context, currency string) (closed []string, err error) {
	now := l.Now()
	open, err := l.History.OpenMonths(ctx, now.Add(-closeAfter))
	if err != nil {
		return nil, err
	}
	for _, month := range open {
		_, last, err := history.ParseMonth(month)
		if err != nil {
			return closed, err
		}
		if slices.ContainsFunc(l.Backlog(), func(e *cache.Entry) bool { return e.Run.FinishedAt.UTC().Format(time.DateOnly) <= last }) {
			return closed, nil
		}
		bill, consistent, err := l.openBill(ctx, month, currency, history.BillFilter{})
		if err != nil || !consistent {
			return closed, err
		}
		if err = l.History.CloseMonth(ctx, bill, now); err != nil {
			return closed, err
		}
		closed = append(closed, month)
	}
	return closed, nil
}
