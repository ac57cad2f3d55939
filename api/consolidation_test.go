package api

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

func TestPlanConsolidation(t *testing.T) {
	seat := func(node string, gpu int) []ares.Seat {
		return []ares.Seat{{Node: node, Shares: []ares.Share{{Device: node + "/0", Index: gpu, Milli: 1000}}}}
	}
	h := newHouse(t, func(c *Config) {
		c.Engine = &fakeEngine{moves: []ares.Consolidation{{
			For: "job-big", Tenant: "default", Seats: seat("a", 3), Wait: 570 * time.Second, Gain: 4_560_000, Lost: 60_000,
			Moves: []ares.Move{{Job: "job-small", Tenant: "vision", From: seat("a", 3), To: seat("b", 1), Milli: 1000, Lost: 60_000}},
		}}}
	})
	a := h.do("GET", "/api/v1/consolidation", nil)
	if a.code != 200 || a.json["gpu_seconds_gained"] != 4560.0 || a.json["gpu_seconds_lost"] != 60.0 || a.json["gain"] != 2.0 || a.json["enabled"] == true {
		t.Fatalf("got %d %s", a.code, a.body)
	}
	c := a.json["consolidations"].([]any)[0].(map[string]any)
	m := c["moves"].([]any)[0].(map[string]any)
	to := m["to"].([]any)[0].(map[string]any)
	if c["job_id"] != "job-big" || c["wait_saved_seconds"] != 570.0 || m["job_id"] != "job-small" || to["node"] != "b" || to["gpus"].([]any)[0] != 1.0 {
		t.Errorf("got %s", a.body)
	}
}
