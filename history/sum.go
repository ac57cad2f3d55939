package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// A Sum combines the usage of live jobs with the usage in history.
type Sum struct {
	query  UsageQuery
	prices Prices
	terms  map[Kind][]term
	rows   map[Holder]*Used
}

// NewSum starts with the rows that History.Usage returned for the same query.
func NewSum(q UsageQuery, prices Prices, rows []Used) *Sum {
	s := &Sum{query: q, prices: prices, terms: map[Kind][]term{}, rows: make(map[Holder]*Used, len(rows))}
	for i := range rows {
		s.rows[rows[i].Holder] = &rows[i]
	}
	return s
}

// Add adds the part of a job's usage that the query selects.
func (s *Sum) Add(job *ares.Job, parts []Part) {
	q := &s.query
	if !covers(q.Within, job.Tenant, job.Queue) || q.Tenant != "" && q.Tenant != job.Tenant || q.Queue != "" && q.Queue != job.Queue || q.User != "" && q.User != job.Owner {
		return
	}
	for _, p := range parts {
		if q.From != "" && p.Day < q.From || q.To != "" && p.Day > q.To ||
			!strings.Contains(strings.ToLower(p.Model), strings.ToLower(q.Model)) {
			continue
		}
		row := s.row(job, &p)
		row.GPUMilliseconds += p.GPUMilliseconds
		row.Jobs += int64(p.Jobs)
		if price, ok := s.price(p.Kind, p.Day); ok {
			row.Cost += float64(p.GPUMilliseconds) * price / msPerHour
		} else {
			row.Unpriced += p.GPUMilliseconds
		}
	}
}

func (s *Sum) price(k Kind, day string) (float64, bool) {
	terms, known := s.terms[k]
	if !known {
		terms = s.prices.of(k)
		s.terms[k] = terms
	}
	for _, t := range slices.Backward(terms) {
		if t.from <= day {
			return t.price, true
		}
	}
	return 0, false
}

func (s *Sum) row(job *ares.Job, p *Part) *Used {
	var h Holder
	switch s.query.Period {
	case ByDay:
		h.Period = p.Day
	case ByMonth:
		h.Period = p.Day[:len("2006-01")]
	case Whole:
	}
	for _, d := range s.query.By {
		switch d {
		case ByTenant:
			h.Tenant = job.Tenant
		case ByQueue:
			h.Queue = job.Queue
		case ByUser:
			h.User = job.Owner
		case ByModel:
			h.Model = p.Model
		case ByRegion:
			h.Region = p.Region
		}
	}
	if s.rows[h] == nil {
		s.rows[h] = &Used{Holder: h}
	}
	return s.rows[h]
}

// Rows returns the sums, ordered by period and then by Holder.
func (s *Sum) Rows() []Used {
	out := make([]Used, 0, len(s.rows))
	for _, h := range slices.SortedFunc(maps.Keys(s.rows), Holder.Compare) {
		out = append(out, *s.rows[h])
	}
	return out
}

// Compare orders rows by period, tenant, queue, user, model and region.
func (h Holder) Compare(o Holder) int {
	return cmp.Or(strings.Compare(h.Period, o.Period), strings.Compare(h.Tenant, o.Tenant), strings.Compare(h.Queue, o.Queue),
		strings.Compare(h.User, o.User), strings.Compare(h.Model, o.Model), strings.Compare(h.Region, o.Region))
}
