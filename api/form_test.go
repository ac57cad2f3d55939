package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/rest"
	"github.com/ares-scheduler/ares/store/storetest"
)

func inForm(r *http.Request) { r.Header.Set("Accept", "text/event-stream, "+rest.GPUSchedulerForm) }

// form asks in the form of the gpu-scheduler.
func (h *house) form(path string) map[string]any {
	h.t.Helper()
	a := h.do("GET", path, nil, inForm)
	if a.code != http.StatusOK || a.header.Get("Content-Type") != rest.GPUSchedulerForm {
		h.t.Fatalf("GET %s answered %d %s %s", path, a.code, a.header.Get("Content-Type"), a.body)
	}
	out := map[string]any{}
	must(h.t, json.Unmarshal([]byte(a.body), &out))
	return out
}

func fieldsOf(m map[string]any) string { return strings.Join(slices.Sorted(maps.Keys(m)), " ") }

// TestGPUSchedulerForm asks for jobs, tenants, events and the cluster status in the form of the gpu-scheduler's README.
func TestGPUSchedulerForm(t *testing.T) {
	h := newHouse(t)
	next, stop := h.follow("", inForm)
	defer stop()
	waits := h.submit("gpu_count", 4, "command", []string{"python", "train.py"}, "args", []string{"--epochs", "100"}, "image", "pytorch:2.0",
		"gpu_memory_mb", 40000, "cpu_cores", 16, "memory_mb", 64000, "environment", map[string]string{"CUDA_VISIBLE_DEVICES": "0"}, "max_runtime_minutes", 1440)
	lead, _ := storetest.NewLead(t, h.store)
	node := storetest.NewNode(t, h.store)
	done := storetest.Get(t, h.store, ares.JobID(h.submit("gpu_count", 1))).Job
	seats := storetest.Place(t, h.store, lead, done, node)
	storetest.Claim(t, h.store, seats, node)
	storetest.Finish(t, h.store, seats[0], ares.OutcomeSucceeded)
	storetest.Release(t, h.store, seats...)
	h.seen()

	job := h.form("/api/v1/jobs/" + waits)
	if got, want := fieldsOf(job), "args command cpu_cores created_at environment gang_scheduling gpu_count gpu_memory_mb id image job_id max_runtime_minutes memory_mb name priority reason state submitted_by tenant_id"; got != want {
		t.Errorf("a job has the fields\n%s\nwant\n%s", got, want)
	}
	if job["state"] != "pending" || job["max_runtime_minutes"] != 1440.0 || job["gang_scheduling"] != false || job["gpu_count"] != 4.0 {
		t.Errorf("the job is %v", job)
	}
	if got := h.form("/api/v1/jobs/" + string(done.ID))["state"]; got != "completed" {
		t.Errorf("a job that succeeded is %v", got)
	}
	if a := h.do("GET", "/api/v1/jobs/"+string(done.ID), nil); a.json["state"] != "succeeded" || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("without the header: %s", a.body)
	}
	for query, want := range map[string]int{"": 2, "?state=completed": 1, "?state=pending": 1, "?state=pending,completed": 2, "?state=failed": 0, "?state=succeeded": 1} {
		list := h.form("/api/v1/jobs" + query)
		if jobs := list["jobs"].([]any); len(jobs) != want || list["total"] != float64(want) {
			t.Errorf("%s lists %d of %v jobs, want %d", query, len(jobs), list["total"], want)
		}
	}
	events := h.form("/api/v1/jobs/" + string(done.ID) + "/events")["events"].([]any)
	if last := events[len(events)-1].(map[string]any); last["state"] != "completed" {
		t.Errorf("the last event is %v", last)
	}
	status := h.form("/api/v1/cluster/status")
	if got, want := fieldsOf(status), "available_gpus online_nodes pending_jobs running_jobs total_gpus total_jobs total_nodes"; got != want {
		t.Errorf("the status has the fields\n%s\nwant\n%s", got, want)
	}
	tenants := h.form("/api/v1/tenants")["tenants"].([]any)
	if tenant := tenants[0].(map[string]any); tenant["id"] != "default" || tenant["quotas"] != nil || tenant["fair_share_weight"] == nil {
		t.Errorf("the tenant is %v", tenant)
	}
	if a := h.do("GET", "/api/v1/jobs?state=complete", nil, inForm); a.code != http.StatusBadRequest || a.json["error"] == nil {
		t.Errorf("an unknown state answered %d %s", a.code, a.body)
	}
	if got := rest.FormState("lost") + rest.FormState("retrying") + rest.FormState("preempted"); got != "failedpendingpreempted" {
		t.Errorf("the other states are %s", got)
	}
	for state := any(nil); state != "completed"; {
		e, ok := next()
		if state = e.data["state"]; !ok || state == "succeeded" {
			t.Fatalf("an event is %v, %v", e, ok)
		}
	}
}
