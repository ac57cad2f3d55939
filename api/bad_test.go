package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// TestBadInput sends requests with every kind of mistake over real HTTP. The
// server must reject each request with an error that names the field and a
// remedy, and must store nothing.
func TestBadInput(t *testing.T) {
	h := newHouse(t)
	a := h.do("POST", "/api/v1/tenants", tenant("name", "zero", "max_gpus", 0, "max_concurrent_jobs", 0))
	if a.code != 201 {
		t.Fatal(a.body)
	}
	tiny := h.do("POST", "/api/v1/tenants", tenant("name", "tiny", "priority_tier", "normal", "max_pending_jobs", 0))
	if tiny.code != 201 {
		t.Fatal(tiny.body)
	}
	env := map[string]string{}
	for i := range 10_000 {
		env[fmt.Sprintf("V%d", i)] = "x"
	}
	huge := strings.Repeat("x", 40<<10)
	type bad struct {
		name   string
		body   any
		status int
		code   ares.Code
		words  []string
	}
	cases := []bad{
		{"string for int", job("gpu_count", "two"), 400, ares.Invalid, []string{"gpu_count", "whole number"}},
		{"number as string", job("gpu_count", "2"), 400, ares.Invalid, []string{"gpu_count", "whole number"}},
		{"fraction for int", job("gpu_count", 1.5), 400, ares.Invalid, []string{"gpu_count", "whole number"}},
		{"list for int", job("gpu_count", []int{1}), 400, ares.Invalid, []string{"gpu_count"}},
		{"object for int", job("members", map[string]int{}), 400, ares.Invalid, []string{"members"}},
		{"bool for int", job("cpu_cores", true), 400, ares.Invalid, []string{"cpu_cores"}},
		{"int for string", job("name", 7), 400, ares.Invalid, []string{"name", "string"}},
		{"string for list", job("command", "python train.py"), 400, ares.Invalid, []string{"command", `[\"python\", \"train.py\"]`}},
		{"int in list", job("args", []any{"a", 1}), 400, ares.Invalid, []string{"args[1]"}},
		{"string for bool", job("gang_scheduling", "yes"), 400, ares.Invalid, []string{"gang_scheduling", "true or false"}},
		{"list for map", job("environment", []string{"A=b"}), 400, ares.Invalid, []string{"environment"}},
		{"int in map", job("environment", map[string]any{"A": 1}), 400, ares.Invalid, []string{"environment.A"}},
		{"string for message", job("placement", "here"), 400, ares.Invalid, []string{"placement"}},
		{"bad nested", job("placement", map[string]any{"strategy": 1}), 400, ares.Invalid, []string{"placement.strategy"}},
		{"bad time", job("deadline", "tomorrow"), 400, ares.Invalid, []string{"deadline", "2026"}},
		{"string for double", job("retry", map[string]any{"multiplier": "x"}), 400, ares.Invalid, []string{"retry.multiplier"}},
		{"unknown field", job("gpus", 1), 400, ares.Invalid, []string{"gpus", "gpu_count"}},
		{"unknown nested", job("retry", map[string]any{"max": 1}), 400, ares.Invalid, []string{"retry.max"}},
		{"camelCase", job("gpuCount", 1), 400, ares.Invalid, []string{"gpuCount", "gpu_count"}},
		{"negative", job("gpu_count", -1), 400, ares.Invalid, []string{"gpu_count", "between 0 and"}},
		{"two negatives", job("gpu_count", -1, "memory_mb", -5), 400, ares.Invalid, []string{"gpu_count", "memory_mb"}},
		{"huge", job("gpu_count", 1<<40), 400, ares.Invalid, []string{"gpu_count"}},
		{"huge within 32 bits", job("gpu_count", 1<<31-1), 400, ares.Invalid, []string{"gpu_count", "1024"}},
		{"beyond floats", `{"command": ["x"], "gpu_count": 1e999}`, 400, ares.Invalid, []string{"gpu_count"}},
		{"huge retries", job("retry", map[string]any{"max_retries": 1 << 30}), 400, ares.Invalid, []string{"retry.max_retries"}},
		{"NaN", `{"command": ["x"], "retry": {"multiplier": NaN}}`, 400, ares.Invalid, []string{"JSON is invalid"}},
		{"no command", map[string]any{"name": "x"}, 400, ares.Invalid, []string{"command", "required"}},
		{"NUL byte", job("command", []string{"a\x00b"}), 400, ares.Invalid, []string{"command", "NUL"}},
		{"control character", job("name", "a\x1b[31m"), 400, ares.Invalid, []string{"name", "control"}},
		{"unknown tenant", job("tenant_id", "nobody"), 400, ares.Invalid, []string{"tenant_id", "create it"}},
		{"tenant as path", job("tenant_id", "../x"), 400, ares.Invalid, []string{"tenant_id"}},
		{"quota 0", job("tenant_id", a.json["id"], "gpu_count", 1), 403, ares.QuotaExceeded, []string{"quota exceeded for tenant", "quota=0"}},
		{"quota 0 without devices", job("tenant_id", a.json["id"]), 403, ares.QuotaExceeded, []string{"concurrent jobs"}},
		{"pending quota 0", job("tenant_id", tiny.json["id"]), 403, ares.QuotaExceeded, []string{"pending jobs"}},
		{"above the tier", job("tenant_id", tiny.json["id"], "priority", 3000), 403, ares.PriorityTooHigh, []string{"priority", "normal"}},
		{"10,000 variables", job("environment", env), 400, ares.Invalid, []string{"environment", "256", "file"}},
		{"more than is stored", job("args", []string{huge}), 413, ares.TooLarge, []string{"32768"}},
		{"2 MB", job("args", []string{strings.Repeat("x", 2<<20)}), 413, ares.TooLarge, []string{"1048576", "files"}},
		{"bad UTF-8", "{\"command\": [\"\xff\"]}", 400, ares.Invalid, []string{"UTF-8"}},
		{"lone surrogate", `{"command": ["\ud800"]}`, 400, ares.Invalid, nil},
		{"empty", "", 400, ares.Invalid, []string{"empty"}},
		{"not JSON", "hello", 400, ares.Invalid, []string{"JSON is invalid"}},
		{"cut off", `{"command": ["x"`, 400, ares.Invalid, []string{"ends too early"}},
		{"trailing garbage", `{"command": ["x"]} {}`, 400, ares.Invalid, []string{"extra data after"}},
		{"a list", `[]`, 400, ares.Invalid, []string{"object"}},
		{"null", `null`, 400, ares.Invalid, []string{"object"}},
		{"deep", `{"placement":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, 400, ares.Invalid, []string{"deep"}},
		{"twice", `{"command": ["x"], "name": "a", "name": "b"}`, 400, ares.Invalid, []string{"name", "twice"}},
		{"impatient", job("lost_after_seconds", 5), 400, ares.Invalid, []string{"lost_after_seconds"}},
		{"long request_id", job("request_id", strings.Repeat("r", 300)), 400, ares.Invalid, []string{"request_id"}},
	}
	before := h.stored("")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h.t = t
			h.refused(h.do("POST", "/api/v1/jobs", c.body), c.status, c.code, c.words...)
		})
	}
	h.t = t
	if n := h.stored(""); n != before {
		t.Errorf("%d records are stored, %d were before", n, before)
	}
	if strings.Contains(h.log.String(), "level=ERROR") {
		t.Errorf("a caller's mistake is logged as ours: %s", h.log)
	}
}

// TestWrongRequests checks errors that are found before the body is read.
func TestWrongRequests(t *testing.T) {
	h := newHouse(t)
	h.refused(h.do("GET", "/api/v1/nothing", nil), 404, ares.NotFound, "openapi")
	h.refused(h.do("GET", "/", nil), 404, ares.NotFound)
	a := h.do("PUT", "/api/v1/jobs", job())
	h.refused(a, 405, ares.Invalid)
	if a.header.Get("Allow") != "GET, POST" {
		t.Errorf("allowed are %q", a.header.Get("Allow"))
	}
	if a = h.do("PUT", "/api/v1/jobs/x/logs", job()); a.header.Get("Allow") != "GET" {
		t.Errorf("allowed are %q", a.header.Get("Allow"))
	}
	if a = h.do("HEAD", "/health", nil); a.code != 200 || a.body != "" {
		t.Errorf("HEAD answered %d %q", a.code, a.body)
	}
	h.refused(h.do("POST", "/api/v1/events", job()), 405, ares.Invalid)
	h.refused(h.do("OPTIONS", "/api/v1/jobs", nil), 405, ares.Invalid)
	form := func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }
	h.refused(h.do("POST", "/api/v1/jobs", job(), form), 415, ares.Invalid, "-H 'Content-Type: application/json'")
	none := func(r *http.Request) { r.Header.Del("Content-Type") }
	h.refused(h.do("POST", "/api/v1/jobs", job(), none), 415, ares.Invalid, "application/json")
	override := func(r *http.Request) { r.Header.Set("X-HTTP-Method-Override", "DELETE") }
	if a := h.do("POST", "/api/v1/jobs", job(), override); a.code != 201 {
		t.Errorf("a method override is listened to: %d %s", a.code, a.body)
	}
	charset := func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-8") }
	if a := h.do("POST", "/api/v1/jobs", job(), charset); a.code != 201 {
		t.Errorf("a charset is refused: %d %s", a.code, a.body)
	}
	chunked := func(r *http.Request) { r.ContentLength = -1 }
	h.refused(h.do("POST", "/api/v1/jobs", job("args", []string{strings.Repeat("x", 2<<20)}), chunked), 413, ares.TooLarge)
	h.server.Client().Transport.(*http.Transport).ExpectContinueTimeout = time.Minute // this client waits for "100 Continue" before it sends the body
	expect := func(r *http.Request) { r.Header.Set("Expect", "100-continue") }
	h.refused(h.do("POST", "/api/v1/jobs", job("args", []string{strings.Repeat("x", 2<<20)}), expect), 413, ares.TooLarge)
	if n := h.stored("jobs/"); n != 2 {
		t.Errorf("%d jobs are stored, want 2", n)
	}
}
