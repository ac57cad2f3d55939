package aside

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

// The library writes lines of its own to standard error, between those of the
// server's log and not in its format. What becomes of calls is told by Observe.
func init() { logging.Disable() }

// Config says where the Redis is.
type Config struct {
	// URL such as redis://user:password@host:6379/0, or rediss:// for TLS.
	URL string
	// Timeout bounds one answer. Default 25 ms.
	Timeout time.Duration
	// Remember is for how long an accepted request is remembered. Default 1 h.
	Remember time.Duration
	// Observe hears of each call and what became of it; nil for nobody.
	Observe func(op string, outcome Outcome)
}

// Outcome is what became of a call of Redis.
type Outcome string

// What becomes of calls.
const (
	Answered Outcome = "answered"
	Missing  Outcome = "missing" // it knows nothing of that
	Failed   Outcome = "failed"  // an error, or no answer in time
	Lied     Outcome = "lied"    // an answer that cannot be
	Resting  Outcome = "resting" // it was not asked, after failures
	Dropped  Outcome = "dropped" // there was too much to write down
)

// After so many failures in a row nobody asks for a while.
const (
	failuresMost = 3
	restFor      = time.Second
	notesMost    = 4096
)

// Redis is one, however many servers share it. It is safe for concurrent use.
type Redis struct {
	cfg    Config
	client *redis.Client
	notes  chan note
	failed atomic.Int32
	rest   atomic.Int64 // until then nobody asks, in Unix nanoseconds
}

// note is a request that was accepted.
type note struct {
	id     ares.JobID
	digest ares.Digest
}

// Open reads the URL. It does not need to reach anything: whether Redis is there
// is found out with each call.
func Open(cfg Config) (*Redis, error) {
	opts, err := redis.ParseURL(cfg.URL)
	if err != nil {
		return nil, ares.Errorf(ares.Invalid, "%s is not the URL of a Redis: give one like redis://host:6379/0 or rediss://host:6379/0", Redacted(cfg.URL))
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 25 * time.Millisecond
	}
	if cfg.Remember <= 0 {
		cfg.Remember = time.Hour
	}
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = cfg.Timeout, cfg.Timeout, cfg.Timeout, cfg.Timeout
	opts.MaxRetries, opts.ContextTimeoutEnabled, opts.DisableIdentity = -1, true, true
	return &Redis{cfg: cfg, client: redis.NewClient(opts), notes: make(chan note, notesMost)}, nil
}

// Redacted is a URL without its secrets, for people to read.
func Redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "what was given"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// Run writes down what was accepted, until ctx ends.
func (r *Redis) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), r.client.Close())
		case n := <-r.notes:
			_, _ = r.ask(ctx, "note", func(ctx context.Context) (string, error) { // the store knows it: this is for speed alone
				return "", r.client.Set(ctx, requestKey(n.id), hex.EncodeToString(n.digest[:]), r.cfg.Remember).Err()
			})
		}
	}
}

// Note has a request remembered that was accepted. It does not wait.
func (r *Redis) Note(id ares.JobID, digest ares.Digest) {
	select {
	case r.notes <- note{id, digest}:
	default:
		r.tell("note", Dropped)
	}
}

// Recall says whether a request of this digest seems to have been accepted before.
func (r *Redis) Recall(ctx context.Context, id ares.JobID, digest ares.Digest) bool {
	text, ok := r.ask(ctx, "recall", func(ctx context.Context) (string, error) { return r.client.Get(ctx, requestKey(id)).Result() })
	return ok && text == hex.EncodeToString(digest[:])
}

func requestKey(id ares.JobID) string { return "ares:request:" + string(id) }

// spend is the generic cell rate algorithm: the key holds when the bucket would be
// full again. By the clock of Redis, which all servers share.
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

// Spend counts a call of somebody who may make so many in a second, and so many at
// once. It returns for how long the caller should wait, 0 for not at all; known is
// false when Redis does not say, or says what cannot be.
func (r *Redis) Spend(ctx context.Context, who string, perSecond float64, burst int) (wait time.Duration, known bool) {
	each := time.Duration(float64(time.Second) / perSecond)
	all := each * time.Duration(burst)
	sum := sha256.Sum256([]byte(who))
	text, known := r.ask(ctx, "spend", func(ctx context.Context) (string, error) {
		n, err := spend.Run(ctx, r.client, []string{"ares:rate:" + hex.EncodeToString(sum[:16])}, each.Microseconds(), all.Microseconds()).Int64()
		if wait = time.Duration(n) * time.Microsecond; err == nil && (n < 0 || wait > each) {
			// Who was let through last was within its rate, so nobody ever waits for
			// longer than until one more call is.
			return "", errLie
		}
		return "spent", err
	})
	if !known || text == "" {
		return 0, false
	}
	return wait, true
}

var errLie = errors.New("redis says what cannot be")

// ask calls Redis, if that seems worth it, for a moment.
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
	case errors.Is(err, errLie):
		r.tell(op, Lied)
	default:
		r.tell(op, Failed)
	}
	if r.failed.Add(1) >= failuresMost {
		r.rest.Store(time.Now().Add(restFor).UnixNano())
	}
	return "", false
}

func (r *Redis) tell(op string, outcome Outcome) {
	if r.cfg.Observe != nil {
		r.cfg.Observe(op, outcome)
	}
}
