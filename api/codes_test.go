package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/control/cache"
)

// TestCodes provokes every error code that a REST caller can provoke, and checks its HTTP status. The test
// fails if an error code has neither a case in this test nor an entry in the table of statuses.
func TestCodes(t *testing.T) {
	// The view that newHouse creates is already running, so the feasibility check
	// uses a second view that the test fills by hand.
	nodes := cache.NewView(time.Now)
	feasibility := admission.NewFeasibility(nodes, nodes.Revision)
	nodes.Apply(ares.Batch{Revision: 1, Reset: true, Events: []ares.Event{{Node: &ares.Node{ID: "n1", CPUs: 8, MemoryMB: 64_000}}}})
	h := newHouse(t, func(c *Config) {
		c.Admission.NoGangs = true
		c.Admission.Feasibility = feasibility
	})
	for _, body := range []map[string]any{tenant("id", "small", "max_cpu_cores", 1), tenant("id", "normal", "priority_tier", "normal")} {
		if a := h.do("POST", "/api/v1/tenants", body); a.code != 201 {
			t.Fatal(a.body)
		}
	}
	h.apply("cores", small())
	for i := range 32 {
		if a := h.apply("p"+strings.Repeat("x", i), small("tenant_id", "small", "rule", "true")); a.code != 200 {
			t.Fatal(a.body)
		}
	}
	cancelled := h.submit("request_id", "one")
	if a := h.do("DELETE", "/api/v1/jobs/"+cancelled, nil); a.code != 200 {
		t.Fatal(a.body)
	}
	h.seen()
	wrongToken := func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") }
	asNode := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+nodeToken) }
	const jobs = "/api/v1/jobs"
	provoked := map[ares.Code]bool{}
	for _, c := range []struct {
		code   ares.Code
		status int
		field  string
		answer func() answer
	}{
		{ares.Invalid, 400, "gpu_count", func() answer { return h.do("POST", jobs, job("gpu_count", -1)) }},
		{ares.NotFound, 404, "", func() answer { return h.do("GET", jobs+"/job-none", nil) }},
		{ares.Conflict, 409, "", func() answer { return h.do("POST", jobs, job("request_id", "one", "name", "other")) }},
		{ares.TooLarge, 413, "", func() answer { return h.do("POST", jobs, job("args", []string{strings.Repeat("x", 40<<10)})) }},
		{ares.Unauthentic, 401, "", func() answer { return h.do("GET", jobs, nil, wrongToken) }},
		{ares.Forbidden, 403, "", func() answer { return h.do("GET", "/api/v1/debug/store", nil, asNode) }},
		{ares.QuotaExceeded, 403, "", func() answer { return h.do("POST", jobs, job("tenant_id", "small", "cpu_cores", 2)) }},
		{ares.PriorityTooHigh, 403, "priority", func() answer { return h.do("POST", jobs, job("tenant_id", "normal", "priority", 3000)) }},
		{ares.PolicyDenied, 403, "", func() answer { return h.do("POST", jobs, job("cpu_cores", 5)) }},
		{ares.Infeasible, 403, "gpu_count", func() answer { return h.do("POST", jobs, job("gpu_count", 1)) }},
		{ares.DeadlineUnreachable, 403, "deadline", func() answer {
			return h.do("POST", jobs, job("deadline", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)))
		}},
		{ares.DependencyUnknown, 403, "after[0]", func() answer {
			return h.do("POST", jobs, job("after", []string{"job-aaaaaaaaaaaaaaaaaaaaaaaa"}))
		}},
		{ares.DependencyFailed, 403, "after[0]", func() answer { return h.do("POST", jobs, job("after", []string{cancelled})) }},
		{ares.FeatureDisabled, 403, "members", func() answer { return h.do("POST", jobs, job("members", 2)) }},
		{ares.LimitReached, 403, "", func() answer { return h.apply("one-more", small("tenant_id", "small", "rule", "true")) }},
	} {
		t.Run(string(c.code), func(t *testing.T) {
			h.t = t
			a := c.answer()
			h.refused(a, c.status, c.code)
			if c.field != "" && !strings.Contains(a.body, `"field":"`+c.field+`"`) {
				t.Errorf("answered %s, want the field %s", a.body, c.field)
			}
		})
		provoked[c.code] = true
	}
	h.t = t
	rest := map[ares.Code]int{ares.Fenced: 409, ares.Exhausted: 429, ares.Unavailable: 503, ares.Internal: 500, ares.CertificateRequired: 403}
	for _, code := range ares.Codes() {
		status, _, _ := pipeline.ErrorAnswer(ares.Errorf(code, "no"))
		if want, listed := rest[code]; !provoked[code] && !listed || listed && status != want {
			t.Errorf("%s: status %d, provoked %t, want %d", code, status, provoked[code], want)
		}
	}
}

// TestRepeatedAfterRejection checks that repeating an accepted request returns
// the same job, even if a rule would reject the request now.
func TestRepeatedAfterRejection(t *testing.T) {
	h := newHouse(t)
	body := job("request_id", "again", "cpu_cores", 5)
	first := h.do("POST", "/api/v1/jobs", body)
	h.apply("cores", small())
	again := h.do("POST", "/api/v1/jobs", body)
	if again.code != 200 || again.json["job_id"] != first.json["job_id"] {
		t.Errorf("answered %d %s, want the job of %s", again.code, again.body, first.body)
	}
}
