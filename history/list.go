package history

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Scope is a tenant, or one of its queues.
type Scope struct {
	Tenant string
	Queue  string // "" for all
}

// covers says whether some scopes hold a queue of a tenant; nil holds everything.
func covers(within []Scope, tenant, queue string) bool {
	return within == nil || slices.ContainsFunc(within, func(s Scope) bool { return s.Tenant == tenant && (s.Queue == "" || s.Queue == queue) })
}

// Filter selects jobs. Zero fields select all.
type Filter struct {
	// Within is where jobs may be that are told of at all; nil for everywhere.
	Within              []Scope
	Tenant, Queue, User string
	Phases              []ares.Phase
	Name                string // substring
	// From and To bound when jobs were accepted; To itself is left out.
	From, To time.Time
	// ArrayOf selects the elements of an array, by index. Without it, elements
	// are left out.
	ArrayOf ares.JobID
	// Before and After are the accepted revision and the ID of the last job of
	// the page before: this one begins behind it. Zero begins with the newest.
	Before int64
	After  ares.JobID
	// Limit is the length of a page.
	Limit int
}

// Job is a job that has ended, as history keeps it.
type Job struct {
	Job   ares.Job
	Run   ares.Run
	Parts []Part // what it used
}

const jobColumns = "j.seq, j.job_id, j.accepted_revision, j.digest, j.record"

// Jobs lists jobs, newest first; among jobs accepted in one revision by ID. It
// says whether there are more. Of their runs the transitions are left out.
func (h *History) Jobs(ctx context.Context, f Filter) (page []Job, more bool, err error) {
	q := query{dialect: h.dialect}
	q.filter(&f)
	q.cursor(&f)
	order := "j.accepted_revision DESC, j.job_id"
	if f.ArrayOf != "" {
		order = "j.array_index, j.accepted_revision"
	}
	seqs, page, err := h.jobs(ctx, "SELECT "+jobColumns+" FROM jobs j WHERE "+q.where()+" ORDER BY "+order+" LIMIT ?", append(q.args, f.Limit+1))
	if err != nil {
		return nil, false, err
	}
	if len(page) > f.Limit {
		page, seqs, more = page[:f.Limit], seqs[:f.Limit], true
	}
	return page, more, h.used(ctx, seqs, page)
}

// Job finds a job by its ID, whole. With a tenant, only one of that tenant. Of
// several that had the ID one after the other it is the last.
func (h *History) Job(ctx context.Context, id ares.JobID, tenant string) (Job, error) {
	query, args := "SELECT "+jobColumns+" FROM jobs j WHERE j.job_id = ?", []any{string(id)}
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
	err = h.reading(ctx, "SELECT at, phase, attempt, message FROM transitions WHERE job_seq = ? ORDER BY position", []any{seqs[0]}, func(r *sql.Rows) error {
		var t ares.Transition
		var at stamp
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

// Elements counts the elements of an array that are there.
func (h *History) Elements(ctx context.Context, array *ares.Job) (ares.Elements, error) {
	var out ares.Elements
	err := h.reading(ctx, "SELECT phase, COUNT(*) FROM jobs WHERE array_of = ? AND array_of <> '' GROUP BY phase", []any{string(array.ID)}, func(r *sql.Rows) error {
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
	err = h.reading(ctx, query, args, func(r *sql.Rows) error {
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
		rec.Job.ID, rec.Job.Revision = k.ID, k.Accepted // what pages go by
		copy(rec.Job.Digest[:], digest)
		seqs, out = append(seqs, seq), append(out, Job{Job: rec.Job, Run: rec.Run})
		return nil
	})
	return seqs, out, err
}

// used adds to jobs what each has used.
func (h *History) used(ctx context.Context, seqs []int64, jobs []Job) error {
	if len(seqs) == 0 {
		return nil
	}
	at, args := map[int64]int{}, make([]any, len(seqs))
	for i, seq := range seqs {
		at[seq], args[i] = i, seq
	}
	return h.reading(ctx, "SELECT job_seq, day, model, region, gpu_milliseconds, jobs FROM job_usage WHERE job_seq IN "+marks(len(seqs))+" ORDER BY job_seq, day, model, region", args, func(r *sql.Rows) error {
		var seq int64
		var p Part
		var day stamp
		if err := r.Scan(&seq, &day, &p.Model, &p.Region, &p.GPUMilliseconds, &p.Jobs); err != nil {
			return err
		}
		p.Day = day.day()
		jobs[at[seq]].Parts = append(jobs[at[seq]].Parts, p)
		return nil
	})
}

// query is a condition in the making.
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

// within asks for what is in some scopes.
func (q *query) within(tenant, queue string, scopes []Scope) {
	if scopes == nil {
		return
	}
	terms, args := []string{"1 = 0"}, []any{}
	for _, s := range scopes {
		if s.Queue == "" {
			terms, args = append(terms, tenant+" = ?"), append(args, s.Tenant)
		} else {
			terms, args = append(terms, "("+tenant+" = ? AND "+queue+" = ?)"), append(args, s.Tenant, s.Queue)
		}
	}
	q.and("("+strings.Join(terms, " OR ")+")", args...)
}

// array asks for the elements of an array, or for jobs that are not elements.
func (q *query) array(f *Filter) {
	if f.ArrayOf == "" {
		q.and("j.array_of = ''")
	} else {
		q.and("j.array_of = ? AND j.array_of <> ''", string(f.ArrayOf)) // the second tells the planner of the index
	}
}

// belongs asks for whose the jobs are.
func (q *query) belongs(f *Filter) {
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
	q.and(column+" IN "+marks(len(args)), args...)
}

func (q *query) filter(f *Filter) {
	q.array(f)
	q.belongs(f)
	if len(f.Phases) > 0 {
		column := "j.phase"
		if f.Tenant != "" || f.User != "" {
			// Not a bare column, or SQLite goes by the index of phases, which for most of
			// them is nearly the whole table; the tenant's has the phase in it too.
			column = "(j.phase || '')"
		}
		q.in(column, f.Phases)
	}
	if f.Name != "" {
		q.and("j.name LIKE ? ESCAPE '!'", "%"+strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(f.Name)+"%")
	}
	// Jobs are listed by the revision of their acceptance, which grows with time
	// but for what clocks differ. Which revisions a day has is kept, so that a time
	// long ago is not searched from the newest job on.
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
		q.and("j.array_index > COALESCE((SELECT MAX(l.array_index) FROM jobs l WHERE l.job_id = ?), 0)", string(f.After))
	default:
		q.and("j.accepted_revision <= ? AND (j.accepted_revision < ? OR j.job_id > ?)", f.Before, f.Before, string(f.After))
	}
}
