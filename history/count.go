package history

import (
	"context"
	"database/sql"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Counted says whether Count knows how many jobs a filter selects: not by name, or
// by time, without reading them all.
func (f *Filter) Counted() bool { return f.Name == "" && f.From.IsZero() && f.To.IsZero() }

// Count is how many jobs a filter selects that is counted, on all pages.
func (h *History) Count(ctx context.Context, f Filter) (n int64, err error) {
	if !f.Counted() {
		return 0, ares.Errorf(ares.Internal, "jobs are not counted by name or time")
	}
	q := query{dialect: h.dialect}
	from := "COALESCE(SUM(j.jobs), 0) FROM job_counts j"
	if f.ArrayOf == "" {
		q.and("1 = 1")
	} else {
		from = "COUNT(*) FROM jobs j"
		q.array(&f)
	}
	q.belongs(&f)
	if len(f.Phases) > 0 {
		q.in("j.phase", f.Phases)
	}
	err = h.reading(ctx, "SELECT "+from+" WHERE "+q.where(), q.args, func(r *sql.Rows) error { return r.Scan(&n) })
	return n, err
}

// Version is one job of all that had an ID one after the other.
type Version struct {
	ID       ares.JobID
	Accepted int64 // revision
}

// Has says which of the jobs with these IDs are there, in whatever revision of
// their run.
func (h *History) Has(ctx context.Context, ids []ares.JobID) (map[Version]bool, error) {
	out := map[Version]bool{}
	for part := range slices.Chunk(ids, MaxPut) {
		args := make([]any, len(part))
		for i, id := range part {
			args[i] = string(id)
		}
		err := h.reading(ctx, "SELECT job_id, accepted_revision FROM jobs WHERE job_id IN "+marks(len(part)), args, func(r *sql.Rows) error {
			var v Version
			err := r.Scan(&v.ID, &v.Accepted)
			out[v] = true
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
