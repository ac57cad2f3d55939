package ares

import (
	"slices"
)

// The function `retryable` reports whether a retry policy allows a retry after this failure.
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

// The map `severity` assigns a severity to each outcome of a rank. The outcome that best explains the end of a gang has
// the highest severity. If a rank was only stopped, its result does not explain why the gang ended.
var severity = map[Outcome]int{
	OutcomeSucceeded: 0, OutcomeStopped: 1, OutcomeFailed: 2, OutcomeSignaled: 3,
	OutcomeTimeout: 4, OutcomeSpawnError: 5, OutcomeLost: 6,
}

// The method `worst` returns the most severe result of all ranks. This result decides the outcome of the attempt. If
// several results are equally severe, it returns the earliest one.
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
