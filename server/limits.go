package server

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ares-scheduler/ares/api"
)

// LimitsConfig bounds what users may have under way at this server. What is
// beyond is turned away with 429 and Retry-After, and nothing of it is stored.
// One caller gets at most half. Agents are not counted here.
type LimitsConfig struct {
	// Reads is how many calls that only read are under way at once. Default 4
	// for each core, 2 to 100000.
	Reads int `yaml:"reads"`
	// Writes is the same for calls that write. Default 16 for each core, 2 to 100000.
	Writes int `yaml:"writes"`
	// WaitMS is how long a call waits for its turn at most. Default 1000, 1 to 10000.
	WaitMS int `yaml:"wait_ms"`
	// EventStreams is how many event streams are open at once. Default 256, 2 to 100000.
	EventStreams int `yaml:"event_streams"`
	// LogStreams is how many logs are read at once. Default 256, 2 to 100000.
	LogStreams int `yaml:"log_streams"`
	// CallsPerSecond is how many calls one caller makes in a second at most, streams
	// being opened among them. With a Redis (redis.url) it is counted over all
	// servers, else at each. Default 0: no bound. Up to 1000000.
	CallsPerSecond float64 `yaml:"calls_per_second"`
	// CallsAtOnce is how many of these may come at once after a rest. Default 0:
	// those of two seconds. Up to 1000000.
	CallsAtOnce int `yaml:"calls_at_once"`
	// HTTPConnections is how many connections the REST door has. Default 4096, 16 to 1000000.
	HTTPConnections int `yaml:"http_connections"`
	// GRPCConnections is how many connections the gRPC door has; each agent needs
	// two. Default 16384, 16 to 1000000.
	GRPCConnections int `yaml:"grpc_connections"`
}

// maxMetricsConnections is for those who read the metrics.
const maxMetricsConnections = 64

func defaultLimits() LimitsConfig {
	l := api.DefaultLimits()
	return LimitsConfig{
		Reads: l.Reads, Writes: l.Writes, WaitMS: int(l.Wait / time.Millisecond), EventStreams: l.EventStreams, LogStreams: l.LogStreams,
		HTTPConnections: 4096, GRPCConnections: 16_384,
	}
}

// intRange is a setting and what it may be.
type intRange struct {
	key       string
	v, lo, hi int
}

func (l *LimitsConfig) ranges() []intRange {
	return []intRange{
		{"limits.reads", l.Reads, 2, 100_000},
		{"limits.writes", l.Writes, 2, 100_000},
		{"limits.wait_ms", l.WaitMS, 1, 10_000},
		{"limits.event_streams", l.EventStreams, 2, 100_000},
		{"limits.log_streams", l.LogStreams, 2, 100_000},
		{"limits.http_connections", l.HTTPConnections, 16, 1_000_000},
		{"limits.grpc_connections", l.GRPCConnections, 16, 1_000_000},
	}
}

func (l *LimitsConfig) api() api.Limits {
	return api.Limits{
		Reads: l.Reads, Writes: l.Writes, Wait: time.Duration(l.WaitMS) * time.Millisecond,
		EventStreams: l.EventStreams, LogStreams: l.LogStreams,
		Rate: api.Rate{PerSecond: l.CallsPerSecond, Burst: l.burst()},
	}
}

// burst is how many calls may come at once.
func (l *LimitsConfig) burst() int {
	if l.CallsAtOnce > 0 {
		return l.CallsAtOnce
	}
	return max(1, int(2*l.CallsPerSecond))
}

// bounded is a listener with so many connections at most. One too many is
// closed at once: to leave it unanswered would fill the kernel's queue, and
// those behind it would wait without a word.
type bounded struct {
	net.Listener
	limit   int64
	refused func()
	open    atomic.Int64
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.open.Add(1) <= b.limit {
			return &counted{Conn: c, leave: sync.OnceFunc(func() { b.open.Add(-1) })}, nil
		}
		b.open.Add(-1)
		_ = c.Close() // nothing was said on it
		b.refused()
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}
