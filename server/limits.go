package server

import (
	"time"

	"github.com/ares-scheduler/ares/api/pipeline"
)

// LimitsConfig limits the concurrent calls of users at this server. A call
// above the limit is rejected with 429 and Retry-After, and nothing is stored.
// One caller can make at most half of the concurrent calls. These limits do not
// apply to agents.
type LimitsConfig struct {
	// Reads is the number of concurrent reads. Default 4 for each core, 2 to
	// 100000.
	Reads int `yaml:"reads"`
	// Writes is the number of concurrent writes. Default 16 for each core, 2 to
	// 100000.
	Writes int `yaml:"writes"`
	// WaitMS is the longest time that a call waits. Default 1000, 1 to 10000.
	WaitMS int `yaml:"wait_ms"`
	// EventStreams is the number of open event streams. Default 256, 2 to
	// 100000.
	EventStreams int `yaml:"event_streams"`
	// LogStreams is the number of logs that are read at the same time. Default
	// 256, 2 to 100000.
	LogStreams int `yaml:"log_streams"`
	// CallsPerSecond limits the calls of one caller in a second, including
	// opened streams. With a Redis (redis.url) it applies to all servers
	// together, otherwise to each. Default 0: unlimited. Up to 1000000.
	CallsPerSecond float64 `yaml:"calls_per_second"`
	// CallsAtOnce is the burst of that rate. Default 0: the calls of two
	// seconds. Up to 1000000.
	CallsAtOnce int `yaml:"calls_at_once"`
	// HTTPConnections is the number of REST connections. Default 4096, 16 to
	// 1000000.
	HTTPConnections int `yaml:"http_connections"`
	// GRPCConnections is the number of gRPC connections; each agent needs two.
	// Default 16384, 16 to 1000000.
	GRPCConnections int `yaml:"grpc_connections"`
	// ConnectionsPerAddress is the number of connections of one client address
	// to each listener; an IPv6 network of 64 bits counts as one address.
	// Default 0: half of the listener's connections. Up to 1000000.
	ConnectionsPerAddress int `yaml:"connections_per_address"`
}

// maxMetricsConnections is the maximum number of connections to the metrics listener.
const maxMetricsConnections = 64

func defaultLimits() LimitsConfig {
	l := pipeline.DefaultLimits()
	return LimitsConfig{
		Reads: l.Reads, Writes: l.Writes, WaitMS: int(l.Wait / time.Millisecond), EventStreams: l.EventStreams, LogStreams: l.LogStreams,
		HTTPConnections: 4096, GRPCConnections: 16_384,
	}
}

// intRange is an integer setting with its allowed range.
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

func (l *LimitsConfig) api() pipeline.Limits {
	return pipeline.Limits{
		Reads: l.Reads, Writes: l.Writes, Wait: time.Duration(l.WaitMS) * time.Millisecond,
		EventStreams: l.EventStreams, LogStreams: l.LogStreams,
		Rate: pipeline.Rate{PerSecond: l.CallsPerSecond, Burst: l.burst()},
	}
}

// One caller's calls per second are limited. The method `burst` returns the burst size of this limit.
func (l *LimitsConfig) burst() int {
	if l.CallsAtOnce > 0 {
		return l.CallsAtOnce
	}
	return max(1, int(2*l.CallsPerSecond))
}
