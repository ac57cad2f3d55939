package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/admission"
)

// TestDeadlines checks that a submission that will probably miss its deadline gets a warning or is rejected.
// The test also checks that the answers to plan, explain and get show whether the job will probably meet its
// deadline.
func TestDeadlines(t *testing.T) {
	var adm *admission.Admission
	h := newHouse(t, func(c *Config) {
		c.Predict = func(*ares.Job) ares.RuntimePredicted {
			return ares.RuntimePredicted{P50: time.Hour, P90: 3 * time.Hour, Basis: "30 runs of it", Samples: 30, Own: 30}
		}
		adm = c.Admission
		adm.Predict, adm.DeadlinePolicy = c.Predict, admission.DeadlineWarn
	})
	within := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	began := time.Now()
	tight, wide := within(time.Hour), within(9*time.Hour)
	late := h.do("POST", "/api/v1/jobs", job("deadline", tight, "request_id", "r1"))
	if w, _ := late.json["warnings"].([]any); late.code != http.StatusCreated && late.code != http.StatusOK || len(w) != 1 ||
		!strings.Contains(w[0].(string), "deadline "+tight+": p90 of its runtime is 3h00m, so it would end 2h00m late (30 runs of it)") {
		t.Errorf("submitted %d %s", late.code, late.body)
	}
	if again := h.do("POST", "/api/v1/jobs", job("deadline", tight, "request_id", "r1")); again.json["job_id"] != late.json["job_id"] || strings.Contains(again.body, "runtime") {
		t.Errorf("submitted again %d %s", again.code, again.body)
	}
	if a := h.do("POST", "/api/v1/jobs", job("deadline", wide)); strings.Contains(a.body, "runtime") {
		t.Errorf("there is time enough: %s", a.body)
	}
	if a := h.do("POST", "/api/v1/jobs:batch", map[string]any{"jobs": []any{job("deadline", tight), job("deadline", wide)}}); strings.Count(a.body, "late (30 runs of it)") != 1 {
		t.Errorf("a batch: %d %s", a.code, a.body)
	}
	h.seen()
	id := late.json["job_id"].(string)
	for path, field := range map[string]string{"": "deadline_outlook", "/explain": "deadline"} {
		a := h.do("GET", "/api/v1/jobs/"+id+path, nil)
		said, _ := a.json[field].(map[string]any)
		slack, _ := said["slack_seconds"].(float64)
		if said["deadline"] != tight || slack > -7200 || slack < -7202-time.Since(began).Seconds() {
			t.Errorf("%q: %d %s", path, a.code, a.body)
		}
	}
	if a := h.do("POST", "/api/v1/jobs:plan", job("deadline", wide)); !strings.Contains(a.body, "to spare") || !strings.Contains(a.body, `"p90_end":"`) {
		t.Errorf("planned %d %s", a.code, a.body)
	}
	if a := h.do("POST", "/api/v1/jobs:plan", job()); strings.Contains(a.body, "p90") {
		t.Errorf("planned without a deadline %d %s", a.code, a.body)
	}
	adm.DeadlinePolicy = admission.DeadlineReject
	h.refused(h.do("POST", "/api/v1/jobs", job("deadline", tight)), 403, ares.DeadlineUnreachable, "cannot end in time")
	h.refused(h.do("POST", "/api/v1/jobs", job("deadline", within(-time.Hour))), 403, ares.DeadlineUnreachable, "is in the past")
	if again := h.do("POST", "/api/v1/jobs", job("deadline", tight, "request_id", "r1")); again.json["job_id"] != id {
		t.Errorf("accepted once, and then %d %s", again.code, again.body)
	}
}
