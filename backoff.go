package ares

import (
	"math"
	"time"
)

// Backoff is the delay before try n (from 0) of a job:
// min(initial × multiplier^n, max) ± 25 %. A deadline that is yet to come
// shortens it to half of the time that is left, but not below the first delay:
// where every try fails at once, more of them help nobody.
func Backoff(id JobID, r RetryPolicy, n int, now, deadline time.Time) time.Duration {
	seconds := min(r.InitialBackoffSeconds*math.Pow(r.Multiplier, float64(n)), r.MaxBackoffSeconds)
	seconds *= 1 + 0.25*jitter(id, n)
	d := time.Duration(seconds * float64(time.Second))
	if left := deadline.Sub(now); !deadline.IsZero() && left > 0 {
		d = min(d, max(left/2, time.Duration(r.InitialBackoffSeconds*float64(time.Second))))
	}
	return d
}
