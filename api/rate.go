package api

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// Rate is how many calls one caller makes in a second, and how many at once after a
// rest. It is for people and programs; agents have none.
type Rate struct {
	PerSecond float64 // 0 for no bound
	Burst     int
	// Shared, if there is one, counts over all servers. It may not know.
	Shared Shared
}

// Shared counts the calls of one caller at all servers.
type Shared interface {
	// Spend counts one call, and says for how long its caller should wait if it is
	// one too many. known is false when that is not known now.
	Spend(ctx context.Context, who string, perSecond float64, burst int) (wait time.Duration, known bool)
}

// rates is the buckets of the callers of one server.
type rates struct {
	Rate
	shed func(class string) // may be nil
	now  func() time.Time

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
	sweep   int // at so many, full ones are forgotten
}

// leastBuckets is from how many callers on those are forgotten that rest.
const leastBuckets = 1024

func newRates(r Rate, shed func(string)) *rates {
	if r.PerSecond <= 0 {
		return nil
	}
	return &rates{Rate: r, shed: shed, now: time.Now, buckets: map[string]*rate.Limiter{}, sweep: leastBuckets}
}

// spend counts a call, or refuses it. This server's own count holds whatever others
// say, so one that is shared can only be stricter.
func (r *rates) spend(ctx context.Context, who string) error {
	if r == nil {
		return nil
	}
	now := r.now()
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

func (r *rates) refuse(who string, wait time.Duration) error {
	if r.shed != nil {
		r.shed("rate")
	}
	err := ares.Errorf(ares.Exhausted, "%s makes more than %v calls in a second, which is the most (limits.calls_per_second): try again in %s", who, r.PerSecond, max(wait, time.Millisecond).Round(time.Millisecond))
	return apipb.WithRetryAfter(apipb.ToStatus(err), max(wait, time.Millisecond))
}

// bucket finds the one of a caller. A full one is as good as none, so those are
// forgotten when there are many.
func (r *rates) bucket(who string, now time.Time) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.buckets[who]; b != nil {
		return b
	}
	if len(r.buckets) >= r.sweep {
		for other, b := range r.buckets { // order-free: each by itself
			if b.TokensAt(now) >= float64(r.Burst) {
				delete(r.buckets, other)
			}
		}
		r.sweep = max(leastBuckets, 2*len(r.buckets))
	}
	b := rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst)
	r.buckets[who] = b
	return b
}
