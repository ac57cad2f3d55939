package rediscache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	ares "github.com/ares-scheduler/ares"
)

// Logging is switched off, because the library logs to standard error in its own format. This
// package writes no log lines. Instead, it calls Observe with the outcome of each call to Redis.
func init() { logging.Disable() }

// Config says how to reach Redis.
type Config struct {
	// URL is the address, such as redis://user:password@host:6379/0, or rediss://
	// for TLS.
	URL string
	// Timeout limits one call. Default: 25 ms.
	Timeout time.Duration
	// Remember is how long Redis stores an accepted request. Default: 1 h.
	Remember time.Duration
	// Observe is called with the outcome of each call. May be nil.
	Observe func(op string, outcome Outcome)
}

// Outcome is the outcome of a call to Redis. The values of Outcome are used as metric labels.
type Outcome string

// The outcomes.
const (
	Answered     Outcome = "answered"
	Missing      Outcome = "missing" // the key does not exist
	Failed       Outcome = "failed"  // an error or a timeout
	Inconsistent Outcome = "lied"    // an impossible answer
	Resting      Outcome = "resting" // not called, because earlier calls failed
	Dropped      Outcome = "dropped" // the queue of writes was full
)

// After maxFailures failed calls in a row, Redis is not called for the duration restFor.
const (
	maxFailures = 3
	restFor     = time.Second
	maxWrites   = 4096
)

// Redis is a client of the Redis server that all Ares servers share. Redis is safe for concurrent
// use.
type Redis struct {
	cfg    Config
	client *redis.Client
	writes chan accepted
	failed atomic.Int32
	rest   atomic.Int64 // not called before this time, in Unix nanoseconds
}

// This type is an accepted request that is queued for writing to Redis.
type accepted struct {
	id     ares.JobID
	digest ares.Digest
}

// Open parses the URL. Open does not connect, because each call finds out
// whether Redis is available.
func Open(cfg Config) (*Redis, error) {
	opts, err := redis.ParseURL(cfg.URL)
	if err != nil {
		return nil, ares.Errorf(ares.Invalid, "%s is not a Redis URL: use the form redis://host:6379/0 or rediss://host:6379/0", Redacted(cfg.URL))
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 25 * time.Millisecond
	}
	if cfg.Remember <= 0 {
		cfg.Remember = time.Hour
	}
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = cfg.Timeout, cfg.Timeout, cfg.Timeout, cfg.Timeout
	opts.MaxRetries, opts.ContextTimeoutEnabled, opts.DisableIdentity = -1, true, true
	return &Redis{cfg: cfg, client: redis.NewClient(opts), writes: make(chan accepted, maxWrites)}, nil
}

// Redacted returns a URL without its secrets.
func Redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "what was given"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// Run writes accepted requests until ctx ends.
func (r *Redis) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), r.client.Close())
		case n := <-r.writes:
			_, _ = r.ask(ctx, "note", func(ctx context.Context) (string, error) { // an error costs only speed, because the store knows the request
				return "", r.client.Set(ctx, requestKey(n.id), hex.EncodeToString(n.digest[:]), r.cfg.Remember).Err()
			})
		}
	}
}

// MarkSeen remembers an accepted request. MarkSeen does not wait for the write.
func (r *Redis) MarkSeen(id ares.JobID, digest ares.Digest) {
	select {
	case r.writes <- accepted{id, digest}:
	default:
		r.tell("note", Dropped)
	}
}

// Seen reports whether a request with this digest seems to have been accepted.
func (r *Redis) Seen(ctx context.Context, id ares.JobID, digest ares.Digest) bool {
	text, ok := r.ask(ctx, "recall", func(ctx context.Context) (string, error) { return r.client.Get(ctx, requestKey(id)).Result() })
	return ok && text == hex.EncodeToString(digest[:])
}

func requestKey(id ares.JobID) string { return "ares:request:" + string(id) }

// The script `spend` implements the generic cell rate algorithm. The value in Redis is the time at
// which the bucket of the rate limiter is full again. The script uses the clock of Redis, because
// all servers share it. The library redis_rate has the same algorithm, but panics if Redis answers
// with an unexpected type. In Ares, a wrong answer from Redis must do no harm.
var spend = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local full = tonumber(redis.call('GET', KEYS[1]) or '0')
if full < now then full = now end
full = full + ARGV[1]
local over = full - now - ARGV[2]
if over > 0 then return over end
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', string.format('%.0f', (full - now) / 1000 + 1000))
return 0
`)

// Spend counts one call against a caller's rate. Spend returns how long the caller must wait, or 0
// if it need not wait. If Redis gave no usable answer, the result "known" is false.
func (r *Redis) Spend(ctx context.Context, who string, perSecond float64, burst int) (wait time.Duration, known bool) {
	each := time.Duration(float64(time.Second) / perSecond)
	all := each * time.Duration(burst)
	sum := sha256.Sum256([]byte(who))
	text, known := r.ask(ctx, "spend", func(ctx context.Context) (string, error) {
		n, err := spend.Run(ctx, r.client, []string{"ares:rate:" + hex.EncodeToString(sum[:16])}, each.Microseconds(), all.Microseconds()).Int64()
		if wait = time.Duration(n) * time.Microsecond; err == nil && (n < 0 || wait > each) {
			// A negative wait, or a wait longer than the interval between two allowed calls, cannot
			// be right.
			return "", errInconsistent
		}
		return "spent", err
	})
	if !known || text == "" {
		return 0, false
	}
	return wait, true
}

var errInconsistent = errors.New("Redis sent an invalid response")

// This method calls Redis, unless Redis has failed too often recently.
func (r *Redis) ask(ctx context.Context, op string, call func(context.Context) (string, error)) (string, bool) {
	if time.Now().UnixNano() < r.rest.Load() {
		r.tell(op, Resting)
		return "", false
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	text, err := call(ctx)
	switch {
	case err == nil:
		r.failed.Store(0)
		r.tell(op, Answered)
		return text, true
	case errors.Is(err, redis.Nil):
		r.failed.Store(0)
		r.tell(op, Missing)
		return "", false
	case errors.Is(err, errInconsistent):
		r.tell(op, Inconsistent)
	default:
		r.tell(op, Failed)
	}
	if r.failed.Add(1) >= maxFailures {
		r.rest.Store(time.Now().Add(restFor).UnixNano())
	}
	return "", false
}

func (r *Redis) tell(op string, outcome Outcome) {
	if r.cfg.Observe != nil {
		r.cfg.Observe(op, outcome)
	}
}
