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

// Has says which of the jobs with these IDs are there, in whatever revision of
// their run.
func (h *History) Has(ctx context.Context, ids []ares.JobID) (map[Key]bool, error) {
	out := map[Key]bool{}
	return out, h.revisions(ctx, ids, func(k Key, _ int64) { out[k] = true })
}

// Revisions tells of jobs that are there the revision of the run that history
// has, by ID; of several with one ID that of the last.
func (h *History) Revisions(ctx context.Context, ids []ares.JobID) (map[ares.JobID]int64, error) {
	out := map[ares.JobID]int64{}
	return out, h.revisions(ctx, ids, func(k Key, revision int64) { out[k.ID] = max(out[k.ID], revision) })
}

// revisions finds the jobs with some IDs, and the revisions of their runs.
func (h *History) revisions(ctx context.Context, ids []ares.JobID, found func(Key, int64)) error {
	for part := range slices.Chunk(ids, MaxPut) {
		args := make([]any, len(part))
		for i, id := range part {
			args[i] = string(id)
		}
		err := h.reading(ctx, "SELECT job_id, accepted_revision, run_revision FROM jobs WHERE job_id IN "+marks(len(part)), args, func(r *sql.Rows) error {
			var k Key
			var revision int64
			if err := r.Scan(&k.ID, &k.Accepted, &revision); err != nil {
				return err
			}
			found(k, revision)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
