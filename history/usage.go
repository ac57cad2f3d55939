package history

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Dimension is a property by which usage is grouped.
type Dimension string

// The dimensions.
const (
	ByTenant Dimension = "tenant"
	ByQueue  Dimension = "queue"
	ByUser   Dimension = "user"
	ByModel  Dimension = "model"
	ByRegion Dimension = "region"
)

// Dimensions lists all dimensions, in the order in which users see them.
func Dimensions() []Dimension { return []Dimension{ByTenant, ByQueue, ByUser, ByModel, ByRegion} }

// Period is the length of time that each row of a usage report covers.
type Period string

// The periods.
const (
	Whole   Period = "" // one interval
	ByDay   Period = "day"
	ByMonth Period = "month"
)

// UsageQuery selects and groups usage.
type UsageQuery struct {
	// Tenant, Queue, User and Model select usage. A field that is empty does not restrict the selection. Model is a
	// substring of the model's name, regardless of case.
	Tenant, Queue, User, Model string
	// Within restricts the usage to scopes that the reader may see. If Within is nil, the
	// reader may see all usage.
	Within []Scope
	// From and To are the first and the last day in UTC. If From or To is empty, there is no limit on that side.
	From, To string
	By       []Dimension
	Period   Period
}

// Check returns an error that lists every mistake in a submitted query.
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
			bad.Add("by", "%q is unknown: use tenant, queue, user, model or region", ares.Clip(string(d)))
		}
	}
	if q.Period != Whole && q.Period != ByDay && q.Period != ByMonth {
		bad.Add("period", "%q is unknown: use day, month or bill, or leave it out", ares.Clip(string(q.Period)))
	}
	return bad.Err()
}

// Holder holds the values by which a row of a usage report is grouped. A field is "" if the
// query does not group by it.
type Holder struct {
	Period string // 2026-01-31 or 2026-01
	Tenant string
	Queue  string
	User   string
	Kind
}

// A Used is one row of a usage report.
type Used struct {
	Holder
	GPUMilliseconds int64
	Jobs            int64   // jobs that ended
	Cost            float64 // cost of the usage that has a price
	Unpriced        int64   // GPUMilliseconds without a price
}

// GPUHours returns the row's GPU time in hours.
func (u *Used) GPUHours() float64 { return float64(u.GPUMilliseconds) / msPerHour }

// Usage sums up the usage of the jobs in history.
func (h *History) Usage(ctx context.Context, q UsageQuery) ([]Used, error) {
	prices, err := h.Prices(ctx)
	if err != nil {
		return nil, err
	}
	price, unpriced, err := h.priced(ctx, prices)
	if err != nil {
		return nil, err
	}
	c := query{dialect: h.dialect}
	c.usage(&q)
	table := "usage_daily"
	byQueue := slices.Contains(q.By, ByQueue) || slices.ContainsFunc(q.Within, func(s Scope) bool { return s.Queue != "" })
	if q.Queue == "" && q.User == "" && !byQueue && !slices.Contains(q.By, ByUser) {
		table = "usage_by_tenant" // this table is many times smaller
	}
	columns := columnsOf(&q, h.dialect)
	text := "SELECT " + strings.Join(columns, ", ") + ", SUM(u.gpu_milliseconds), SUM(u.jobs), SUM(u.gpu_milliseconds * " + price + ") / 3600000.0, SUM(" + unpriced + ") FROM " + table + " u"
	if slices.Contains(q.By, ByModel) || slices.Contains(q.By, ByRegion) {
		text += " JOIN kinds k ON k.kind = u.kind"
	}
	if len(c.terms) > 0 {
		text += " WHERE " + c.where()
	}
	if by := groupings(columns); len(by) > 0 {
		text += " GROUP BY " + strings.Join(by, ", ")
	}
	var out []Used
	err = h.queryRows(ctx, text, c.args, func(r *sql.Rows) error {
		u, ok, bad := scanUsed(r, &q)
		if ok {
			out = append(out, u)
		}
		return bad
	})
	return out, err
}

func scanUsed(r *sql.Rows, q *UsageQuery) (u Used, ok bool, err error) {
	var ms, jobs, unpriced sql.NullInt64
	var cost sql.NullFloat64
	var period sql.NullString
	var day scannedTime
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
	return u, u.GPUMilliseconds != 0 || u.Jobs != 0, nil // a sum may have returned to zero
}

// This method adds the conditions of a usage query.
func (q *query) usage(of *UsageQuery) {
	q.within("u.tenant", "u.queue", of.Within)
	q.equals("u.tenant", of.Tenant)
	q.equals("u.queue", of.Queue)
	q.equals("u.submitted_by", of.User)
	if of.Model != "" {
		q.and("u.kind IN (SELECT kind FROM kinds WHERE lower(model) LIKE ? ESCAPE '!')", "%"+strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(strings.ToLower(of.Model))+"%")
	}
	if of.From != "" {
		q.and("u.day >= "+q.dialect.date, of.From)
	}
	if of.To != "" {
		q.and("u.day <= "+q.dialect.date, of.To)
	}
}

// columnsOf returns the SQL columns of a usage report. If the query does not group by a property,
// the column of that property is a constant.
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
	for i, column := range []string{"u.tenant", "u.queue", "u.submitted_by", "k.model", "k.region"} {
		if slices.Contains(q.By, Dimensions()[i]) {
			out[i+1] = column
		}
	}
	return out
}

// The function `groupings` returns the SQL columns to group by. The tenant comes first, because
// the table is already ordered by tenant.
func groupings(columns []string) []string {
	out := slices.DeleteFunc([]string{columns[1], columns[0], columns[2], columns[3], columns[4], columns[5]}, func(c string) bool { return c == "''" })
	return out
}

// maxTerms is the maximum number of prices in one SQL query.
const maxTerms = 10_000

// This method returns two SQL expressions. The first expression is the hourly price of a row's kind of device on the row's day.
// The second expression is the part of the row's GPU time that has no price, in milliseconds. Both expressions compare the
// number of the device kind, because a join with the table of kinds takes several times as long.
func (h *History) priced(ctx context.Context, prices Prices) (price, unpriced string, err error) {
	n := 0
	err = h.queryRows(ctx, "SELECT kind, model, region FROM kinds ORDER BY kind", nil, func(r *sql.Rows) error {
		number, k := 0, Kind{}
		if bad := r.Scan(&number, &k.Model, &k.Region); bad != nil {
			return bad
		}
		terms := prices.of(k)
		if len(terms) == 0 {
			return nil
		}
		if n += len(terms); n > maxTerms {
			return ares.Errorf(ares.LimitReached, "there are more than %d combinations of a price and a device kind: delete old prices with `ares price delete`", maxTerms)
		}
		price += fmt.Sprintf(" WHEN %d THEN CASE", number)
		for _, t := range slices.Backward(terms) {
			price += fmt.Sprintf(" WHEN u.day >= '%s' THEN %s", t.from, strconv.FormatFloat(t.price, 'f', -1, 64))
		}
		price += " END"
		unpriced += fmt.Sprintf(" WHEN %d THEN CASE WHEN u.day >= '%s' THEN 0 ELSE u.gpu_milliseconds END", number, terms[0].from)
		return nil
	})
	if price == "" { // nothing has a price
		return "NULL", "u.gpu_milliseconds", err
	}
	return "CASE u.kind" + price + " END", "CASE u.kind" + unpriced + " ELSE u.gpu_milliseconds END", err
}
