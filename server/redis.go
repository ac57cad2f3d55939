package server

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/rediscache"
)

// RedisConfig names an optional Redis that the servers share.
type RedisConfig struct {
	// URL is the address of Redis, such as redis://user:password@host:6379/0, or
	// rediss:// for TLS. Default empty: none.
	URL string `yaml:"url"`
	// TimeoutMS is the longest wait for an answer. Default 25, 1 to 1000.
	TimeoutMS int `yaml:"timeout_ms"`
}

const defaultRedisTimeoutMS = 25

func (r *RedisConfig) check(p *ares.Problems) {
	if r.URL == "" {
		return
	}
	if _, err := rediscache.Open(rediscache.Config{URL: r.URL}); err != nil {
		p.Add("redis.url", "%s", err)
	}
}

// startRedis connects admission and the rate limits to Redis, if a Redis is configured. Redis need not be reachable at
// the start.
func (s *Server) startRedis(run context.Context, m *serverMetrics) (*rediscache.Redis, error) {
	if s.cfg.Redis.URL == "" {
		return nil, nil
	}
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ares_redis_calls_total", Help: "Calls of Redis, by outcome: answered, missing, failed, lied, resting, dropped.",
	}, []string{"op", "outcome"})
	m.registry.MustRegister(calls)
	r, err := rediscache.Open(rediscache.Config{
		URL: s.cfg.Redis.URL, Timeout: time.Duration(s.cfg.Redis.TimeoutMS) * time.Millisecond,
		Observe: func(op string, outcome rediscache.Outcome) {
			calls.WithLabelValues(op, string(outcome)).Inc()
			s.logRedis(outcome)
		},
	})
	if err != nil {
		return nil, err
	}
	s.Admission.Seen = r
	s.runPart("redis", func() error {
		if err := r.Run(run); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	return r, nil
}

// logRedis logs when calls to Redis are suspended because of failures, and when Redis answers again. logRedis does not
// log a single failed call, because the next call tries Redis again.
func (s *Server) logRedis(outcome rediscache.Outcome) {
	switch outcome {
	case rediscache.Resting:
		if !s.redisAway.Swap(true) {
			s.log.Warn("redis does not answer: requests are looked up in the store, and each server applies rate limits by itself", "url", rediscache.Redacted(s.cfg.Redis.URL))
		}
	case rediscache.Answered, rediscache.Missing:
		if s.redisAway.Swap(false) {
			s.log.Info("redis answers again")
		}
	case rediscache.Failed, rediscache.Inconsistent, rediscache.Dropped:
	}
}
