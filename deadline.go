package ares

import (
	"fmt"
	"time"
)

// Lateness is what was noted of a job's deadline in its run.
type Lateness string

// The notes, in their order.
const (
	LatenessNone   Lateness = ""
	LatenessRisk   Lateness = "at_risk" // by its predicted runtime it would be late
	LatenessMissed Lateness = "missed"  // the deadline is past, and the job has not ended
)

// Noting notes in one job's run how it stands to its deadline.
type Noting struct {
	Job      JobID
	Lateness Lateness
	Text     string
}

// NoteLateness notes it, once for each.
func (r *Run) NoteLateness(n *Noting, now time.Time) error {
	if r.Phase.Final() || r.Lateness == LatenessMissed || r.Lateness == n.Lateness {
		return Errorf(Conflict, "the job is %s, and %q is noted of its deadline already", r.Phase, r.Lateness)
	}
	r.Lateness = n.Lateness
	r.note(now, n.Text)
	return nil
}

// MetDeadline says whether a job that has ended was done in time, and whether that
// is a question: it is not of jobs without a deadline, and of those that somebody
// cancelled before it.
func (r *Run) MetDeadline(j *Job) (met, asked bool) {
	if j.Deadline.IsZero() || !r.Phase.Final() {
		return false, false
	}
	intime := !r.FinishedAt.After(j.Deadline)
	return r.Phase == Succeeded && intime, r.Phase != Cancelled || !intime
}

// EnoughRuns is from how many runs on the p90 of jobs like them rests on these runs
// alone. With fewer it is partly a guess, and a long one.
const EnoughRuns = 28

// Outlook is how a job that has not ended stands to its deadline.
type Outlook struct {
	Deadline time.Time
	// Half of the jobs like it would end by P50, and nine of ten by P90, if it
	// starts now or goes on running. Both are zero where nobody knows.
	P50, P90 time.Time
	Runtime  time.Duration // that nine of ten like it do not exceed
}

// Outlook tells it from a prediction.
func (j *Job) Outlook(r *Run, p RuntimePredicted, now time.Time) Outlook {
	done := time.Duration(0)
	if r != nil {
		done = r.Done(j, now)
	}
	half, late := p.P50, max(p.P50, p.P90)
	out := Outlook{Deadline: j.Deadline, Runtime: late}
	if p.Samples < EnoughRuns {
		return out
	}
	if j.IsArray() { // each wave of elements as long as usual, and the last one long
		waves := (j.Array.Count + max(j.Array.Parallelism, 1) - 1) / max(j.Array.Parallelism, 1)
		ahead := time.Duration(waves-1) * min(half, MaxMinutes*time.Minute)
		half, late = ahead+half, ahead+late
		out.Runtime = late
	}
	out.P50, out.P90 = now.Add(max(half-done, 0)), now.Add(max(late-done, 0))
	return out
}

// Late is by how much the job misses its deadline with P90, not positive when it
// does not, or when nobody knows.
func (o *Outlook) Late() time.Duration {
	if o.P90.IsZero() {
		return 0
	}
	return o.P90.Sub(o.Deadline)
}

// String says what is to be expected.
func (o *Outlook) String() string {
	at := o.Deadline.UTC().Format(time.RFC3339)
	switch late := o.Late(); {
	case o.P90.IsZero():
		return fmt.Sprintf("deadline %s: too few runs like it are known to say whether it will be met", at)
	case late.Abs() <= o.Runtime/20:
		return fmt.Sprintf("deadline %s: p90 of its runtime is %s, so it has to start now", at, briefly(o.Runtime))
	case late > 0:
		return fmt.Sprintf("deadline %s: p90 of its runtime is %s, so it would end %s late", at, briefly(o.Runtime), briefly(late))
	default:
		return fmt.Sprintf("deadline %s: p90 of its runtime is %s, so it has %s to spare", at, briefly(o.Runtime), briefly(-late))
	}
}

// briefly is a duration as people say it: 2h05m, 3m20s, 12s.
func briefly(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d >= time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
