package history

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Scope is a whole tenant or one of its queues.
type Scope struct {
	Tenant string
	Queue  string // "" for all
}

// This function reports whether any of the scopes includes the given queue of the given tenant. If
// the list of scopes is nil, everything is included.
func covers(within []Scope, tenant, queue string) bool {
	return within == nil || slices.ContainsFunc(within, func(s Scope) bool { return s.Tenant == tenant && (s.Queue == "" || s.Queue == queue) })
}

// Filter selects jobs. A field that is not set does not restrict the selection. The only exception is ArrayOf.
type Filter struct {
	// Within restricts the jobs to scopes that the reader may see. If Within is nil, the
	// reader may see all jobs.
	Within              []Scope
	Tenant, Queue, User string
	Phases              []ares.Phase
	Name                string // substring
	// ExactName is the whole name of a job. IDPrefix is the beginning of a job ID.
	ExactName, IDPrefix string
	// The fields From and To restrict the time at which jobs were accepted. A job that was accepted exactly at the
	// time To is excluded.
	From, To time.Time
	// ArrayOf selects the elements of one array. They are ordered by index. If ArrayOf is empty,
	// array elements are left out.
	ArrayOf ares.JobID
	// The fields Before and After describe the last job on the previous page. They are the revision at which it was accepted, and
	// its ID. The current page begins after the last job on the previous page. If Before and After are not set, the page begins with
	// the newest job.
	Before int64
	After  ares.JobID
	// Limit is the maximum number of jobs on a page.
	Limit int
}

// Job is a finished job as it is stored in history.
type Job struct {
	Job   ares.Job
	Run   ares.Run
	Parts []Part // its usage
}

const jobColumns = "j.seq, j.job_id, j.accepted_revision, j.digest, j.record"

// Jobs returns a list of jobs, newest first. If several jobs were accepted at the same revision, they are ordered by ID. The
// method Jobs also reports whether more jobs follow. The returned runs have no transitions.
func (h *History) Jobs(ctx context.Context, f Filter) (page []Job, more bool, err error) {
	q := query{dialect: h.dialect}
	q.filter(&f)
	q.cursor(&f)
	order := "j.accepted_revision DESC, j.job_id"
	if f.ArrayOf != "" {
		order = "j.array_index, j.accepted_revision"
	}
	seqs, page, err := h.jobs(ctx, "SELECT "+jobColumns+" FROM finished_jobs j WHERE "+q.where()+" ORDER BY "+order+" LIMIT ?", append(q.args, f.Limit+1))
	if err != nil {
		return nil, false, err
	}
	if len(page) > f.Limit {
		page, seqs, more = page[:f.Limit], seqs[:f.Limit], true
	}
	return page, more, h.used(ctx, seqs, page)
}

// Job finds a job by its ID, with all its data. If a tenant is given, Job finds only a job of that tenant. If several
// jobs used the ID one after the other, Job returns the last one.
func (h *History) Job(ctx context.Context, id ares.JobID, tenant string) (Job, error) {
	query, args := "SELECT "+jobColumns+" FROM finished_jobs j WHERE j.job_id = ?", []any{string(id)}
	if tenant != "" {
		query, args = query+" AND j.tenant = ?", append(args, tenant)
	}
	seqs, found, err := h.jobs(ctx, query+" ORDER BY j.accepted_revision DESC LIMIT 1", args)
	if err != nil {
		return Job{}, err
	}
	if len(found) == 0 {
		return Job{}, ares.Errorf(ares.NotFound, "there is no job %s", id)
	}
	run := &found[0].Run
	err = h.queryRows(ctx, "SELECT at, phase, attempt, message FROM transitions WHERE job_seq = ? ORDER BY position", []any{seqs[0]}, func(r *sql.Rows) error {
		var t ares.Transition
		var at scannedTime
		if bad := r.Scan(&at, &t.Phase, &t.Attempt, &t.Message); bad != nil {
			return bad
		}
		t.At = at.Time
		run.Transitions = append(run.Transitions, t)
		return nil
	})
	if err != nil {
		return Job{}, err
	}
	return found[0], h.used(ctx, seqs, found)
}

// Elements counts how many elements of an array are in history.
func (h *History) Elements(ctx context.Context, array *ares.Job) (ares.Elements, error) {
	var out ares.Elements
	err := h.queryRows(ctx, "SELECT phase, COUNT(*) FROM finished_jobs WHERE array_of = ? AND array_of <> '' GROUP BY phase", []any{string(array.ID)}, func(r *sql.Rows) error {
		var p ares.Phase
		n := 0
		if err := r.Scan(&p, &n); err != nil {
			return err
		}
		out.Add(p, n)
		return nil
	})
	out.Total = array.Array.Count
	return out, err
}

