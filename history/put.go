package history

import (
	"context"
	"database/sql"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Finished is a job that has ended, on its way into history.
type Finished struct {
	Job   *ares.Job
	Run   *ares.Run
	Kinds Kinds // what its devices are
}

// key is what a job is known by: its ID may be used anew after the request was
// forgotten, and then it is another job.
type key struct {
	id       ares.JobID
	accepted int64
}

// MaxPut is how many jobs one Put should have at most; more only makes its
// transaction long.
const MaxPut = 500

// Put adds jobs that have ended, all or none, and returns how many it wrote. A
// job that is there is replaced where its run is of a newer revision, with
// everything that it added to the sums, and left alone where it is not. So it
// does not matter how often, or by which server, a job is put.
func (h *History) Put(ctx context.Context, jobs []Finished) (written int, err error) {
	if len(jobs) == 0 {
		return 0, nil
	}
	err = h.writing(ctx, func(w *writer) (err error) {
		written, err = w.put(ctx, newest(jobs))
		return err
	})
	if err != nil {
		return 0, err
	}
	return written, nil
}

// newest leaves of jobs that are given twice the newer.
func newest(jobs []Finished) []Finished {
	at := make(map[key]int, len(jobs))
	out := make([]Finished, 0, len(jobs))
	for _, f := range jobs {
		k := key{f.Job.ID, f.Job.Revision}
		i, twice := at[k]
		switch {
		case !twice:
			at[k] = len(out)
			out = append(out, f)
		case f.Run.Revision > out[i].Run.Revision:
			out[i] = f
		}
	}
	return out
}

func (w *writer) put(ctx context.Context, jobs []Finished) (int, error) {
	known, next, err := w.known(ctx, jobs)
	if err != nil {
		return 0, err
	}
	pruned, err := w.setting(ctx, prunedBefore)
	if err != nil {
		return 0, err
	}
	b := newBatch(w.dialect)
	var replaced []int64
	n := 0
	for _, f := range jobs {
		k := key{f.Job.ID, f.Job.Revision}
		was, there := known[k]
		switch {
		case there && was.revision >= f.Run.Revision:
			continue
		case !there && pruned != "" && f.Run.FinishedAt.UTC().Format(isoLayout) < pruned:
			continue // it was here, and counted, before it grew too old
		case there:
			replaced = append(replaced, was.seq)
		}
		next++
		if err = b.add(next, &f); err != nil {
			return 0, err
		}
		n++
	}
	if n == 0 {
		return 0, nil
	}
	if err = w.remove(ctx, replaced, b); err != nil {
		return 0, err
	}
	return n, b.write(ctx, w)
}

type version struct{ seq, revision int64 }

// known finds the jobs that are there, and the highest number given.
func (w *writer) known(ctx context.Context, jobs []Finished) (known map[key]version, last int64, err error) {
	known = map[key]version{}
	ids := make([]any, len(jobs))
	for i, f := range jobs {
		ids[i] = string(f.Job.ID)
	}
	err = w.query(ctx, "SELECT job_id, accepted_revision, seq, run_revision FROM jobs WHERE job_id IN "+marks(len(ids)), ids, func(r *sql.Rows) error {
		var k key
		var v version
		if bad := r.Scan(&k.id, &k.accepted, &v.seq, &v.revision); bad != nil {
			return bad
		}
		known[k] = v
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	err = w.query(ctx, "SELECT COALESCE(MAX(seq), 0) FROM jobs", nil, func(r *sql.Rows) error { return r.Scan(&last) })
	return known, last, err
}

// remove takes earlier versions of jobs out, and what they added to the sums.
func (w *writer) remove(ctx context.Context, seqs []int64, b *batch) error {
	if len(seqs) == 0 {
		return nil
	}
	args := make([]any, len(seqs))
	for i, seq := range seqs {
		args[i] = seq
	}
	in := marks(len(seqs))
	err := w.query(ctx, `SELECT j.tenant, j.queue, j.submitted_by, u.day, u.model, u.region, u.gpu_milliseconds, u.jobs
		FROM job_usage u JOIN jobs j ON j.seq = u.job_seq WHERE u.job_seq IN `+in, args, func(r *sql.Rows) error {
		var g group
		var day stamp
		var s sums
		if err := r.Scan(&g.tenant, &g.queue, &g.user, &day, &g.kind.Model, &g.kind.Region, &s.ms, &s.jobs); err != nil {
			return err
		}
		g.day = day.day()
		b.count(g, sums{-s.ms, -s.jobs})
		return nil
	})
	if err != nil {
		return err
	}
	return w.removeRows(ctx, in, args)
}

// removeRows takes jobs out of every table but the sums of use. Triggers count
// how many jobs are left.
func (w *writer) removeRows(ctx context.Context, in string, seqs []any) error {
	for _, from := range []string{"job_usage WHERE job_seq", "attempts WHERE job_seq", "placements WHERE job_seq", "transitions WHERE job_seq", "jobs WHERE seq"} {
		if _, err := w.tx.ExecContext(ctx, w.dialect.bind("DELETE FROM "+from+" IN "+in), seqs...); err != nil {
			return err
		}
	}
	return nil
}

// marks is a list of n parameters in brackets.
func marks(n int) string { return "(" + strings.Repeat("?, ", n-1) + "?)" }

// group is a row of usage_daily.
type group struct {
	tenant, day, queue, user string
	kind                     Kind
}

type sums struct{ ms, jobs int64 }

// batch is the rows of one transaction.
type batch struct {
	dialect                                     dialect
	jobs, attempts, places, transitions, usages *rows
	groups                                      map[group]sums
	days                                        map[string][2]int64 // of acceptance: first and last revision
}

func newBatch(d dialect) *batch {
	return &batch{
		dialect: d,
		jobs: &rows{table: "jobs", columns: []string{
			"seq", "job_id", "accepted_revision", "run_revision", "name", "tenant", "queue", "submitted_by", "phase", "reason", "outcome", "exit_code",
			"priority", "priority_class", "members", "gpus_per_member", "gpu_milli", "gpu_model", "cpu_cores", "memory_mb", "image",
			"is_array", "array_of", "array_index", "retry_of", "accepted_at", "started_at", "finished_at", "attempts", "retries", "preemptions",
			"gpu_milliseconds", "digest", "record",
		}},
		attempts:    &rows{table: "attempts", columns: []string{"job_seq", "number", "fence", "placed_at", "started_at", "ended_at", "outcome", "reason", "exit_code", "score", "seats"}},
		places:      &rows{table: "placements", columns: []string{"job_seq", "attempt", "rank", "node", "device", "device_index", "milli", "model", "region", "seat_state", "exit_code"}},
		transitions: &rows{table: "transitions", columns: []string{"job_seq", "position", "at", "phase", "attempt", "message"}},
		usages:      &rows{table: "job_usage", columns: []string{"job_seq", "day", "model", "region", "gpu_milliseconds", "jobs"}},
		groups:      map[group]sums{}, days: map[string][2]int64{},
	}
}

// add adds every row of a job.
func (b *batch) add(seq int64, f *Finished) error {
	j, r := f.Job, f.Run
	kept, err := encode(j, r)
	if err != nil {
		return err
	}
	parts := Parts(j, r, f.Kinds, r.FinishedAt)
	total := int64(0)
	for _, p := range parts {
		total += p.GPUMilliseconds
		b.usages.add(seq, p.Day, text(p.Model), text(p.Region), p.GPUMilliseconds, p.Jobs)
		b.count(group{j.Tenant, p.Day, j.Queue, text(j.Owner), Kind{text(p.Model), text(p.Region)}}, sums{p.GPUMilliseconds, int64(p.Jobs)})
	}
	outcome, exit := "", any(nil)
	if a := r.Last(); a != nil && a.Ended() {
		outcome, exit = string(a.Outcome), a.ExitCode
	}
	b.jobs.add(seq, string(j.ID), j.Revision, r.Revision, text(j.Name), j.Tenant, j.Queue, text(j.Owner), string(r.Phase), text(r.Reason), outcome, exit,
		j.PriorityValue(), string(j.PriorityClass), j.Members, j.GPUs, j.GPUMilli, text(j.GPUModel), j.CPUs, j.MemoryMB, text(j.Image),
		j.IsArray(), string(j.ArrayOf), j.ArrayIndex, string(j.RetryOf), b.dialect.at(j.AcceptedAt), b.dialect.at(started(r)), b.dialect.at(r.FinishedAt), r.Placed, r.Retries, r.Yields,
		total, j.Digest[:], kept)
	for i := range r.Attempts {
		b.addAttempt(seq, &r.Attempts[i], f.Kinds)
	}
	for i, t := range r.Transitions {
		b.transitions.add(seq, i, b.dialect.at(t.At), string(t.Phase), t.Attempt, text(t.Message))
	}
	day := dayOf(j.AcceptedAt)
	if was, ok := b.days[day]; ok {
		b.days[day] = [2]int64{min(was[0], j.Revision), max(was[1], j.Revision)}
	} else {
		b.days[day] = [2]int64{j.Revision, j.Revision}
	}
	return nil
}

// started is when the job first ran, zero for never.
func started(r *ares.Run) time.Time {
	for i := range r.Attempts {
		if at := r.Attempts[i].StartedAt; !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}

func (b *batch) addAttempt(seq int64, a *ares.Attempt, kinds Kinds) {
	at := b.dialect.at
	b.attempts.add(seq, a.Number, int64(a.Fence), at(a.PlacedAt), at(a.StartedAt), at(a.EndedAt), string(a.Outcome), text(a.Reason), a.ExitCode, a.Score, len(a.Seats))
	for i := range a.Seats {
		h := &a.Seats[i]
		exit := any(nil)
		if h.Result != nil {
			exit = h.Result.ExitCode
		}
		for _, sh := range h.Shares {
			k := kinds(h.Node, sh.Device)
			b.places.add(seq, a.Number, h.Rank, text(h.Node), text(sh.Device), sh.Index, sh.Milli, text(k.Model), text(k.Region), string(h.State), exit)
		}
		if len(h.Shares) == 0 {
			b.places.add(seq, a.Number, h.Rank, text(h.Node), "", -1, 0, "", text(kinds(h.Node, "").Region), string(h.State), exit)
		}
	}
}

func (b *batch) count(g group, s sums) {
	was := b.groups[g]
	b.groups[g] = sums{was.ms + s.ms, was.jobs + s.jobs}
}
