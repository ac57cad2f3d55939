package pipeline

import (
	"cmp"
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// Rate holds two limits on the calls of one caller: how many calls per second are allowed, and how many may
// come at once after a pause. Rate applies to users and their programs, but not to agents.
type Rate struct {
	PerSecond float64 // 0 means no limit
	Burst     int
	// Setting is the key of the limit in the server's configuration, for error messages. The default is
	// limits.calls_per_second.
	Setting string
	// If Shared is not nil, it counts each caller's calls at all servers. The shared count may be unavailable.
	Shared Shared
}

// Shared is a counter of each caller's calls at all servers.
type Shared interface {
	// Spend counts one call. If the caller is over the limit, Spend returns how long the caller should wait.
	// The result `known` is false if the shared count is unavailable.
	Spend(ctx context.Context, who string, perSecond float64, burst int) (wait time.Duration, known bool)
}

// RateLimiter holds the token buckets of one server's callers.
type RateLimiter struct {
	Rate
	shed func(class string) // may be nil
	Now  func() time.Time

	mu      sync.Mutex
	Buckets map[string]*rate.Limiter
	sweep   int // when there are this many buckets, full ones are removed
}

// LeastBuckets is a threshold for the removal of token buckets. A server with fewer buckets than this
// threshold keeps even the buckets of idle callers.
const LeastBuckets = 1024

func NewRates(r Rate, shed func(string)) *RateLimiter {
	if r.PerSecond <= 0 {
		return nil
	}
	return &RateLimiter{Rate: r, shed: shed, Now: time.Now, Buckets: map[string]*rate.Limiter{}, sweep: LeastBuckets}
}

// Spend counts a call against its caller's rate, or rejects it. This server's
// own limit always applies, so the shared count can only reject more calls.
func (r *RateLimiter) Spend(ctx context.Context, who string) error {
	if r == nil {
		return nil
	}
	now := r.Now()
	own := r.bucket(who, now).ReserveN(now, 1)
	if wait := own.DelayFrom(now); wait > 0 {
		own.CancelAt(now)
		return r.refuse(who, wait)
	}
	if r.Shared == nil {
		return nil
	}
	if wait, known := r.Shared.Spend(ctx, who, r.PerSecond, r.Burst); known && wait > 0 {
		own.CancelAt(now)
		return r.refuse(who, wait)
	}
	return nil
}

func (r *RateLimiter) refuse(who string, wait time.Duration) error {
	if r.shed != nil {
		r.shed("rate")
	}
	err := ares.Errorf(ares.Exhausted, "%s makes too many calls: the limit is %v per second (%s); try again in %s", who, r.PerSecond, cmp.Or(r.Setting, "limits.calls_per_second"), max(wait, time.Millisecond).Round(time.Millisecond))
	return apipb.WithRetryAfter(apipb.ToStatus(err), max(wait, time.Millisecond))
}

// The method `bucket` returns the bucket of a caller. A missing bucket counts as full, so the server can
// remove full buckets when there are many.
func (r *RateLimiter) bucket(who string, now time.Time) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.Buckets[who]; b != nil {
		return b
	}
	if len(r.Buckets) >= r.sweep {
		for other, b := range r.Buckets { // order-free: each is independent
			if b.TokensAt(now) >= float64(r.Burst) {
				delete(r.Buckets, other)
			}
		}
		r.sweep = max(LeastBuckets, 2*len(r.Buckets))
	}
	b := rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst)
	r.Buckets[who] = b
	return b
}
