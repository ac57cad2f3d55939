package history

import (
	"context"
	"database/sql"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// LiveJob is a job of the live store. It may have ended, as long as it is not among the finished jobs of history.
type LiveJob struct {
	Job *ares.Job
	Run *ares.Run
}

// LiveVersion identifies the version of a live job that the database contains.
type LiveVersion struct {
	Accepted int64 // revision
	Run      int64 // revision
}

// PutLive writes changed live jobs, and removes the jobs `gone` before that. All of it is one transaction. If the database has a newer
// version of a job, that version stays, so a server that was the leader before does not undo what the leader writes. A job that is
// among the finished jobs is not written: it would be listed twice.
//
// The table of live jobs is for people who query the database; Ares itself reads only the versions.
func (h *History) PutLive(ctx context.Context, changed []LiveJob, gone []ares.JobID) error {
	if len(changed)+len(gone) == 0 {
		return nil
	}
	r := &rows{table: "live_jobs", columns: commonColumns}
	ids := make([]any, len(changed))
	for i, l := range changed {
		r.add(h.dialect.common(l.Job, l.Run)...)
		ids[i] = string(l.Job.ID)
	}
	return h.inTransaction(ctx, func(w *writer) error {
		if len(gone) > 0 {
			out := make([]any, len(gone))
			for i, id := range gone {
				out[i] = string(id)
			}
			if err := w.exec(ctx, "DELETE FROM live_jobs WHERE job_id IN "+placeholders(len(out)), out...); err != nil {
				return err
			}
		}
		if len(changed) == 0 {
			return nil
		}
		if err := r.insert(ctx, w, replaceLive); err != nil {
			return err
		}
		return w.removeOutdated(ctx, ids)
	})
}

// replaceLive is the clause that replaces an older version of a live job.
var replaceLive = func() string {
	var set []string
	for _, c := range commonColumns[2:] {
		set = append(set, c+" = excluded."+c)
	}
	return "ON CONFLICT (job_id, accepted_revision) DO UPDATE SET " + strings.Join(set, ", ") + " WHERE excluded.run_revision >= live_jobs.run_revision"
}()

// removeLive removes jobs that were written as finished from the live ones. The transaction is the same, so a job is listed once at any
// time.
func (w *writer) removeLive(ctx context.Context, jobs []Finished) error {
	ids := make([]any, len(jobs))
	for i, f := range jobs {
		ids[i] = string(f.Job.ID)
	}
	return w.removeOutdated(ctx, ids)
}

// removeOutdated removes those of the given live jobs that are among the finished ones, and those whose ID a later job has.
func (w *writer) removeOutdated(ctx context.Context, ids []any) error {
	return w.exec(ctx, `DELETE FROM live_jobs WHERE job_id IN `+placeholders(len(ids))+` AND (
		EXISTS (SELECT 1 FROM finished_jobs f WHERE f.job_id = live_jobs.job_id AND f.accepted_revision = live_jobs.accepted_revision) OR
		EXISTS (SELECT 1 FROM live_jobs n WHERE n.job_id = live_jobs.job_id AND n.accepted_revision > live_jobs.accepted_revision))`, ids...)
}

// LiveVersions returns the versions of live jobs in the database: at most `limit` of them, ordered by ID, with IDs above `after`.
func (h *History) LiveVersions(ctx context.Context, after ares.JobID, limit int) (versions map[ares.JobID]LiveVersion, last ares.JobID, err error) {
	versions = map[ares.JobID]LiveVersion{}
	err = h.queryRows(ctx, "SELECT job_id, accepted_revision, run_revision FROM live_jobs WHERE job_id > ? ORDER BY job_id, accepted_revision LIMIT ?",
		[]any{string(after), limit}, func(r *sql.Rows) error {
			var v LiveVersion
			if bad := r.Scan(&last, &v.Accepted, &v.Run); bad != nil {
				return bad
			}
			versions[last] = v
			return nil
		})
	return versions, last, err
}
