package api

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/rest"
	"github.com/ares-scheduler/ares/api/service"
)

func TestSubmitGetList(t *testing.T) {
	h := newHouse(t)
	if a := h.do("GET", "/api/v1/jobs", nil); !strings.HasPrefix(a.body, `{"jobs":[],"total":0,"next_page_token":"","revision":"`) {
		t.Errorf("an empty list is %s", a.body)
	}
	a := h.do("POST", "/api/v1/jobs", job("gpu_count", 2, "environment", map[string]string{"SECRET": canary}, "labels", map[string]string{"a": "b"}))
	if a.code != http.StatusCreated || a.json["status"] != "submitted" || a.json["message"] != "Job submitted successfully" || a.json["state"] != "pending" {
		t.Fatalf("submit answered %d %s", a.code, a.body)
	}
	id := a.json["job_id"].(string)

	a = h.do("GET", "/api/v1/jobs/"+id, nil)
	for key, want := range map[string]any{
		"job_id": id, "id": id, "name": "train", "tenant_id": "default", "state": "pending", "priority": 500.0, "priority_class": "normal",
		"gpu_count": 2.0, "members": 1.0, "attempt": 0.0, "archived": false, "submitted_by": "token:admin",
	} {
		if a.json[key] != want {
			t.Errorf("%s is %v, want %v", key, a.json[key], want)
		}
	}
	if fmt.Sprint(a.json["waiting_for"]) != "[there is no node]" || fmt.Sprint(a.json["attempts"]) != "[]" {
		t.Errorf("waiting_for or attempts: %s", a.body)
	}
	spec := a.json["spec"].(map[string]any)
	if spec["labels"] == nil || spec["after"] != nil || spec["max_queue_minutes"] != nil {
		t.Errorf("spec has too little or too much: %v", spec)
	}

	h.seen()
	a = h.do("GET", "/api/v1/jobs", nil)
	jobs := a.json["jobs"].([]any)
	if a.json["total"] != 1.0 || len(jobs) != 1 || jobs[0].(map[string]any)["job_id"] != id || a.json["revision"] == "" {
		t.Errorf("list answered %s", a.body)
	}
	if strings.Contains(a.body, canary) {
		t.Error("a list shows the environment")
	}
	a = h.do("GET", "/api/v1/jobs/"+id+"/events", nil)
	if events := a.json["events"].([]any); len(events) != 1 || events[0].(map[string]any)["message"] != "accepted" {
		t.Errorf("events answered %s", a.body)
	}
	if strings.Contains(h.log.String(), canary) {
		t.Error("the log shows the environment")
	}
	if _, ok := h.observed["ares.v1.JobService/SubmitJob"]; !ok {
		t.Errorf("observed %v", h.observed)
	}
}

func TestIdempotency(t *testing.T) {
	h := newHouse(t)
	body := job("request_id", "r-1", "gpu_count", 1)
	first := h.do("POST", "/api/v1/jobs", body)
	second := h.do("POST", "/api/v1/jobs", body)
	if first.code != 201 || second.code != 200 || first.json["job_id"] != second.json["job_id"] || second.json["status"] != "duplicate" {
		t.Errorf("the same request answered %d %s and %d %s", first.code, first.body, second.code, second.body)
	}
	h.refused(h.do("POST", "/api/v1/jobs", job("request_id", "r-1", "gpu_count", 2)), 409, ares.Conflict, "request_id")
	if n := h.stored("jobs/"); n != 1 {
		t.Errorf("%d jobs are stored, want 1", n)
	}
}

func TestBatch(t *testing.T) {
	h := newHouse(t)
	a := h.do("POST", "/api/v1/jobs:batch", map[string]any{"jobs": []any{
		job("request_id", "a"), job("request_id", "a"), job("request_id", "b", "gpu_count", -1), job("request_id", "c"),
	}})
	if a.code != 200 || a.json["accepted"] != 2.0 || a.json["duplicates"] != 1.0 || a.json["refused"] != 1.0 {
		t.Fatalf("batch answered %d %s", a.code, a.body)
	}
	bad := a.json["results"].([]any)[2].(map[string]any)
	if bad["code"] != "invalid" || !strings.Contains(bad["error"].(string), "gpu_count") || bad["job_id"] != "" {
		t.Errorf("the bad one was answered %v", bad)
	}
	jobs := make([]any, service.MaxBatch+1)
	for i := range jobs {
		jobs[i] = job()
	}
	h.refused(h.do("POST", "/api/v1/jobs:batch", map[string]any{"jobs": jobs}), 400, ares.Invalid, "jobs", "1000")
	h.refused(h.do("POST", "/api/v1/jobs:batch", map[string]any{"jobs": []any{}}), 400, ares.Invalid, "jobs")
	h.refused(h.do("POST", "/api/v1/jobs:batch", nil), 400, ares.Invalid, "jobs")
	if n := h.stored("jobs/"); n != 2 {
		t.Errorf("%d jobs are stored, want 2", n)
	}
	// The body of a batch may exceed the size limit for a single job.
	fat := strings.Repeat("x", 16<<10)
	for i := range jobs {
		jobs[i] = job("args", []string{fat})
	}
	a = h.do("POST", "/api/v1/jobs:batch", map[string]any{"jobs": jobs[:100]})
	if a.code != 200 || a.json["accepted"] != 100.0 {
		t.Errorf("a batch of 1.6 MB answered %d %.200s", a.code, a.body)
	}
}

