package accounting

import (
	"context"
	"slices"
	"time"

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

// Bill returns the bill of a month: the stored one of a closed month, or the lines as they are now.
func (l *Accounting) Bill(ctx context.Context, month, currency string) (*history.Bill, error) {
	stored, err := l.History.ClosedBill(ctx, month)
	if err != nil || stored != nil {
		return stored, err
	}
	first, last, err := history.ParseMonth(month)
	if err != nil {
		return nil, err
	}
	store, err := l.History.Owner(ctx)
	if err != nil {
		return nil, err
	}
	prices, err := l.History.Prices(ctx)
	if err != nil {
		return nil, err
	}
	by := []history.Dimension{history.ByTenant, history.ByQueue, history.ByModel, history.ByRegion}
	days, err := l.Usage(ctx, history.UsageQuery{From: first, To: last, By: by, Period: history.ByDay})
	if err != nil {
		return nil, err
	}
	return history.NewBill(month, store, currency, prices, days), nil
}

// CloseMonths stores the bills of all months that can be closed, and returns those months. A month stays open as long as a job that
// ended in it is not in history.
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
		bill, err := l.Bill(ctx, month, currency)
		if err == nil {
			err = l.History.CloseMonth(ctx, bill, now)
		}
		if err != nil {
			return closed, err
		}
		closed = append(closed, month)
	}
	return closed, nil
}
