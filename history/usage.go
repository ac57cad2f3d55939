package history

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Dimension is something that use is counted by.
type Dimension string

// The dimensions.
const (
	ByTenant Dimension = "tenant"
	ByQueue  Dimension = "queue"
	ByUser   Dimension = "user"
	ByModel  Dimension = "model"
	ByRegion Dimension = "region"
)

// Dimensions lists them, in the order in which they are shown.
func Dimensions() []Dimension { return []Dimension{ByTenant, ByQueue, ByUser, ByModel, ByRegion} }

// Period is what time is cut into.
type Period string

// The periods.
const (
	Whole   Period = "" // not at all
	ByDay   Period = "day"
	ByMonth Period = "month"
)

// UsageQuery asks what was used.
type UsageQuery struct {
	// Tenant, Queue, User and Model select; "" selects all. Model is part of the
	// model's name in any case.
	Tenant, Queue, User, Model string
	// From and To are days, in UTC, both included; "" for no bound.
	From, To string
	By       []Dimension
	Period   Period
}

// Check reports every mistake of a query as received.
func (q *UsageQuery) Check() error {
	var bad ares.Problems
	for _, f := range []struct{ field, day string }{{"from", q.From}, {"to", q.To}} {
		if f.day != "" {
			if _, err := ParseDay(f.day); err != nil {
				bad.Add(f.field, "%s", err)
			}
		}
	}
	for _, d := range q.By {
		if !slices.Contains(Dimensions(), d) {
			bad.Add("by", "%q is unknown: use tenant, queue, user, model or region", clip(string(d)))
		}
	}
	if q.Period != Whole && q.Period != ByDay && q.Period != ByMonth {
		bad.Add("period", "%q is unknown: use day or month, or leave it out", clip(string(q.Period)))
	}
	return bad.Err()
}

// Holder is who or what used something. Fields that were not asked for are "".
type Holder struct {
	Period string // 2026-01-31 or 2026-01
	Tenant string
	Queue  string
	User   string
	Kind
}

// Used is a row of an answer.
type Used struct {
	Holder
	GPUMilliseconds int64
	Jobs            int64   // that ended
	Cost            float64 // of what has a price
	Unpriced        int64   // GPUMilliseconds that have none
}

// GPUHours is the time in hours.
func (u *Used) GPUHours() float64 { return float64(u.GPUMilliseconds) / msPerHour }

// Usage sums up what jobs that are in history have used.
func (h *History) Usage(ctx context.Context, q UsageQuery) ([]Used, error) {
	prices, err := h.Prices(ctx)
	if err != nil {
		return nil, err
	}
	priced, args, err := h.priced(ctx, prices)
	if err != nil {
		return nil, err
	}
	c := query{dialect: h.dialect}
	c.usage(&q)
	table := "usage_daily"
	if q.Queue == "" && q.User == "" && !slices.Contains(q.By, ByQueue) && !slices.Contains(q.By, ByUser) {
		table = "usage_by_tenant" // many times smaller
	}
	columns := columnsOf(&q, h.dialect)
	text := priced + "SELECT " + strings.Join(columns, ", ") + `, SUM(u.gpu_milliseconds), SUM(u.jobs),
		SUM(u.gpu_milliseconds * p.price) / 3600000.0, SUM(CASE WHEN p.price IS NULL THEN u.gpu_milliseconds ELSE 0 END)
		FROM ` + table + ` u LEFT JOIN priced p ON p.model = u.model AND p.region = u.region AND p.from_day <= u.day AND p.until_day > u.day`
	if len(c.terms) > 0 {
		text += " WHERE " + c.where()
	}
	if by := groupings(columns); len(by) > 0 {
		text += " GROUP BY " + strings.Join(by, ", ")
	}
	var out []Used
	err = h.reading(ctx, text, append(args, c.args...), func(r *sql.Rows) error {
		u, ok, err := scanUsed(r, &q)
		if ok {
			out = append(out, u)
		}
		return err
	})
	return out, err
}

