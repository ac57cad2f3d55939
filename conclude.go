package ares

import (
	"fmt"
	"slices"
	"time"
)

// conclude ends the attempt under way and decides what becomes of the job:
// one place for the rules on cancel, loss, preemption, retries and failure.
func (r *Run) conclude(j *Job, now time.Time) error {
	a := r.Current()
	worst := a.worst()
	a.Outcome, a.Reason, a.ExitCode, a.EndedAt = worst.Outcome, worst.Reason, worst.ExitCode, now
	stop := r.Stop
	r.Stop = nil
	switch {
	case stop != nil && stop.Why == StopCancel:
		return r.move(Cancelled, now, "cancelled by "+stop.By)
	case worst.Outcome == OutcomeSucceeded:
		return r.move(Succeeded, now, "every rank ended with exit code 0")
	case worst.Outcome == OutcomeLost, stop != nil && stop.Why == StopLost, worst.Outcome == OutcomeStopped && stop == nil:
		r.gaveWay(a, stop, now)             // it was lost meanwhile, and whose wish it was counts all the same
		return r.lost(j, worst.Reason, now) // stopped, but nobody of ours asked: the node did
	case stop != nil && stop.Why == StopPreempt:
		r.NotBefore = now
		r.gaveWay(a, stop, now)
		return r.move(Preempted, now, "gave way to "+stop.Asker(j.Tenant))
	case stop != nil && stop.Why == StopDrain && a.wasStopped(worst.Outcome):
		return r.drained(j, a, stop.By, now)
	default:
		return r.failed(j, worst, now)
	}
}

// gaveWay keeps the reckoning of an attempt that ends while it gives way: it tells
// later decisions who may not give way to the job in turn.
func (r *Run) gaveWay(a *Attempt, stop *Stop, now time.Time) {
	if stop != nil && stop.Why == StopPreempt {
		r.Yields, a.Yield = r.Yields+1, a.reckoned(stop.Yield, now)
	}
}

// lost handles infrastructure loss, which never uses up the user's retries. A
// job lost again and again backs off, so that a bad node is not a hot loop.
func (r *Run) lost(j *Job, reason string, now time.Time) error {
	if j.Mode == AtMostOnce {
		return r.move(Lost, now, reason+"; at_most_once jobs are not run again")
	}
	r.Losses++
	if r.Losses == 1 {
		return r.move(Pending, now, reason+"; waiting for another place")
	}
	r.NotBefore = now.Add(Backoff(j.ID, j.Retry, r.Losses-2, now, j.Deadline))
	return r.move(Retrying, now, fmt.Sprintf("%s; lost %d times in a row", reason, r.Losses))
}

func (r *Run) failed(j *Job, worst RankResult, now time.Time) error {
	r.Losses = 0
	limit := DefaultMaxRetries
	if j.Retry.MaxRetries != nil {
		limit = *j.Retry.MaxRetries
	}
	if j.Mode == AtMostOnce {
		limit = 0
	}
	if !retryable(j.Retry, worst.Outcome) || r.Retries >= limit {
		reason := worst.Reason
		if limit > 0 && r.Retries >= limit {
			reason += fmt.Sprintf(" (after %d retries)", r.Retries)
		}
		return r.move(Failed, now, reason)
	}
	delay := Backoff(j.ID, j.Retry, r.Retries, now, j.Deadline)
	r.Retries++
	r.NotBefore = now.Add(delay)
	return r.move(Retrying, now, fmt.Sprintf("%s; retry %d of %d in %s", worst.Reason, r.Retries, limit, delay.Round(time.Millisecond)))
}

// retryable tells failures worth another try from final ones.
func retryable(p RetryPolicy, o Outcome) bool {
	switch o {
	case OutcomeFailed:
		return slices.Contains(p.RetryOn, RetryOnFailure)
	case OutcomeSignaled:
		return slices.Contains(p.RetryOn, RetryOnSignal)
	case OutcomeTimeout:
		return slices.Contains(p.RetryOn, RetryOnTimeout)
	case OutcomeSucceeded, OutcomeSpawnError, OutcomeStopped, OutcomeLost:
	}
	return false
}

// severity orders outcomes: what explains the end of a gang best comes last.
// A rank that was merely stopped says nothing about why.
var severity = map[Outcome]int{
	OutcomeSucceeded: 0, OutcomeStopped: 1, OutcomeFailed: 2, OutcomeSignaled: 3,
	OutcomeTimeout: 4, OutcomeSpawnError: 5, OutcomeLost: 6,
}

// worst is the result that decides the attempt: the most severe, and among
// equals the one that ended first.
func (a *Attempt) worst() RankResult {
	var w *RankResult
	for i := range a.Seats {
		res := a.Seats[i].Result
		if res == nil {
			continue
		}
		if w == nil || severity[res.Outcome] > severity[w.Outcome] ||
			severity[res.Outcome] == severity[w.Outcome] && res.EndedAt.Before(w.EndedAt) {
			w = res
		}
	}
	if w == nil {
		return RankResult{Outcome: OutcomeLost, Reason: "no rank reported"}
	}
	return *w
}