func TestPages(t *testing.T) {
	h := newHouse(t)
	jobs := []any{}
	for i := range 50 { // many jobs with the same revision
		jobs = append(jobs, job("request_id", strconv.Itoa(i), "name", fmt.Sprintf("n-%d", i%2)))
	}
	h.do("POST", "/api/v1/jobs:batch", map[string]any{"jobs": jobs})
	h.submit("name", "n-last")
	h.seen()
	seen := map[string]bool{}
	token, pages := "", 0
	for {
		a := h.do("GET", "/api/v1/jobs?page_size=7&page_token="+token, nil)
		if a.code != 200 || a.json["total"] != 51.0 {
			t.Fatalf("page answered %d %s", a.code, a.body)
		}
		for _, j := range a.json["jobs"].([]any) {
			id := j.(map[string]any)["job_id"].(string)
			if seen[id] {
				t.Errorf("%s is on two pages", id)
			}
			seen[id] = true
		}
		pages++
		if token = a.json["next_page_token"].(string); token == "" || pages > 20 {
			break
		}
	}
	if len(seen) != 51 || pages != 8 {
		t.Errorf("%d jobs on %d pages, want 51 on 8", len(seen), pages)
	}
	for query, want := range map[string]float64{
		"name=n-1": 25, "name=n-": 51, "tenant_id=default": 51, "tenant_id=other": 0,
		"state=pending": 51, "state=running,pending": 51, "state=completed&state=failed": 0,
	} {
		if a := h.do("GET", "/api/v1/jobs?"+query, nil); a.json["total"] != want {
			t.Errorf("?%s finds %v, want %v", query, a.json["total"], want)
		}
	}
	for query, field := range map[string]string{
		"state=flying": "state", "page_size=1001": "page_size", "page_size=-1": "page_size", "page_size=x": "page_size",
		"page_token=%21": "page_token", "page_token=" + strings.Repeat("A", 300): "page_token", "min_revision=soon": "min_revision",
		"min_revision=9999999999999999999": "min_revision", "pages=1": "pages", "name=%ff": "name", "page_size=1&page_size=2": "page_size",
	} {
		h.refused(h.do("GET", "/api/v1/jobs?"+query, nil), 400, ares.Invalid, `"field":"`+field+`"`)
	}
	a := h.do("GET", "/api/v1/jobs?min_revision="+h.do("GET", "/api/v1/jobs", nil).json["revision"].(string), nil)
	if a.code != 200 {
		t.Errorf("min_revision answered %d %s", a.code, a.body)
	}
}

