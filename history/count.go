package history

import (
	"context"
	"database/sql"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Counted reports whether Count can count the jobs that a filter selects. For a filter by name or time, Counted
// returns false, because Count would have to read all jobs.
func (f *Filter) Counted() bool { return f.Name == "" && f.From.IsZero() && f.To.IsZero() }

// Count returns the total number of jobs that a filter selects, not only those of one page. Call Count only if Counted
// returns true for the filter.
func (h *History) Count(ctx context.Context, f Filter) (n int64, err error) {
	if !f.Counted() {
		return 0, ares.Errorf(ares.Internal, "jobs cannot be counted, because the filter has a name or a time")
	}
	q := query{dialect: h.dialect}
	from := "COALESCE(SUM(j.jobs), 0) FROM job_counts j"
	if f.ArrayOf == "" {
		q.and("1 = 1")
	} else {
		from = "COUNT(*) FROM finished_jobs j"
		q.array(&f)
	}
	q.ownership(&f)
	if len(f.Phases) > 0 {
		q.in("j.phase", f.Phases)
	}
	err = h.queryRows(ctx, "SELECT "+from+" WHERE "+q.where(), q.args, func(r *sql.Rows) error { return r.Scan(&n) })
	return n, err
}

// Has returns the keys of all jobs in history that have one of the given IDs.
func (h *History) Has(ctx context.Context, ids []ares.JobID) (map[Key]bool, error) {
	out := map[Key]bool{}
	return out, h.revisions(ctx, ids, func(k Key, _ int64) { out[k] = true })
}

// Revisions returns the revision of the stored run for each job ID. If several jobs used the same ID, Revisions returns the
// revision of the last one.
func (h *History) Revisions(ctx context.Context, ids []ares.JobID) (map[ares.JobID]int64, error) {
	out := map[ares.JobID]int64{}
	return out, h.revisions(ctx, ids, func(k Key, revision int64) { out[k.ID] = max(out[k.ID], revision) })
}

// The method `revisions` finds the jobs with the given IDs, and the revisions of their stored runs.
func (h *History) revisions(ctx context.Context, ids []ares.JobID, found func(Key, int64)) error {
	for part := range slices.Chunk(ids, MaxPut) {
		args := make([]any, len(part))
		for i, id := range part {
			args[i] = string(id)
		}
		err := h.queryRows(ctx, "SELECT job_id, accepted_revision, run_revision FROM finished_jobs WHERE job_id IN "+placeholders(len(part)), args, func(r *sql.Rows) error {
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
