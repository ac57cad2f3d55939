package ares

import (
	"strings"
	"time"
)

// RuntimePredicted is the predicted runtime of a job. The runtime is counted from the job's first start, without pauses. A prediction
// is deleted together with its job.
type RuntimePredicted struct {
	Job      JobID
	P50, P90 time.Duration // median and 90th percentile
	Basis    string        // the source of the prediction, for people
	// Samples is the number of runs that it is based on. If Samples is 0, there is no estimate: P50 and P90 are an
	// assumption that the scheduler plans with, and users do not see it.
	Samples int
	// Own is the number of runs of the same job that it is based on. Only these runs can make a job late.
	// Invariant: 0 <= Own <= Samples.
	Own int
	// Doubt says how little the predictions of that time told short jobs from long ones, in percent. With 100, the order
	// of a queue does not use the prediction; with 0, it uses the prediction as it is.
	Doubt int
}

// MaxIntervalFactor is the largest ratio of p90 to median that users see. A wider interval says no more than its p90.
const MaxIntervalFactor = 20

// Shown returns what users see of a prediction: the median and the p90, 0 where there is none, and the text about
// its source. Without an estimate there is neither. If the p90 is more than MaxIntervalFactor times the median, only the
// p90 is shown.
func (p *RuntimePredicted) Shown() (p50, p90 time.Duration, basis string) {
	switch {
	case p.Samples == 0:
		if basis = p.Basis; !strings.HasPrefix(basis, noEstimate) {
			basis = noEstimate + ": no similar run is known" // the record is from an earlier version
		}
		return 0, 0, basis
	case p.P90/MaxIntervalFactor > p.P50:
		return 0, p.P90, p.Basis + "; without a median, because these runs differ too much"
	}
	return p.P50, max(p.P50, p.P90), p.Basis
}

// noEstimate begins the text of a prediction that is not an estimate.
const noEstimate = "no estimate"
