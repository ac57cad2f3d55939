package security

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// unlimited returns attempts of tenant red to submit a job that no limit of a node applies to: a job with requests that mean "none" or
// "as much as there is", or with so many ranks that they cannot be counted.
func (s *scene) unlimited() []attempt {
	var out []attempt
	for name, fields := range map[string]string{
		"fewer than no cores":            `"cpu_cores":-1`,
		"less than no memory":            `"memory_mb":-1`,
		"fewer than no ranks":            `"members":-1`,
		"a core more than numbers have":  `"cpu_cores":2147483648`,
		"memory that overflows in bytes": `"memory_mb":9223372036854775807`,
		"less than a part of a core":     `"cpu_cores":0.0005`,
		"a negative part of a core":      `"cpu_cores":-0.5`,
		"a core that overflows in parts": `"cpu_cores":2147483647.5`,
		"fewer than no parts of a core":  `"cpu_milli":-1`,
		"a whole core as parts":          `"cpu_milli":1000`,
		"parts of a core that overflow":  `"cpu_milli":4294967296`,
		"cores as text":                  `"cpu_cores":"unlimited"`,
		"memory as text":                 `"memory_mb":"max"`,
		"cores that are not a number":    `"cpu_cores":NaN`,
		"more ranks than there may be":   `"members":2049`,
		"an array of too many elements":  `"array":{"count":10001}`,
		"an array of negative elements":  `"array":{"count":-5}`,
		"a negative part of a GPU":       `"gpu_milli":-1`,
		"more than a GPU as parts":       `"gpu_milli":1001`,
		"a whole GPU and a part":         `"gpu_count":1,"gpu_milli":1`,
		"fewer than no GPUs":             `"gpu_count":-1`,
		"its own limit of processes":     `"pids":1000000`,
		"its own cgroup":                 `"cgroup":"/"`,
		"its own limit of output":        `"log_limit":1099511627776`,
		"a runtime below 0":              `"max_runtime_minutes":-1`,
		"a grace period of a year":       `"grace_seconds":31536000`,
		"a lease of a year":              `"lost_after_seconds":31536000`,
	} {
		out = append(out, s.rest("a job with "+name, s.submitter, http.MethodPost, "/api/v1/jobs", `{"tenant_id":"red","command":["true"],`+fields+`}`, nil))
		out[len(out)-1].codes = []string{"400", "403"}
	}
	for name, fields := range map[string]string{
		"the ranks of a node": `"max_ranks_per_node":512`, "the default requests": `"default_cpu_cores":0`,
	} {
		a := s.rest("a tenant that sets "+name, s.red, http.MethodPatch, "/api/v1/tenants/red", `{`+fields+`}`, nil)
		a.codes = []string{"400", "403", "404", "405", "501"}
		out = append(out, a)
	}
	return out
}

// TestNodeLimits makes these attempts, and submits jobs without requests: each of them, also each element of an array, must have the default
// requests, because the scheduler counts and the node limits only what a job requests.
func TestNodeLimits(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	before := s.estate()
	heard := s.make(s.unlimited())
	if after := s.estate(); after != before {
		t.Errorf("blue had\n%s\nand has\n%s", before, after)
	}
	for i, fields := range []string{
		`"array":{"count":1000}`, `"cpu_cores":0,"memory_mb":0`, `"members":200,"cpu_cores":0`, `"gpu_milli":1`, `"gpu_milli":1000`, `"cpu_cores":null`,
	} {
		body := fmt.Sprintf(`{"tenant_id":"red","name":"free-%d","command":["true"],%s}`, i, fields)
		got, err := s.ask(t.Context(), s.submitter, http.MethodPost, "/api/v1/jobs", body, nil)
		var made struct {
			ID string `json:"job_id"`
		}
		if err != nil || got.code != http.StatusCreated || json.Unmarshal([]byte(got.body), &made) != nil {
			t.Errorf("%s: %v %d %s", fields, err, got.code, got.body)
			continue
		}
		// The elements of an array have the requests of the array.
		text, err := json.Marshal(s.do(t, http.MethodGet, "/api/v1/jobs/"+made.ID, ""))
		if err != nil || !strings.Contains(string(text), `"cpu_cores":1,`) || !strings.Contains(string(text), `"memory_mb":1024,`) {
			t.Errorf("%s: the job is not limited: %s, %v", fields, text, err)
		}
	}
	s.auditedAtLeast(heard, len(heard))
}
