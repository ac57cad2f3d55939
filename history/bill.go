package history

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// BillLine is one line of a month's bill: the GPU time of one queue on one kind of device at one price.
type BillLine struct {
	ID            string // the same for the same month, queue, kind and price in every export
	Tenant, Queue string
	Kind
	PriceSource     string   // model, region and first day of the price; "" without a price
	PerGPUHour      *float64 // nil without a price
	Jobs            int64    // jobs that ended in the month
	GPUMilliseconds int64
}

// Cost is the price of the line's GPU time.
func (l *BillLine) Cost() float64 {
	if l.PerGPUHour == nil {
		return 0
	}
	return float64(l.GPUMilliseconds) * *l.PerGPUHour / msPerHour
}

// Bill contains the lines of a month.
type Bill struct {
	Month    string // 2026-10
	Currency string
	ClosedAt time.Time // zero while the month is open
	Lines    []BillLine
}

// BillFilter selects lines of a bill. A field that is empty does not restrict the selection.
type BillFilter struct {
	Within        []Scope // scopes that the reader may see; nil for all
	Tenant, Queue string
}

// ParseMonth parses a month such as 2026-10 and returns its first and its last day.
func ParseMonth(month string) (first, last string, err error) {
	at, err := time.Parse("2006-01", month)
	if err != nil {
		return "", "", ares.Errorf(ares.Invalid, "%q is not a month: use the form YYYY-MM, for example 2026-01", ares.Clip(month))
	}
	return at.Format(time.DateOnly), at.AddDate(0, 1, -1).Format(time.DateOnly), nil
}

// NewBill makes the lines of a month from its usage by day, tenant, queue, model and region.
func NewBill(month, store, currency string, prices Prices, days []Used) *Bill {
	lines := map[BillLine]*BillLine{}
	for _, u := range days {
		k := BillLine{Tenant: u.Tenant, Queue: u.Queue, Kind: u.Kind}
		price, priced := prices.at(u.Kind, u.Period)
		if priced {
			k.PriceSource = price.source()
		}
		l := lines[k]
		if l == nil {
			l = new(k)
			if l.ID = lineID(store, month, &k); priced {
				l.PerGPUHour = &price.PerGPUHour
			}
			lines[k] = l
		}
		l.Jobs += u.Jobs
		l.GPUMilliseconds += u.GPUMilliseconds
	}
	b := &Bill{Month: month, Currency: currency}
	for _, l := range slices.SortedFunc(maps.Values(lines), compareLines) {
		b.Lines = append(b.Lines, *l)
	}
	return b
}

func compareLines(a, b *BillLine) int {
	return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Queue, b.Queue), strings.Compare(a.Model, b.Model), strings.Compare(a.Region, b.Region),
		strings.Compare(a.PriceSource, b.PriceSource))
}

// The store is part of the ID, so that a billing system can import the bills of several clusters.
func lineID(store, month string, l *BillLine) string {
	h := sha256.Sum256([]byte(strings.Join([]string{store, month, l.Tenant, l.Queue, l.Model, l.Region, l.PriceSource}, "\x00")))
	return month + "-" + hex.EncodeToString(h[:10])
}

// The method `at` returns the price of a kind of device on a day.
func (ps Prices) at(k Kind, day string) (Price, bool) {
	fits := slices.DeleteFunc(slices.Clone(ps), func(p Price) bool {
		return p.From > day || p.Region != "" && p.Region != k.Region || !strings.Contains(strings.ToLower(k.Model), strings.ToLower(p.Model))
	})
	if len(fits) == 0 {
		return Price{}, false
	}
	return currentPrice(fits, day), true
}

// The method `source` names a price, as "ares price list" shows it. An empty model or region is written as *.
func (p Price) source() string {
	return cmp.Or(p.Model, "*") + "/" + cmp.Or(p.Region, "*") + "/" + p.From
}

// CloseMonth stores the bill of a month, unless the month is closed already.
func (h *History) CloseMonth(ctx context.Context, b *Bill, at time.Time) error {
	r := &rows{table: "billing_lines", columns: []string{"month", "line_id", "tenant", "queue", "model", "region", "price_source", "price_per_gpu_hour", "jobs", "gpu_milliseconds"}}
	for i := range b.Lines {
		l := &b.Lines[i]
		price := any(nil)
		if l.PerGPUHour != nil {
			price = *l.PerGPUHour
		}
		r.add(b.Month, l.ID, l.Tenant, l.Queue, text(l.Model), text(l.Region), text(l.PriceSource), price, l.Jobs, l.GPUMilliseconds)
	}
	return h.inTransaction(ctx, func(w *writer) error {
		closed := 0
		err := w.query(ctx, "SELECT COUNT(*) FROM billed_months WHERE month = ?", []any{b.Month}, func(r *sql.Rows) error { return r.Scan(&closed) })
		if err != nil || closed > 0 {
			return err
		}
		if err = w.exec(ctx, "INSERT INTO billed_months (month, currency, closed_at) VALUES (?, ?, ?)", b.Month, text(b.Currency), h.dialect.at(at)); err != nil {
			return err
		}
		return r.insert(ctx, w, "")
	})
}

// ClosedBill returns the selected lines of the stored bill of a month, or nil if the month is not closed.
func (h *History) ClosedBill(ctx context.Context, month string, of BillFilter) (*Bill, error) {
	var b *Bill
	err := h.queryRows(ctx, "SELECT currency, closed_at FROM billed_months WHERE month = ?", []any{month}, func(r *sql.Rows) error {
		var at scannedTime
		b = &Bill{Month: month}
		err := r.Scan(&b.Currency, &at)
		b.ClosedAt = at.Time
		return err
	})
	if err != nil || b == nil {
		return nil, err
	}
	q := query{dialect: h.dialect}
	q.equals("month", month)
	q.within("tenant", "queue", of.Within)
	q.equals("tenant", of.Tenant)
	q.equals("queue", of.Queue)
	err = h.queryRows(ctx, `SELECT line_id, tenant, queue, model, region, price_source, price_per_gpu_hour, jobs, gpu_milliseconds FROM billing_lines
		WHERE `+q.where()+" ORDER BY tenant, queue, model, region, price_source", q.args, func(r *sql.Rows) error {
		var l BillLine
		var price sql.NullFloat64
		if bad := r.Scan(&l.ID, &l.Tenant, &l.Queue, &l.Model, &l.Region, &l.PriceSource, &price, &l.Jobs, &l.GPUMilliseconds); bad != nil {
			return bad
		}
		if price.Valid {
			l.PerGPUHour = &price.Float64
		}
		b.Lines = append(b.Lines, l)
		return nil
	})
	return b, err
}

// OpenMonths returns the months before the given time that have usage and are not closed, oldest first.
func (h *History) OpenMonths(ctx context.Context, before time.Time) ([]string, error) {
	column := "to_char(day, 'YYYY-MM')"
	if h.dialect.isoTimes {
		column = "substr(day, 1, 7)"
	}
	var out []string
	err := h.queryRows(ctx, "SELECT DISTINCT "+column+" AS month FROM usage_by_tenant WHERE day < "+h.dialect.date+" AND "+column+" NOT IN (SELECT month FROM billed_months) ORDER BY month",
		[]any{before.UTC().Format("2006-01") + "-01"}, func(r *sql.Rows) error {
			var month string
			err := r.Scan(&month)
			out = append(out, month)
			return err
		})
	return out, err
}
