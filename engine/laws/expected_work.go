package laws

import (
	"cmp"
	"math"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// workRank is the rank of a waiting job within its class and queue, in the order by expected work. The rank is
// compared field by field, in the order of the fields.
type workRank struct {
	due      time.Time // of an urgent deadline; zero without one, which comes last
	priority int       // higher is earlier
	work     int64     // less is earlier
}

// compare returns a negative number if rank a comes before rank b. Equal ranks are ordered by submission.
func (a workRank) compare(b workRank) int {
	if urgent, other := !a.due.IsZero(), !b.due.IsZero(); urgent || other {
		if urgent != other {
			return map[bool]int{true: -1, false: 1}[urgent]
		}
		return cmp.Compare(a.due.UnixMilli(), b.due.UnixMilli())
	}
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.work, b.work))
}

// workRankOf returns the rank of a waiting job in the order by expected work.
func (t *checker) workRankOf(job *ares.Job) workRank {
	priority := risenPriority(job, t.plan.Now, t.cfg.AgeingStep)
	out := workRank{due: t.urgentDue(job), priority: min(priority-ares.ClassOf(priority).Floor(), 2047)}
	run, _ := t.state.Run(job.ID)
	done := run.Done(job, time.Time{})
	runtime, next := job.MaxRuntime(), job.MaxRuntime()
	if f, ok := t.state.Forecast(job.ID); ok {
		runtime, next = f.P50, max(f.P50, f.P90)
	} else if runtime == 0 {
		runtime, next, done = time.Hour, time.Hour, 0 // nothing is known, so what is done says nothing about the rest
	}
	if runtime <= done {
		runtime = max(next, time.Second)
	}
	for runtime <= done {
		runtime *= 2
	}
	left := min(max(runtime-done, time.Minute), 10*365*24*time.Hour)
	root := math.Floor(math.Sqrt(min(gpuCount(job)*1000, 1<<24) * 1000))
	out.work = int64(math.Floor(float64(left.Milliseconds()) * root / 1000))
	// As far as forecasts are in doubt, the jobs that have not run yet are more alike: all need an hour if they are in
	// full doubt.
	if f, ok := t.state.Forecast(job.ID); ok && f.Doubt > 0 && len(run.Attempts) == 0 {
		hour := float64(time.Hour.Milliseconds())
		out.work = int64(hour * math.Pow(float64(out.work)/hour, 1-float64(min(f.Doubt, 100))/100))
	}
	return out
}

// risenPriority returns the priority of a waiting job in the order by expected work. A job below class normal moves to
// the floor of the next class, up to class normal, as soon as its age has raised it there.
func risenPriority(job *ares.Job, now time.Time, step time.Duration) int {
	p := job.PriorityValue()
	if step <= 0 {
		return p
	}
	risen := p + int(max(now.Sub(job.AcceptedAt), 0)/step)
	for _, class := range []ares.Class{ares.Low, ares.Normal} {
		if p < class.Floor() && risen >= class.Floor() {
			p = class.Floor()
		}
	}
	return p
}

// urgentDue returns the time by which a job is due if its deadline is urgent, in the order by expected work: at most
// 2000 ageing steps before the latest start with which the job meets the deadline. A job that cannot meet its deadline
// has three times the time from its acceptance, and so on up to 27 times.
func (t *checker) urgentDue(job *ares.Job) time.Time {
	given := job.Deadline.Sub(job.AcceptedAt)
	if job.Deadline.IsZero() || given <= 0 {
		return time.Time{}
	}
	need := t.runtimeForDeadline(job, given)
	waited := max(t.plan.Now.Sub(job.AcceptedAt), 0)
	for _, factor := range []time.Duration{1, 3, 9, 27} {
		n := given * factor
		if n/factor != given || n > math.MaxInt64/6 {
			break
		}
		if latest := n - need; waited < latest {
			if waited < latest-2000*t.cfg.AgeingStep {
				return time.Time{}
			}
			return job.AcceptedAt.Add(n)
		}
	}
	return time.Time{}
}

// A turn is the turn of a queue at which a job is placed.
type turn struct {
	job     *ares.Job
	class   ares.Class // with which the queue came to its turn
	overdue bool       // the job is placed before others of its queue because it is overdue
}

// turnOf returns the turn at which a job is placed. An overdue job is placed when it is the turn of its queue, and then
// the queue's highest class counts.
func (t *checker) turnOf(p *placement) turn {
	out := turn{job: p.job, class: WaitingClass(&t.cfg, p.job, t.plan.Now), overdue: t.isOverdueShare(p)}
	if !out.overdue {
		return out
	}
	placed := map[ares.JobID]bool{}
	for i := range t.plan.Place[:p.index] {
		placed[t.plan.Place[i].Job] = true
	}
	for job, run := range t.state.Jobs() {
		if placed[job.ID] || t.ledger.accountOf(job) != t.ledger.accountOf(p.job) || !t.isPlaceable(job, run) {
			continue
		}
		if class := WaitingClass(&t.cfg, job, t.plan.Now); class.Rank() > out.class.Rank() {
			out.class = class
		}
	}
	return out
}

// isOverdueShare reports whether the order allows a placement because the job is overdue: it has waited for
// OverdueAfter, and so had no other running job of its queue that waited at least half as long, or these jobs and this
// one use no more than OverdueShare of the GPUs that the queue uses.
func (t *checker) isOverdueShare(p *placement) bool {
	after := t.cfg.Queue.OverdueAfter
	waited := t.plan.Now.Sub(waitingSince(p.job, &p.run, len(p.run.Attempts)))
	if t.cfg.Queue.Order != config.OrderExpectedWork || after <= 0 || waited < after {
		return false
	}
	counts := func(waitedToo time.Duration) bool { return waitedToo >= max(after, waited/2) }
	sameQueue := func(job *ares.Job) bool { return t.ledger.accountOf(job) == t.ledger.accountOf(p.job) }
	var used int64
	for job, run := range t.state.Jobs() {
		if run == nil || run.Current() == nil || !sameQueue(job) {
			continue
		}
		if a := run.Current(); counts(a.PlacedAt.Sub(waitingSince(job, run, len(run.Attempts)-1))) {
			used += attemptMilli(a)
		}
	}
	for i := range t.plan.Place[:p.index] {
		pl := &t.plan.Place[i]
		job, ok := t.state.Job(cmp.Or(pl.ArrayOf, pl.Job))
		if !ok || !sameQueue(job) {
			continue
		}
		run, _ := t.state.Run(job.ID)
		earlier := placement{Placing: pl, index: i, job: job, run: run}
		// A nominated job gets its seats before the order matters. It counts from the next cycle on.
		if !earlier.isOnNominatedSeats() && counts(t.plan.Now.Sub(waitingSince(job, &run, len(run.Attempts)))) {
			used += seatMilli(pl.Seats)
		}
	}
	use := t.ledger.accountOf(p.job).current.use
	return used == 0 || (used+seatMilli(p.Seats))*100 <= int64(t.cfg.Queue.OverdueShare)*int64(use.GPUs*1000+use.GPUMilli)
}

// waitingSince returns the time since which a job waited after the given number of attempts.
func waitingSince(job *ares.Job, run *ares.Run, attempts int) time.Time {
	since := job.AcceptedAt
	if attempts > 0 && run.Attempts[attempts-1].EndedAt.After(since) {
		since = run.Attempts[attempts-1].EndedAt
	}
	return since
}