func scanUsed(r *sql.Rows, q *UsageQuery) (u Used, ok bool, err error) {
	var ms, jobs, unpriced sql.NullInt64
	var cost sql.NullFloat64
	var period sql.NullString
	var day stamp
	to := []any{&u.Tenant, &u.Queue, &u.User, &u.Model, &u.Region, &ms, &jobs, &cost, &unpriced}
	if q.Period == ByDay {
		to = append([]any{&day}, to...)
	} else {
		to = append([]any{&period}, to...)
	}
	if err = r.Scan(to...); err != nil {
		return u, false, err
	}
	u.GPUMilliseconds, u.Jobs, u.Cost, u.Unpriced, u.Period = ms.Int64, jobs.Int64, cost.Float64, unpriced.Int64, period.String
	if q.Period == ByDay {
		u.Period = day.day()
	}
	return u, u.GPUMilliseconds != 0 || u.Jobs != 0, nil // a sum may have come back to nothing
}

// usage is the condition of a query of sums.
func (c *query) usage(q *UsageQuery) {
	c.equals("u.tenant", q.Tenant)
	c.equals("u.queue", q.Queue)
	c.equals("u.submitted_by", q.User)
	if q.Model != "" {
		c.and("lower(u.model) LIKE ? ESCAPE '!'", "%"+strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(strings.ToLower(q.Model))+"%")
	}
	if q.From != "" {
		c.and("u.day >= "+c.dialect.date, q.From)
	}
	if q.To != "" {
		c.and("u.day <= "+c.dialect.date, q.To)
	}
}

// columnsOf lists what a row of the answer is about; what was not asked for is
// a constant.
func columnsOf(q *UsageQuery, d dialect) []string {
	out := []string{"''", "''", "''", "''", "''", "''"}
	switch {
	case q.Period == ByDay:
		out[0] = "u.day"
	case q.Period == ByMonth && d.isoTimes:
		out[0] = "substr(u.day, 1, 7)"
	case q.Period == ByMonth:
		out[0] = "to_char(u.day, 'YYYY-MM')"
	}
	for i, column := range []string{"u.tenant", "u.queue", "u.submitted_by", "u.model", "u.region"} {
		if slices.Contains(q.By, Dimensions()[i]) {
			out[i+1] = column
		}
	}
	return out
}

// groupings are the columns to group by, the tenant first: so the table is in
// order already.
func groupings(columns []string) []string {
	out := slices.DeleteFunc([]string{columns[1], columns[0], columns[2], columns[3], columns[4], columns[5]}, func(c string) bool { return c == "''" })
	return out
}

// maxTerms bounds the prices in one question: SQLite takes 32,766 parameters.
const maxTerms = 6000

// endless is a day after every other.
const endless = "9999-12-31"

// priced is a table of what each kind of device costs when.
func (h *History) priced(ctx context.Context, prices Prices) (text string, args []any, err error) {
	var kinds []Kind
	err = h.reading(ctx, "SELECT model, region FROM kinds", nil, func(r *sql.Rows) error {
		var k Kind
		err := r.Scan(&k.Model, &k.Region)
		kinds = append(kinds, k)
		return err
	})
	if err != nil {
		return "", nil, err
	}
	row := "(?, ?, " + h.dialect.date + ", " + h.dialect.date + ", " + h.dialect.double + ")"
	var values []string
	for _, k := range kinds {
		for _, t := range prices.of(k) {
			until := t.until
			if until == "" {
				until = endless
			}
			values = append(values, row)
			args = append(args, k.Model, k.Region, t.from, until, t.price)
		}
	}
	if len(values) > maxTerms {
		return "", nil, ares.Errorf(ares.Exhausted, "there are too many prices for so many kinds of devices (%d, at most %d): delete old ones", len(values), maxTerms)
	}
	if len(values) == 0 { // nothing has a price; a table has at least one row
		values, args = []string{row}, []any{"", "", endless, endless, 0.0}
	}
	return "WITH priced (model, region, from_day, until_day, price) AS (VALUES " + strings.Join(values, ", ") + ") ", args, nil
}
