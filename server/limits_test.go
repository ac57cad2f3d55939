package server

import (
	"strings"
	"testing"
	"time"
)

// TestSessionsOfALargeFleetLastLonger checks that sessions last longer in a large cluster, unless their TTL is
// configured.
func TestSessionsOfALargeFleetLastLonger(t *testing.T) {
	for _, c := range []struct {
		set, nodes int
		want       time.Duration
	}{
		{0, 0, 20 * time.Second}, {0, 1000, 20 * time.Second}, {0, 1001, time.Minute}, {30, 1001, 30 * time.Second}, {30, 1, 30 * time.Second},
	} {
		cfg := Default()
		cfg.Sessions.TTLSeconds = c.set
		if got := cfg.SessionTTL(c.nodes); got != c.want || cfg.Check() != nil {
			t.Errorf("ttl_seconds %d with %d nodes: %s, %v", c.set, c.nodes, got, cfg.Check())
		}
	}
}

// TestEveryLimitIsChecked checks that a limit of zero, which would reject every call, is an error.
func TestEveryLimitIsChecked(t *testing.T) {
	cfg := Default()
	cfg.Limits = LimitsConfig{}
	problems := cfg.Check()
	for _, r := range cfg.Limits.ranges() {
		if problems == nil || !strings.Contains(problems.Error(), r.key) {
			t.Errorf("%s of 0 is not refused: %v", r.key, problems)
		}
	}
}
