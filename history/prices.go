package history

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Price is the price of one GPU hour. A price applies from a day until the next price for the same model and region.
type Price struct {
	Model  string // substring of the model's name, in any case; "" for every model
	Region string // "" for every region
	From   string // the first day, 2026-01-31, in UTC
	// PerGPUHour is an amount in the currency of the installation. The value 0 means free of charge.
	PerGPUHour float64
	By         string
	At         time.Time
}

// MaxPrices is the maximum number of prices, including past ones.
const MaxPrices = 1000

// maxPrice is the maximum price of one GPU hour. The limit keeps sums of prices exact to the cent.
const maxPrice = 1_000_000

// Check returns an error that lists every mistake in a submitted price.
func (p Price) Check() error {
	var bad ares.Problems
	for _, f := range []struct{ field, value string }{{"model", p.Model}, {"region", p.Region}} {
		if len(f.value) > ares.MaxNameBytes || text(f.value) != f.value {
			bad.Add(f.field, "must be text of at most %d bytes", ares.MaxNameBytes)
		}
	}
	if _, err := ParseDay(p.From); err != nil {
		bad.Add("from", "%s", err)
	}
	if !(p.PerGPUHour >= 0 && p.PerGPUHour <= maxPrice) {
		bad.Add("price_per_gpu_hour", "must be between 0 and %d, got %s", maxPrice, strconv.FormatFloat(p.PerGPUHour, 'f', -1, 64))
	}
	return bad.Err()
}

// ParseDay parses a day in UTC.
func ParseDay(s string) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return day, ares.Errorf(ares.Invalid, "%q is not a date: use the form YYYY-MM-DD, for example 2026-01-31", ares.Clip(s))
	}
	return day, nil
}

// SetPrice adds a price, or replaces the existing price of that model, region and day.
func (h *History) SetPrice(ctx context.Context, p Price) error {
	return h.inTransaction(ctx, func(w *writer) error {
		n := 0
		if err := w.query(ctx, "SELECT COUNT(*) FROM prices", nil, func(r *sql.Rows) error { return r.Scan(&n) }); err != nil {
			return err
		}
		if n >= MaxPrices {
			return ares.Errorf(ares.LimitReached, "there are %d prices, but the limit is %d: delete old prices with `ares price delete`", n, MaxPrices)
		}
		return w.exec(ctx, `INSERT INTO prices (model, region, from_day, price_per_gpu_hour, set_by, set_at) VALUES (?, ?, `+h.dialect.date+`, ?, ?, ?)
			ON CONFLICT (model, region, from_day) DO UPDATE SET price_per_gpu_hour = excluded.price_per_gpu_hour, set_by = excluded.set_by, set_at = excluded.set_at`,
			strings.ToLower(p.Model), p.Region, p.From, p.PerGPUHour, text(p.By), h.dialect.at(p.At))
	})
}

// DeletePrice deletes the price of a model, a region and a day.
func (h *History) DeletePrice(ctx context.Context, model, region, from string) error {
	return h.inTransaction(ctx, func(w *writer) error {
		n := 0
		where, args := " FROM prices WHERE model = ? AND region = ? AND from_day = "+h.dialect.date, []any{strings.ToLower(model), region, from}
		if err := w.query(ctx, "SELECT COUNT(*)"+where, args, func(r *sql.Rows) error { return r.Scan(&n) }); err != nil {
			return err
		}
		if n == 0 {
			return ares.Errorf(ares.NotFound, "model %q in region %q has no price that starts on %s: run `ares price list` to see all prices", ares.Clip(model), ares.Clip(region), from)
		}
		return w.exec(ctx, "DELETE"+where, args...)
	})
}

// Prices returns all prices, ordered by model, region and day.
func (h *History) Prices(ctx context.Context) (Prices, error) {
	var out Prices
	err := h.queryRows(ctx, "SELECT model, region, from_day, price_per_gpu_hour, set_by, set_at FROM prices ORDER BY model, region, from_day", nil, func(r *sql.Rows) error {
		var p Price
		var from, at scannedTime
		if err := r.Scan(&p.Model, &p.Region, &from, &p.PerGPUHour, &p.By, &at); err != nil {
			return err
		}
		p.From, p.At = from.day(), at.Time
		out = append(out, p)
		return nil
	})
	return out, err
}

// Prices is the list of all prices.
type Prices []Price

// A term is the price of one kind of device during one period.
type term struct {
	from  string // first day; it ends with the next term
	price float64
}

// This method returns the prices of one kind of device, ordered by time. Each price applies until the next one
// begins. If several prices match, the price with the longest matching model name is used. If several of these
// prices have equally long model names, a price for the exact region takes precedence. After that, the latest price
// takes precedence.
func (ps Prices) of(k Kind) []term {
	var fits []Price
	for _, p := range ps {
		if strings.Contains(strings.ToLower(k.Model), strings.ToLower(p.Model)) && (p.Region == "" || p.Region == k.Region) {
			fits = append(fits, p)
		}
	}
	days := make([]string, 0, len(fits))
	for _, p := range fits {
		days = append(days, p.From)
	}
	slices.Sort(days)
	days = slices.Compact(days)
	var out []term
	for _, day := range days {
		price := currentPrice(fits, day).PerGPUHour
		if n := len(out); n > 0 && out[n-1].price == price {
			continue
		}
		out = append(out, term{from: day, price: price})
	}
	return out
}

// currentPrice returns the price that applies on a day. At least one of the given prices must apply on that day.
func currentPrice(fits []Price, day string) Price {
	in := slices.DeleteFunc(slices.Clone(fits), func(p Price) bool { return p.From > day })
	return slices.MinFunc(in, func(a, b Price) int {
		return cmp.Or(cmp.Compare(len(b.Model), len(a.Model)), cmp.Compare(len(b.Region), len(a.Region)), strings.Compare(a.Model, b.Model), strings.Compare(b.From, a.From))
	})
}

// Cost returns the total cost of the given usage. It also returns the GPU time that has no price.
func (ps Prices) Cost(parts []Part) (cost float64, unpriced int64) {
	sum := NewSum(UsageQuery{}, ps, nil)
	sum.Add(&ares.Job{}, parts)
	for _, u := range sum.Rows() {
		cost, unpriced = cost+u.Cost, unpriced+u.Unpriced
	}
	return cost, unpriced
}

const msPerHour = 3_600_000.0

// Cents rounds an amount to two decimals for display.
func Cents(amount float64) float64 { return math.Round(amount*100) / 100 }
