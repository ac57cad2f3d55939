package ares

import (
	"fmt"
	"time"
)

// Lateness says whether a job is expected to meet its deadline, and is stored in the job's run.
type Lateness string

// These are the values of Lateness, in the order in which a job passes through them.
const (
	LatenessNone   Lateness = ""
	LatenessRisk   Lateness = "at_risk" // its predicted end is after the deadline
	LatenessMissed Lateness = "missed"  // the deadline has passed and the job has not ended
)

// Noting is the part of a plan that records a job's Lateness in its run.
type Noting struct {
	Job      JobID
	Lateness Lateness
	Text     string
}

// MetDeadline reports whether an ended job met its deadline. The result `asked` is false if the job has no deadline
// or was cancelled before its deadline.
func (r *Run) MetDeadline(j *Job) (met, asked bool) {
	if j.Deadline.IsZero() || !r.Phase.Final() {
		return false, false
	}
	intime := !r.FinishedAt.After(j.Deadline)
	return r.Phase == Succeeded && intime, r.Phase != Cancelled || !intime
}

// EnoughRuns is the number of runs of a job from which on its deadline is compared with its predicted p90. From nine runs on,
// the p90 of these runs alone covers 90 % of the next ones. Runs of other jobs do not count, so they never make a job
// count as late.
const EnoughRuns = 9

// Outlook compares the expected end of an unfinished job with its deadline.
type Outlook struct {
	Deadline time.Time
	// P50 and P90 are predicted end times of the job: the median and the 90th percentile. They assume that the job
	// starts now or keeps running. P50 and P90 are zero when no prediction exists.
	P50, P90 time.Time
	Runtime  time.Duration // p90 of its runtime
}

// Outlook computes the job's outlook from a prediction. The prediction is rounded first, for everybody: a deadline is accepted
// or rejected, and a risk is noted, at an instant that follows from it, so a tenant could otherwise find out the exact value by
// trying deadlines.
func (j *Job) Outlook(r *Run, p RuntimePredicted, now time.Time) Outlook {
	done := time.Duration(0)
	if r != nil {
		done = r.Done(j, now)
	}
	half, late := RoundRuntime(p.P50), RoundRuntime(max(p.P50, p.P90))
	if limit := j.MaxRuntime(); limit > 0 { // rounding must not exceed it
		half, late = min(half, limit), min(late, limit)
	}
	out := Outlook{Deadline: j.Deadline, Runtime: late}
	if p.Own < EnoughRuns {
		return out
	}
	if j.IsArray() { // every wave of elements takes the median, the last one the p90
		waves := (j.Array.Count + max(j.Array.Parallelism, 1) - 1) / max(j.Array.Parallelism, 1)
		ahead := time.Duration(waves-1) * min(half, MaxMinutes*time.Minute)
		half, late = ahead+half, ahead+late
		out.Runtime = late
	}
	out.P50, out.P90 = now.Add(max(half-done, 0)), now.Add(max(late-done, 0))
	return out
}

// Late returns the time from the job's deadline to P90, the predicted end of the job. Late is zero or negative when
// the job is on time or P90 is unknown.
func (o *Outlook) Late() time.Duration {
	if o.P90.IsZero() {
		return 0
	}
	return o.P90.Sub(o.Deadline)
}

// String describes the outlook in one sentence.
func (o *Outlook) String() string {
	at := o.Deadline.UTC().Format(time.RFC3339)
	switch late := o.Late(); {
	case o.P90.IsZero():
		return fmt.Sprintf("deadline %s: no estimate: too few runs of this job have ended to predict whether it will be met", at)
	case late.Abs() <= o.Runtime/20:
		return fmt.Sprintf("deadline %s: p90 of its runtime is %s, so it has to start now", at, briefly(o.Runtime))
	case late > 0:
		return fmt.Sprintf("deadline %s: p90 of its runtime is %s, so it would end %s late", at, briefly(o.Runtime), briefly(late))
	default:
		return fmt.Sprintf("deadline %s: p90 of its runtime is %s, so it has %s to spare", at, briefly(o.Runtime), briefly(-late))
	}
}

// The function `briefly` formats a duration for people: 2h05m, 3m20s, 12s.
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
