package server

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/federation"
	"github.com/ares-scheduler/ares/pki"
)

// These are the roles of a server.
const (
	RoleCluster = "cluster"
	RoleGlobal  = "global"
)

// FederationConfig configures a hub, or a cluster that has joined one. See
// docs/guide/federation.md.
type FederationConfig struct {
	// ClusterCertSeconds is the validity of the certificates that a hub issues to
	// clusters. A cluster renews its certificate after two thirds of that time; a
	// cluster whose certificate has expired must join again. Default 2592000, 60
	// to 31536000.
	ClusterCertSeconds int `yaml:"cluster_cert_seconds"`
	// HeartbeatMS is the time between two heartbeats of a cluster. After three
	// missed heartbeats, the hub offers the cluster nothing more, and the cluster
	// is autonomous. Set the same value at the hub and in its clusters. Default
	// 2000, 100 to 60000.
	HeartbeatMS int `yaml:"heartbeat_ms"`
	// ClaimAheadSeconds is how far ahead a cluster claims jobs of the hub: those
	// that it expects to start within this time. They are its supply of work while
	// it cannot reach the hub. Default 600, 0 to 86400; 0 for jobs that would
	// start at once.
	ClaimAheadSeconds int `yaml:"claim_ahead_seconds"`
}

func defaultFederation() FederationConfig {
	return FederationConfig{
		ClusterCertSeconds: int(pki.DefaultClusterLife / time.Second), HeartbeatMS: int(federation.DefaultHeartbeat / time.Millisecond),
		ClaimAheadSeconds: int(federation.DefaultClaimAhead / time.Second),
	}
}

func (c *FederationConfig) ranges() []intRange {
	return []intRange{
		{"federation.cluster_cert_seconds", c.ClusterCertSeconds, 60, 31_536_000},
		{"federation.heartbeat_ms", c.HeartbeatMS, 100, 60_000},
		{"federation.claim_ahead_seconds", c.ClaimAheadSeconds, 0, 86_400},
	}
}

func (c *FederationConfig) certLife() time.Duration {
	return time.Duration(c.ClusterCertSeconds) * time.Second
}

func (c *FederationConfig) heartbeat() time.Duration {
	return time.Duration(c.HeartbeatMS) * time.Millisecond
}

// isHub reports whether the server belongs to a hub.
func (c *Config) isHub() bool { return c.Role == RoleGlobal }

func (c *Config) checkRole(p *ares.Problems) {
	if c.Role != RoleCluster && c.Role != RoleGlobal {
		p.Add("role", "%q is unknown: use %s for a cluster with nodes, or %s for the hub of a federation", c.Role, RoleCluster, RoleGlobal)
	}
}
