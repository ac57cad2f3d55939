package ares

import (
	"math"
	"time"
)

// Backoff is the delay before try n (from 0) of a job:
// min(initial × multiplier^n, max) ± 25 %, and never past half the time that
// is left to the deadline.
func Backoff(id JobID, r RetryPolicy, n int, now, deadline time.Time) time.Duration {
	seconds := min(r.InitialBackoffSeconds*math.Pow(r.Multiplier, float64(n)), r.MaxBackoffSeconds)
	seconds *= 1 + 0.25*jitter(id, n)
	d := time.Duration(seconds * float64(time.Second))
	if !deadline.IsZero() {
		d = min(d, max(deadline.Sub(now)/2, 0))
	}
	return d
}
