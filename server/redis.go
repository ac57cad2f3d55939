package server

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/aside"
)

// RedisConfig names a Redis beside the servers, which they can do without.
type RedisConfig struct {
	// URL is its address, such as redis://user:password@host:6379/0, or rediss://
	// for TLS. Default empty: none.
	URL string `yaml:"url"`
	// TimeoutMS is how long one answer is waited for. Default 25, 1 to 1000.
	TimeoutMS int `yaml:"timeout_ms"`
}

const defaultRedisTimeoutMS = 25

func (r *RedisConfig) check(p *ares.Problems) {
	if r.URL == "" {
		return
	}
	if _, err := aside.Open(aside.Config{URL: r.URL}); err != nil {
		p.Add("redis.url", "%s", err)
	}
}

// startRedis puts a Redis beside the desk and the doors, if there is to be one. It
// need not be there now.
func (s *Server) startRedis(run context.Context, m *metrics) (*aside.Redis, error) {
	if s.cfg.Redis.URL == "" {
		return nil, nil
	}
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ares_redis_calls_total", Help: "Calls of the Redis beside the servers, by what became of them: answered, missing, failed, lied, resting, dropped.",
	}, []string{"op", "outcome"})
	m.registry.MustRegister(calls)
	r, err := aside.Open(aside.Config{
		URL: s.cfg.Redis.URL, Timeout: time.Duration(s.cfg.Redis.TimeoutMS) * time.Millisecond,
		Observe: func(op string, outcome aside.Outcome) {
			calls.WithLabelValues(op, string(outcome)).Inc()
			s.sayRedis(outcome)
		},
	})
	if err != nil {
		return nil, err
	}
	s.Desk.Aside = r
	s.part("redis", func() error {
		if err := r.Run(run); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	return r, nil
}

// sayRedis has the log say that Redis is left alone, and that it answers again.
// One failure is not worth a line: it is tried again at once.
func (s *Server) sayRedis(outcome aside.Outcome) {
	switch outcome {
	case aside.Resting:
		if !s.redisAway.Swap(true) {
			s.log.Warn("redis does not answer: requests are looked up in the store, and each server holds rates by itself", "url", aside.Redacted(s.cfg.Redis.URL))
		}
	case aside.Answered, aside.Missing:
		if s.redisAway.Swap(false) {
			s.log.Info("redis answers again")
		}
	case aside.Failed, aside.Lied, aside.Dropped:
	}
}
