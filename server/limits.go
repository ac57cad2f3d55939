package server

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
)

// LimitsConfig limits the concurrent calls of users at this server. A call
// above the limit is rejected with 429 and Retry-After, and nothing is stored.
// One caller can make at most half of the concurrent calls, and so can all
// callers of one tenant together. A tenth of the concurrent calls and streams is
// kept for platform administrators. Of these limits, only
// node_calls_per_second and the limits on connections apply to agents.
type LimitsConfig struct {
	// Reads is the number of concurrent reads. Default 4 for each core, 2 to
	// 100000.
	Reads int `yaml:"reads"`
	// Writes is the number of concurrent writes. Default 16 for each core, but at least 128; 2 to
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
	// TenantCallsPerSecond limits the calls of all callers of one tenant together
	// in a second, like calls_per_second. Its burst is the calls of two seconds.
	// Default 0: unlimited. Up to 1000000.
	TenantCallsPerSecond float64 `yaml:"tenant_calls_per_second"`
	// NodeCallsPerSecond limits the calls of one node's agent in a second. Its
	// burst is the calls of ten seconds. The renewals of the node's session are
	// counted apart, with the same limit. Default 500; 0 means unlimited. Up to
	// 1000000.
	NodeCallsPerSecond float64 `yaml:"node_calls_per_second"`
	// TokensPerTenant is the number of service tokens of one tenant. Default 500,
	// 1 to 10000.
	TokensPerTenant int `yaml:"tokens_per_tenant"`
	// BindingsPerTenant is the number of role bindings in one tenant. Default
	// 2000, 1 to 50000.
	BindingsPerTenant int `yaml:"bindings_per_tenant"`
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

// maxHTTP2Streams is the maximum number of concurrent requests on one REST connection.
const maxHTTP2Streams = 64

func defaultLimits() LimitsConfig {
	l := pipeline.DefaultLimits()
	return LimitsConfig{
		Reads: l.Reads, Writes: l.Writes, WaitMS: int(l.Wait / time.Millisecond), EventStreams: l.EventStreams, LogStreams: l.LogStreams,
		TokensPerTenant: l.TokensPerTenant, BindingsPerTenant: l.BindingsPerTenant, NodeCallsPerSecond: l.NodeRate.PerSecond,
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
		{"limits.tokens_per_tenant", l.TokensPerTenant, 1, 10_000},
		{"limits.bindings_per_tenant", l.BindingsPerTenant, 1, 50_000},
		{"limits.http_connections", l.HTTPConnections, 16, 1_000_000},
		{"limits.grpc_connections", l.GRPCConnections, 16, 1_000_000},
	}
}

func (l *LimitsConfig) checkRates(p *ares.Problems) {
	for _, r := range []struct {
		key string
		v   float64
	}{{"limits.calls_per_second", l.CallsPerSecond}, {"limits.tenant_calls_per_second", l.TenantCallsPerSecond}, {"limits.node_calls_per_second", l.NodeCallsPerSecond}} {
		if !(r.v >= 0 && r.v <= 1_000_000) { // a NaN is wrong too
			p.Add(r.key, "must be between 0 (no bound) and 1000000, got %v", r.v)
		}
	}
}

func (l *LimitsConfig) api() pipeline.Limits {
	return pipeline.Limits{
		Reads: l.Reads, Writes: l.Writes, Wait: time.Duration(l.WaitMS) * time.Millisecond,
		EventStreams: l.EventStreams, LogStreams: l.LogStreams,
		TokensPerTenant: l.TokensPerTenant, BindingsPerTenant: l.BindingsPerTenant,
		NodeRate: pipeline.NewNodeRate(l.NodeCallsPerSecond),
		Rate:     pipeline.Rate{PerSecond: l.CallsPerSecond, Burst: l.burst()},
		TenantRate: pipeline.Rate{
			PerSecond: l.TenantCallsPerSecond, Burst: max(1, int(2*l.TenantCallsPerSecond)), Setting: "limits.tenant_calls_per_second",
		},
	}
}

// One caller's calls per second are limited. The method `burst` returns the burst size of this limit.
func (l *LimitsConfig) burst() int {
	if l.CallsAtOnce > 0 {
		return l.CallsAtOnce
	}
	return max(1, int(2*l.CallsPerSecond))
}