func TestCancelRetryArchive(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	id := h.submit()
	h.refused(h.do("POST", "/api/v1/jobs/"+id+"/retry", nil), 409, ares.Conflict, "cancel")
	for range 2 {
		if a := h.do("DELETE", "/api/v1/jobs/"+id, nil); a.code != 200 || a.json["status"] != "cancelled" || a.json["job_id"] != id {
			t.Errorf("cancel answered %d %s", a.code, a.body)
		}
	}
	a := h.do("GET", "/api/v1/jobs/"+id, nil)
	if a.json["state"] != "cancelled" || a.json["finished_at"] == nil || a.json["result"].(map[string]any)["outcome"] != "stopped" {
		t.Errorf("a cancelled job is %s", a.body)
	}
	a = h.do("POST", "/api/v1/jobs/"+id+"/retry", map[string]any{"request_id": "again"})
	if a.code != 201 || a.json["retry_of"] != id || a.json["job_id"] == id {
		t.Errorf("retry answered %d %s", a.code, a.body)
	}
	if b := h.do("POST", "/api/v1/jobs/"+id+"/retry", map[string]any{"request_id": "again"}); b.code != 200 || b.json["job_id"] != a.json["job_id"] {
		t.Errorf("the same retry answered %d %s", b.code, b.body)
	}
	if b := h.do("GET", "/api/v1/jobs/"+a.json["job_id"].(string), nil); b.json["retry_of"] != id {
		t.Errorf("the new job does not name the old one: %s", b.body)
	}

	snap, err := h.store.Job(ctx, ares.JobID(id))
	must(t, err)
	must(t, h.store.Archive(ctx, snap.Job, &snap.Run, nil))
	a = h.do("GET", "/api/v1/jobs/"+id, nil)
	if a.code != 200 || a.json["archived"] != true || a.json["state"] != "cancelled" || a.json["job_id"] != id {
		t.Errorf("an archived job is %d %s", a.code, a.body)
	}
	if a = h.do("DELETE", "/api/v1/jobs/"+id, nil); a.code != 200 || a.json["status"] != "cancelled" {
		t.Errorf("to cancel an archived cancelled job answered %d %s", a.code, a.body)
	}
	if a = h.do("GET", "/api/v1/jobs/"+id+"/events", nil); a.code != 200 || len(a.json["events"].([]any)) != 1 {
		t.Errorf("its events are %d %s", a.code, a.body)
	}
	h.refused(h.do("POST", "/api/v1/jobs/"+id+"/retry", nil), 409, ares.Conflict, "archived")
	for _, unknown := range []string{"nothing", "job-aaaaaaaaaaaaaaaaaaaaaaaa", "%ff", strings.Repeat("x", 300)} {
		h.refused(h.do("GET", "/api/v1/jobs/"+unknown, nil), 404, ares.NotFound)
		h.refused(h.do("DELETE", "/api/v1/jobs/"+unknown, nil), 404, ares.NotFound)
	}
}

// TestArchivedDuplicate checks that repeating a submission returns the existing
// job, even if that job has been archived.
func TestArchivedDuplicate(t *testing.T) {
	h := newHouse(t)
	id := h.submit("request_id", "late")
	h.do("DELETE", "/api/v1/jobs/"+id, nil)
	snap, err := h.store.Job(t.Context(), ares.JobID(id))
	must(t, err)
	must(t, h.store.Archive(t.Context(), snap.Job, &snap.Run, nil))
	a := h.do("POST", "/api/v1/jobs", job("request_id", "late"))
	if a.code != 200 || a.json["job_id"] != id || a.json["state"] != "cancelled" {
		t.Errorf("a late repetition answered %d %s", a.code, a.body)
	}
}

// TestWire checks that the JSON of a run's history represents 64-bit numbers as
// strings.
func TestWire(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	j := &ares.Job{Spec: ares.Spec{Command: []string{"x"}, Members: 2}.WithDefaults(), ID: ares.NewJobID("a", "b"), AcceptedAt: now, Revision: 7}
	run := ares.NewRun(now)
	run.Revision = 1 << 60
	run.Phase, run.Placed, run.FinishedAt = ares.Failed, 2, now
	seat := ares.SeatStatus{
		Seat: ares.Seat{Node: "n1", Shares: []ares.Share{{Device: "GPU-3", Index: 3, Milli: 1000}}}, State: ares.SeatReleased,
		Result: &ares.RankResult{Outcome: ares.OutcomeFailed, ExitCode: 3, Reason: "exit code 3"},
	}
	run.Attempts = []ares.Attempt{
		{Number: 1, Fence: 1 << 61, Outcome: ares.OutcomeLost, Reason: "node lost"},
		{Number: 2, Fence: 1<<61 + 1, Seats: []ares.SeatStatus{seat}, StartedAt: now, Outcome: ares.OutcomeFailed, ExitCode: 3, Reason: "exit code 3"},
	}
	data, err := rest.PublicJSON{}.Marshal(service.NewJob(j, &run, &ares.Progress{Percent: 12.5, At: now}))
	must(t, err)
	for _, want := range []string{
		`"revision":"1152921504606846976"`, `"fence":"2305843009213693953"`, `"gpus":[3]`, `"devices":["GPU-3"]`, `"state":"failed"`,
		`"result":{"exit_code":3,"outcome":"failed","reason":"exit code 3"}`, `"percent":12.5`, `"seats":[]`, `"waiting_for":[]`,
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s lacks %s", data, want)
		}
	}
	if strings.Contains(string(data), "null") {
		t.Errorf("%s has a null", data)
	}
}