func (h *History) jobs(ctx context.Context, query string, args []any) (seqs []int64, out []Job, err error) {
	err = h.queryRows(ctx, query, args, func(r *sql.Rows) error {
		var seq int64
		var k Key
		var digest, data []byte
		if bad := r.Scan(&seq, &k.ID, &k.Accepted, &digest, &data); bad != nil {
			return bad
		}
		rec, bad := decode(data)
		if bad != nil {
			return bad
		}
		rec.Job.ID, rec.Job.Revision = k.ID, k.Accepted // pages are ordered by these
		copy(rec.Job.Digest[:], digest)
		seqs, out = append(seqs, seq), append(out, Job{Job: rec.Job, Run: rec.Run})
		return nil
	})
	return seqs, out, err
}

// This method adds the usage to each of the jobs.
func (h *History) used(ctx context.Context, seqs []int64, jobs []Job) error {
	if len(seqs) == 0 {
		return nil
	}
	at, args := map[int64]int{}, make([]any, len(seqs))
	for i, seq := range seqs {
		at[seq], args[i] = i, seq
	}
	return h.queryRows(ctx, "SELECT job_seq, day, model, region, gpu_milliseconds, jobs FROM job_usage WHERE job_seq IN "+placeholders(len(seqs))+" ORDER BY job_seq, day, model, region", args, func(r *sql.Rows) error {
		var seq int64
		var p Part
		var day scannedTime
		if err := r.Scan(&seq, &day, &p.Model, &p.Region, &p.GPUMilliseconds, &p.Jobs); err != nil {
			return err
		}
		p.Day = day.day()
		jobs[at[seq]].Parts = append(jobs[at[seq]].Parts, p)
		return nil
	})
}

// A query is an SQL condition that is built step by step.
type query struct {
	dialect dialect
	terms   []string
	args    []any
}

func (q *query) and(term string, args ...any) {
	q.terms, q.args = append(q.terms, term), append(q.args, args...)
}

func (q *query) where() string { return strings.Join(q.terms, " AND ") }

func (q *query) equals(column, value string) {
	if value != "" {
		q.and(column+" = ?", value)
	}
}

// This method adds a condition that selects the elements of one array, or all jobs that are not
// array elements.
func (q *query) array(f *Filter) {
	if f.ArrayOf == "" {
		q.and("j.array_of = ''")
	} else {
		q.and("j.array_of = ? AND j.array_of <> ''", string(f.ArrayOf)) // the second condition allows the planner to use the index
	}
}

// The method `ownership` adds conditions that select jobs by tenant, queue and user.
func (q *query) ownership(f *Filter) {
	q.within("j.tenant", "j.queue", f.Within)
	q.equals("j.tenant", f.Tenant)
	q.equals("j.queue", f.Queue)
	q.equals("j.submitted_by", f.User)
}

func (q *query) in(column string, phases []ares.Phase) {
	args := make([]any, len(phases))
	for i, p := range phases {
		args[i] = string(p)
	}
	q.and(column+" IN "+placeholders(len(args)), args...)
}

func (q *query) filter(f *Filter) {
	q.array(f)
	q.ownership(f)
	if len(f.Phases) > 0 {
		column := "j.phase"
		if f.Tenant != "" || f.User != "" {
			// The condition is an expression and not the plain column "phase". So SQLite does not use the index on
			// phases. For most phases, the index on phases selects nearly the whole table. The index on tenants is
			// better, because it contains the phase too.
			column = "(j.phase || '')"
		}
		q.in(column, f.Phases)
	}
	if f.Name != "" {
		q.and("j.name LIKE ? ESCAPE '!'", "%"+strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(f.Name)+"%")
	}
	q.equals("j.name", f.ExactName)
	if f.IDPrefix != "" {
		q.and("j.job_id >= ? AND j.job_id < ?", f.IDPrefix, f.IDPrefix+"~") // "~" is after every character of an ID
	}
	// Jobs are ordered by the revision at which they were accepted. A job that was accepted later usually has a higher
	// revision. This may be wrong if the servers' clocks differ. The database stores the first and the last revision of each
	// day. So a search for old jobs need not begin with the newest job.
	if !f.From.IsZero() {
		q.and("j.accepted_at >= ?", q.dialect.at(f.From))
		q.and("j.accepted_revision >= (SELECT COALESCE(MIN(first_revision), 0) FROM accepted_days WHERE day >= "+q.dialect.date+")", dayOf(f.From))
	}
	if !f.To.IsZero() {
		q.and("j.accepted_at < ?", q.dialect.at(f.To))
		q.and("j.accepted_revision <= (SELECT COALESCE(MAX(last_revision), 0) FROM accepted_days WHERE day <= "+q.dialect.date+")", dayOf(f.To))
	}
}

func (q *query) cursor(f *Filter) {
	switch {
	case f.Before == 0:
	case f.ArrayOf != "":
		q.and("j.array_index > COALESCE((SELECT MAX(l.array_index) FROM finished_jobs l WHERE l.job_id = ?), 0)", string(f.After))
	default:
		q.and("j.accepted_revision <= ? AND (j.accepted_revision < ? OR j.job_id > ?)", f.Before, f.Before, string(f.After))
	}
}
