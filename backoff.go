package ares

import (
	"math"
	"time"
)

// Backoff returns the delay before retry n of a job, where n starts at 0. The delay is min(initial × multiplier^n,
// max) ± 25 %. If the job's deadline is still ahead, the delay is at most half of the time left. This limit never
// shortens the delay below the initial delay. A job that fails immediately each time gains nothing from more
// retries.
func Backoff(id JobID, r RetryPolicy, n int, now, deadline time.Time) time.Duration {
	seconds := min(r.InitialBackoffSeconds*math.Pow(r.Multiplier, float64(n)), r.MaxBackoffSeconds)
	seconds *= 1 + 0.25*jitter(id, n)
	d := time.Duration(seconds * float64(time.Second))
	if left := deadline.Sub(now); !deadline.IsZero() && left > 0 {
		d = min(d, max(left/2, time.Duration(r.InitialBackoffSeconds*float64(time.Second))))
	}
	return d
}

// RetryLimit is how often the job is tried again after a failure.
func (j *Job) RetryLimit() int {
	switch {
	case j.Mode == AtMostOnce:
		return 0
	case j.Retry.MaxRetries != nil:
		return *j.Retry.MaxRetries
	}
	return DefaultMaxRetries
}
