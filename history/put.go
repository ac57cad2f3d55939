package history

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Finished is an ended job that is put into history.
type Finished struct {
	Job   *ares.Job
	Run   *ares.Run
	Kinds Kinds // kinds of its devices
}

// Key identifies a job. The ID alone is not enough, because an ID may be reused for another job after the first request was
// forgotten.
type Key struct {
	ID       ares.JobID
	Accepted int64 // revision
}

// MaxPut is the maximum number of jobs that should be passed to one call of Put. More jobs would only make the
// transaction longer.
const MaxPut = 500

// Put adds either all of the given jobs or none, and returns how many it wrote. If a job is already stored and the new run has a
// higher revision, Put replaces the job. Put also replaces what the job adds to the usage sums. If the stored run's revision is
// not lower than that of the given run, the stored job stays unchanged. A job may therefore be stored repeatedly and by several
// servers.
func (h *History) Put(ctx context.Context, jobs []Finished) (written int, err error) {
	if len(jobs) == 0 {
		return 0, nil
	}
	err = h.inTransaction(ctx, func(w *writer) (err error) {
		written, err = w.put(ctx, newest(jobs))
		return err
	})
	if err != nil {
		return 0, err
	}
	return written, nil
}

// If a job is listed more than once, the function `newest` keeps only its newest version.
func newest(jobs []Finished) []Finished {
	at := make(map[Key]int, len(jobs))
	out := make([]Finished, 0, len(jobs))
	for _, f := range jobs {
		k := Key{f.Job.ID, f.Job.Revision}
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
		k := Key{f.Job.ID, f.Job.Revision}
		was, there := known[k]
		switch {
		case there && was.revision >= f.Run.Revision:
			continue
		case !there && pruned != "" && f.Run.FinishedAt.UTC().Format(isoLayout) < pruned:
			continue // it was stored and counted before it was pruned
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
		return 0, w.removeLive(ctx, jobs)
	}
	if err = w.remove(ctx, replaced, b); err != nil {
		return 0, err
	}
	if err = b.write(ctx, w); err != nil {
		return 0, err
	}
	return n, w.removeLive(ctx, jobs)
}

type version struct{ seq, revision int64 }

// This method finds those of the given jobs that are already in history. It also returns the
// highest sequence number of any job.
func (w *writer) known(ctx context.Context, jobs []Finished) (known map[Key]version, last int64, err error) {
	known = map[Key]version{}
	ids := make([]any, len(jobs))
	for i, f := range jobs {
		ids[i] = string(f.Job.ID)
	}
	err = w.query(ctx, "SELECT job_id, accepted_revision, seq, run_revision FROM finished_jobs WHERE job_id IN "+placeholders(len(ids)), ids, func(r *sql.Rows) error {
		var k Key
		var v version
		if bad := r.Scan(&k.ID, &k.Accepted, &v.seq, &v.revision); bad != nil {
			return bad
		}
		known[k] = v
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	err = w.query(ctx, "SELECT COALESCE(MAX(seq), 0) FROM finished_jobs", nil, func(r *sql.Rows) error { return r.Scan(&last) })
	return known, last, err
}

// The method `remove` deletes earlier versions of jobs, and subtracts their usage from the sums.
func (w *writer) remove(ctx context.Context, seqs []int64, b *batch) error {
	if len(seqs) == 0 {
		return nil
	}
	args := make([]any, len(seqs))
	for i, seq := range seqs {
		args[i] = seq
	}
	in := placeholders(len(seqs))
	err := w.query(ctx, `SELECT j.tenant, j.queue, j.submitted_by, u.day, u.model, u.region, u.gpu_milliseconds, u.jobs
		FROM job_usage u JOIN finished_jobs j ON j.seq = u.job_seq WHERE u.job_seq IN `+in, args, func(r *sql.Rows) error {
		var g group
		var day scannedTime
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

// removeRows deletes jobs from every table except the sums of usage. Triggers in the database update the job counts.
func (w *writer) removeRows(ctx context.Context, in string, seqs []any) error {
	for _, from := range []string{"job_usage WHERE job_seq", "attempts WHERE job_seq", "placements WHERE job_seq", "transitions WHERE job_seq", "finished_jobs WHERE seq"} {
		if _, err := w.tx.ExecContext(ctx, w.dialect.bind("DELETE FROM "+from+" IN "+in), seqs...); err != nil {
			return err
		}
	}
	return nil
}

// The function `placeholders` returns a list of n SQL parameters in parentheses.
func placeholders(n int) string { return "(" + strings.Repeat("?, ", n-1) + "?)" }

// A group identifies one row of the table usage_daily.
type group struct {
	tenant, day, queue, user string
	kind                     Kind
}

type sums struct{ ms, jobs int64 }

// A batch holds the rows that one transaction writes.
type batch struct {
	dialect                                     dialect
	jobs, attempts, places, transitions, usages *rows
	groups                                      map[group]sums
	days                                        map[string][2]int64 // first and last revision of each day, by day of acceptance
}

func newBatch(d dialect) *batch {
	return &batch{
		dialect:     d,
		jobs:        &rows{table: "finished_jobs", columns: slices.Concat([]string{"seq"}, commonColumns, []string{"gpu_milliseconds", "digest", "record"})},
		attempts:    &rows{table: "attempts", columns: []string{"job_seq", "number", "fence", "placed_at", "started_at", "ended_at", "outcome", "reason", "exit_code", "score", "seats"}},
		places:      &rows{table: "placements", columns: []string{"job_seq", "attempt", "rank", "node", "device", "device_index", "milli", "model", "region", "seat_state", "exit_code"}},
		transitions: &rows{table: "transitions", columns: []string{"job_seq", "position", "at", "phase", "attempt", "message"}},
		usages:      &rows{table: "job_usage", columns: []string{"job_seq", "day", "model", "region", "gpu_milliseconds", "jobs"}},
		groups:      map[group]sums{}, days: map[string][2]int64{},
	}
}

// This method adds all rows of a job to the batch.
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
	b.jobs.add(slices.Concat([]any{seq}, b.dialect.common(j, r), []any{total, j.Digest[:], kept})...)
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

// This function returns the time at which the job first ran, or the zero time if it never ran.
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
