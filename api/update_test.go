package api

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// TestUpdateJob checks which changes of a job are accepted, and that a change must pass the checks of a submission.
func TestUpdateJob(t *testing.T) {
	h := newHouse(t)
	id := h.submit("labels", map[string]string{"team": "x"})
	h.seen()
	path := "/api/v1/jobs/" + id
	for _, c := range []struct {
		body  map[string]any
		code  ares.Code
		words string
	}{
		{map[string]any{}, ares.Invalid, "the request changes nothing"},
		{map[string]any{"priority": 2_000_000}, ares.Invalid, "priority"},
		{map[string]any{"priority": -1}, ares.Invalid, "priority"},
		{map[string]any{"priority": 900, "priority_class": "high"}, ares.Invalid, "not both"},
		{map[string]any{"priority_class": "urgent"}, ares.Invalid, "priority_class"},
		{map[string]any{"max_runtime_minutes": -5}, ares.Invalid, "max_runtime_minutes"},
		{map[string]any{"labels": map[string]string{"": "x"}}, ares.Invalid, "labels"},
		{map[string]any{"state": []string{"odd"}, "priority": 900}, ares.Invalid, "odd"},
	} {
		h.refused(h.do("PATCH", path, c.body), 400, c.code, c.words)
	}
	h.refused(h.do("PATCH", path, map[string]any{"priority": 900, "state": []string{"running"}}), 409, ares.Conflict, "the job is pending")
	h.refused(h.do("PATCH", "/api/v1/jobs/job-aaaaaaaaaaaaaaaaaaaaaaaa", map[string]any{"priority": 900}), 404, ares.NotFound)
	if a := h.do("PATCH", path, map[string]any{"priority": 900, "labels": map[string]string{"run": "2"}, "remove_labels": []string{"team"}}); a.code != 200 || a.json["status"] != "updated" {
		t.Fatal(a.body)
	}
	if a := h.do("PATCH", path, map[string]any{"priority": 900}); a.code != 200 || a.json["status"] != "unchanged" {
		t.Error(a.body)
	}
	if a := h.do("GET", path, nil); a.json["priority"] != 900.0 || a.json["priority_class"] != "normal" {
		t.Error(a.body)
	}
	h.seen()
	for query, want := range map[string]float64{
		"labels=run%3D2": 1, "labels=run": 1, "labels=team": 0, "labels=run%3D3": 0, "name_pattern=*": 1, "name_pattern=none-*": 0,
	} {
		if a := h.do("GET", "/api/v1/jobs?"+query, nil); a.json["total"] != want {
			t.Errorf("%s: %s", query, a.body)
		}
	}
	h.refused(h.do("GET", "/api/v1/jobs?all=true&labels=run", nil), 400, ares.Invalid, "history cannot be searched")
	if a := h.apply("limit", map[string]any{"on": "submission", "rule": `job.priority < 950 && !("bad" in job.labels)`, "message": "no"}); a.code != 200 {
		t.Fatal(a.body)
	}
	h.refused(h.do("PATCH", path, map[string]any{"priority": 960}), 403, ares.PolicyDenied, "policy limit")
	h.refused(h.do("PATCH", path, map[string]any{"labels": map[string]string{"bad": "1"}}), 403, ares.PolicyDenied, "policy limit")
	h.refused(h.do("DELETE", path+"?state=running", nil), 409, ares.Conflict, "the job is pending")
	if a := h.do("DELETE", path+"?state=pending&state=running", nil); a.code != 200 || a.json["status"] != "cancelled" {
		t.Error(a.body)
	}
	h.refused(h.do("PATCH", path, map[string]any{"priority": 800}), 409, ares.Conflict, "already cancelled")
}