func TestClusterStatus(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.Alert = func() string { return "the brake is on" } })
	ctx := t.Context()
	a := h.do("GET", "/api/v1/cluster/status", nil)
	for _, key := range []string{"total_nodes", "online_nodes", "total_gpus", "available_gpus", "total_jobs", "running_jobs", "pending_jobs"} {
		if a.json[key] != 0.0 {
			t.Errorf("%s is %v, want 0", key, a.json[key])
		}
	}
	if a.json["alert"] != "the brake is on" || a.json["version"] != "test" {
		t.Errorf("status is %s", a.body)
	}
	node := ares.Node{
		ID: "n1", CPUs: 8, MemoryMB: 1000, Mock: true, Devices: []ares.Device{
			{ID: "a", Index: 0, Healthy: true, Celsius: 61}, {ID: "b", Index: 1, Healthy: true}, {ID: "c", Index: 2},
		}, NUMA: []ares.NUMANode{{ID: 0, CPUs: 8, MemoryMB: 1000}}, Taints: []ares.Taint{{Key: "lab", Value: "x", Effect: ares.NoSchedule}},
		Links: [][]string{{"X", "NV4", "SYS"}, {"NV4", "X", "SYS"}},
	} // the other fields are not compared
	_, err := h.store.OpenSession(ctx, node, "0123456789abcdef", "here", time.Minute, 0)
	must(t, err)
	h.submit()
	h.seen()
	a = h.do("GET", "/api/v1/cluster/status", nil)
	for key, want := range map[string]any{
		"total_nodes": 1.0, "online_nodes": 1.0, "total_gpus": 3.0, "available_gpus": 2.0, "total_jobs": 1.0, "pending_jobs": 1.0, "mock": true,
	} {
		if a.json[key] != want {
			t.Errorf("%s is %v, want %v", key, a.json[key], want)
		}
	}
	if states := slices.Sorted(maps.Keys(a.json["jobs"].(map[string]any))); len(states) != len(ares.Phases()) {
		t.Errorf("jobs are counted by %v", states)
	}
	a = h.do("POST", "/api/v1/nodes/n1/cordon", map[string]any{"reason": "fan"})
	if a.code != 200 || a.json["state"] != "cordoned" || a.json["cordoned_by"] != "token:admin" || a.json["cordon_reason"] != "fan" {
		t.Errorf("cordon answered %d %s", a.code, a.body)
	}
	if a = h.do("GET", "/api/v1/nodes", nil); a.json["total"] != 1.0 || a.json["nodes"].([]any)[0].(map[string]any)["state"] != "cordoned" {
		t.Errorf("nodes are %s", a.body)
	}
	if a = h.do("GET", "/api/v1/cluster/status", nil); a.json["available_gpus"] != 0.0 || a.json["cordoned_nodes"] != 1.0 {
		t.Errorf("status with a cordon is %s", a.body)
	}
	a = h.do("POST", "/api/v1/nodes/n1/drain", map[string]any{"reason": "fan", "force": true})
	if d, _ := a.json["drain"].(map[string]any); a.code != 200 || a.json["state"] != "cordoned" || d["force"] != true || d["seats_left"] != 0.0 || d["since"] == "" {
		t.Errorf("drain answered %d %s", a.code, a.body)
	}
	a = h.do("GET", "/api/v1/nodes/n1", nil)
	if a.json["drain"] == nil || !reflect.DeepEqual(a.json["numa"], []any{map[string]any{"id": 0.0, "cpu_cores": 8.0, "memory_mb": 1000.0, "cpu_milli": 0.0}}) ||
		!reflect.DeepEqual(a.json["taints"], []any{map[string]any{"key": "lab", "value": "x", "effect": "NoSchedule"}}) ||
		a.json["devices"].([]any)[0].(map[string]any)["celsius"] != 61.0 {
		t.Errorf("a drained node is %s", a.body)
	}
	if a = h.do("POST", "/api/v1/nodes/n1/uncordon", nil); a.code != 200 || a.json["state"] != "online" {
		t.Errorf("uncordon answered %d %s", a.code, a.body)
	}
	if a = h.do("GET", "/api/v1/nodes/n1", nil); a.json["state"] != "online" || a.json["gpus_free"] != 2.0 || a.json["cpu_cores_free"] != 8.0 {
		t.Errorf("node is %s", a.body)
	}
	rows, _ := a.json["links"].([]any)
	if len(rows) != 2 || fmt.Sprint(rows[0].(map[string]any)["to"]) != "[X NV4 SYS]" {
		t.Errorf("the links of a node are %v", rows)
	}
	if a = h.do("GET", "/api/v1/nodes", nil); strings.Contains(a.body, "NV4") {
		t.Errorf("a list has links: %s", a.body)
	}
	for _, path := range []string{"/api/v1/nodes/n2", "/api/v1/nodes/%ff"} {
		h.refused(h.do("GET", path, nil), 404, ares.NotFound)
		h.refused(h.do("POST", path+"/cordon", nil), 404, ares.NotFound)
		h.refused(h.do("POST", path+"/drain", nil), 404, ares.NotFound)
	}
}
