package api

import (
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

func TestQueues(t *testing.T) {
	h := newHouse(t)
	if a := h.do("POST", "/api/v1/tenants", tenant("id", "vision")); a.code != 201 {
		t.Fatal(a.body)
	}
	quota := []any{map[string]any{"gpu_model": "h100", "nominal_gpus": 16, "borrowing_limit": 8}}
	for range 2 { // the request may be repeated
		a := h.do("POST", "/api/v1/queues", map[string]any{"tenant_id": "vision", "name": "training", "weight": 3, "max_gpus": 32, "quotas": quota})
		if a.code != 201 || a.json["id"] != "vision/training" || a.json["max_gpus"] != 32.0 || a.json["max_cpu_cores"] != nil || a.json["weight"] != 3.0 {
			t.Fatalf("create answered %d %s", a.code, a.body)
		}
		q := a.json["quotas"].([]any)[0].(map[string]any)
		if q["borrowing_limit"] != 8.0 || q["lending_limit"] != nil || q["nominal_gpus"] != 16.0 {
			t.Errorf("the quota is %v, want an absent limit to stay absent", q)
		}
	}
	const training = "/api/v1/tenants/vision/queues/training"
	h.refused(h.do("POST", "/api/v1/queues", map[string]any{"tenant_id": "vision", "name": "training"}), 409, ares.Conflict, "exists")
	h.refused(h.do("POST", "/api/v1/queues", map[string]any{"tenant_id": "nobody", "name": "q"}), 404, ares.NotFound, "tenant")
	h.refused(h.do("POST", "/api/v1/queues", map[string]any{"tenant_id": "vision", "name": "a b", "weight": -1, "max_gpus": -1}), 400, ares.Invalid, "weight")
	h.refused(h.do("POST", "/api/v1/queues", map[string]any{"tenant_id": "vision", "name": "x", "parent": "nowhere"}), 400, ares.Invalid, "parent")
	if a := h.do("POST", "/api/v1/queues", map[string]any{"tenant_id": "vision", "name": "night", "parent": "training"}); a.code != 201 || a.json["parent"] != "training" {
		t.Errorf("create answered %d %s", a.code, a.body)
	}
	h.refused(h.do("PATCH", training, map[string]any{"parent": "night"}), 400, ares.Invalid, "cycle")
	h.refused(h.do("PATCH", training, map[string]any{"name": "other"}), 400, ares.Invalid, "name")
	if a := h.do("PATCH", training, map[string]any{"max_gpus": 2147483647}); a.code != 200 || a.json["max_gpus"] != nil || a.json["weight"] != 3.0 || a.json["quotas"] == nil {
		t.Errorf("patch answered %d %s", a.code, a.body)
	}
	h.refused(h.do("PATCH", training+"?clear_quotas=true", map[string]any{"quotas": quota}), 400, ares.Invalid, "quotas")
	if a := h.do("PATCH", training+"?clear_quotas=true", map[string]any{}); a.code != 200 || len(a.json["quotas"].([]any)) != 0 {
		t.Errorf("patch answered %d %s", a.code, a.body)
	}
	a := h.do("GET", "/api/v1/queues?tenant_id=vision&page_size=2", nil)
	if a.json["total"] != 3.0 || !strings.Contains(a.body, `"vision/default"`) {
		t.Errorf("list answered %s", a.body)
	}
	b := h.do("GET", "/api/v1/tenants/vision/queues?page_token="+a.json["next_page_token"].(string), nil)
	if len(b.json["queues"].([]any)) != 1 || !strings.Contains(b.body, `"vision/training"`) {
		t.Errorf("the next page is %s", b.body)
	}
	h.refused(h.do("GET", "/api/v1/queues?tenant_id=nobody", nil), 404, ares.NotFound)
	h.refused(h.do("DELETE", training, nil), 409, ares.Conflict, "night")
	h.refused(h.do("GET", "/api/v1/tenants/vision/queues/nowhere", nil), 404, ares.NotFound)
}

func TestAJobNeedsItsQueue(t *testing.T) {
	h := newHouse(t)
	h.refused(h.do("POST", "/api/v1/jobs", job("queue", "training")), 400, ares.Invalid, "queue create")
	if a := h.do("POST", "/api/v1/queues", map[string]any{"name": "training"}); a.code != 201 || a.json["tenant_id"] != "default" {
		t.Fatal(a.body)
	}
	id := h.submit("queue", "training")
	h.seen()
	a := h.do("GET", "/api/v1/tenants/default/queues/training", nil)
	if a.json["current"].(map[string]any)["pending_jobs"] != 1.0 {
		t.Errorf("the queue is %s", a.body)
	}
	h.refused(h.do("DELETE", "/api/v1/tenants/default/queues/training", nil), 409, ares.Conflict, "1 live jobs")
	h.do("DELETE", "/api/v1/jobs/"+id, nil)
	if a = h.do("DELETE", "/api/v1/tenants/default/queues/training", nil); a.code != 200 {
		t.Errorf("delete answered %d %s", a.code, a.body)
	}
}

// TestTheDefaultQueue checks that the default queue exists without being created
// and can be configured. While jobs wait in it, it can be reset to its defaults.
func TestTheDefaultQueue(t *testing.T) {
	h := newHouse(t)
	const path = "/api/v1/tenants/default/queues/default"
	if a := h.do("GET", path, nil); a.code != 200 || a.json["weight"] != 1.0 || a.json["created_at"] != nil {
		t.Errorf("got %d %s", a.code, a.body)
	}
	h.refused(h.do("GET", "/api/v1/tenants/nobody/queues/default", nil), 404, ares.NotFound)
	h.refused(h.do("DELETE", path, nil), 409, ares.Conflict, "built in")
	h.submit()
	if a := h.do("PATCH", path, map[string]any{"weight": 5}); a.code != 200 || a.json["weight"] != 5.0 || a.json["created_at"] == nil {
		t.Errorf("patch answered %d %s", a.code, a.body)
	}
	if a := h.do("DELETE", path, nil); a.code != 200 {
		t.Errorf("delete answered %d %s", a.code, a.body)
	}
}

func TestTenantQuotas(t *testing.T) {
	h := newHouse(t)
	quota := func(q ...any) []any {
		return []any{map[string]any{"gpu_model": "h100", "nominal_gpus": q[0], "lending_limit": q[1]}}
	}
	a := h.do("POST", "/api/v1/tenants", tenant("id", "vision", "quotas", quota(16, 4), "gpu_hours_per_month", 5000))
	if a.code != 201 || a.json["gpu_hours_per_month"] != 5000.0 || a.json["quotas"].([]any)[0].(map[string]any)["lending_limit"] != 4.0 {
		t.Fatalf("create answered %d %s", a.code, a.body)
	}
	a = h.do("PATCH", "/api/v1/tenants/vision", map[string]any{"max_gpus": 3})
	if len(a.json["quotas"].([]any)) != 1 || a.json["gpu_hours_per_month"] != 5000.0 {
		t.Errorf("a change of something else answered %s", a.body)
	}
	a = h.do("PATCH", "/api/v1/tenants/vision?clear_quotas=true", map[string]any{"gpu_hours_per_month": 0})
	if len(a.json["quotas"].([]any)) != 0 || a.json["gpu_hours_per_month"] != nil {
		t.Errorf("clearing answered %s", a.body)
	}
	h.refused(h.do("PATCH", "/api/v1/tenants/vision", map[string]any{"quotas": quota(-1, 4)}), 400, ares.Invalid, "quotas[0].nominal_gpus")
	h.refused(h.do("PATCH", "/api/v1/tenants/vision", map[string]any{"gpu_hours_per_month": -1}), 400, ares.Invalid)
}

func TestTopology(t *testing.T) {
	h := newHouse(t)
	a := h.do("GET", "/api/v1/topology", nil)
	if a.code != 200 || a.json["weights"].(map[string]any)["resource_availability"] != 0.4 || a.json["revision"] != "0" {
		t.Fatalf("before the first: %d %s", a.code, a.body)
	}
	top := map[string]any{
		"domains": []any{
			map[string]any{"name": "spine-1", "level": "spine"},
			map[string]any{"name": "r1", "level": "rack", "parent": "spine-1", "switch": "100GbE", "nodes": []any{"n1"}, "adjacent": []any{"r2"}},
			map[string]any{"name": "r2", "level": "leaf", "parent": "spine-1"},
		},
		"weights":            map[string]any{"resource_availability": 0.7, "topology_alignment": 0.1, "domain_utilization": 0.1, "historical_performance": 0.1},
		"max_nodes_per_leaf": 4,
	}
	a = h.do("PUT", "/api/v1/topology", top)
	if a.code != 200 || !strings.Contains(a.body, "node n1 of leaf r1 has not registered") {
		t.Fatalf("apply answered %d %s", a.code, a.body)
	}
	first := a.json["topology"].(map[string]any)["revision"]
	a = h.do("GET", "/api/v1/topology", nil)
	if a.json["weights"].(map[string]any)["resource_availability"] != 0.7 || a.json["max_nodes_per_leaf"] != 4.0 || a.json["revision"] != first {
		t.Errorf("got %s", a.body)
	}
	if b := h.do("PUT", "/api/v1/topology", a.json); b.code != 200 {
		t.Errorf("what was read cannot be applied: %d %s", b.code, b.body)
	}
	a.json["revision"], a.json["max_nodes_per_leaf"] = "1", 5
	h.refused(h.do("PUT", "/api/v1/topology", a.json), 409, ares.Conflict, "another request")
	h.refused(h.do("PUT", "/api/v1/topology", map[string]any{"domains": []any{map[string]any{"name": "x", "level": "planet"}}}), 400, ares.Invalid, "level")
	h.refused(h.do("PUT", "/api/v1/topology", map[string]any{"weights": map[string]any{"resource_availability": 0.3333}}), 400, ares.Invalid, "0.001")
	h.refused(h.do("PUT", "/api/v1/topology", map[string]any{"weights": map[string]any{"resource_availability": 0.3}}), 400, ares.Invalid, "add up to 1")
	h.refused(h.do("PUT", "/api/v1/topology", map[string]any{"weights": map[string]any{}}), 400, ares.Invalid, "add up to 1")
	h.refused(h.do("PUT", "/api/v1/topology", map[string]any{"racks": 1}), 400, ares.Invalid, "racks")
}

// TestExplain checks that an explanation never reveals other tenants' jobs, even
// if the engine names them.
func TestExplain(t *testing.T) {
	e := &fakeEngine{}
	h := newHouse(t, func(c *Config) { c.Engine = e })
	if a := h.do("POST", "/api/v1/tenants", tenant("id", "vision")); a.code != 201 {
		t.Fatal(a.body)
	}
	id, theirs := h.submit(), h.submit("tenant_id", "vision")
	h.seen()
	own, other := ares.JobRef(ares.JobID(id), "default", "default"), ares.JobRef(ares.JobID(theirs), "vision", "default")
	e.explains = ares.Explanation{
		Queue: "default", Rank: 2, Of: 5,
		Remedies: []ares.Remedy{
			{{Kind: ares.StepEnd, Target: other, Text: ares.Textf("end %s", other)}},
			{{Kind: ares.StepEnd, Target: own, Text: ares.Textf("end %s", own)}, {Kind: ares.StepLimit, Target: ares.ScopeRef("default", ""), Amount: 2, Text: ares.PlainText("raise it")}},
			{{Kind: ares.StepSucceed, Target: other, Text: ares.Textf("%s succeeds", other)}},
		},
		Ahead:   []ares.Ahead{{Tenant: "default", Jobs: 1, First: "job-ours"}, {Tenant: "vision", Jobs: 3, First: ares.JobID(theirs)}},
		Holders: []ares.Holder{{Tenant: "vision", Job: ares.JobID(theirs), GPUs: 8, Nodes: 1}, {Tenant: "default", Job: "job-ours", GPUs: 1, Nodes: 1}},
	}
	a := h.do("GET", "/api/v1/jobs/"+id+"/explain", nil)
	if a.code != 200 || a.json["rank"] != 2.0 || a.json["of"] != 5.0 || a.json["job_id"] != id || len(a.json["remedies"].([]any)) != 2 {
		t.Fatalf("got %d %s", a.code, a.body)
	}
	for _, secret := range []string{theirs, "vision"} {
		if strings.Contains(a.body, secret) {
			t.Errorf("%s tells of %s", a.body, secret)
		}
	}
	if !strings.Contains(a.body, "job-ours") {
		t.Errorf("%s does not name its own tenant's jobs", a.body)
	}
	b := h.do("GET", "/api/v1/jobs/"+id, nil)
	if b.json["explanation"].(map[string]any)["rank"] != 2.0 || b.json["waiting_for"].([]any)[0] != "there is no node" {
		t.Errorf("the job is %s", b.body)
	}
	h.do("DELETE", "/api/v1/jobs/"+id, nil)
	if a := h.do("GET", "/api/v1/jobs/"+id+"/explain", nil); a.code != 200 || a.json["state"] != "cancelled" || !strings.Contains(a.body, "cancelled by token:admin") {
		t.Errorf("a job that has ended is explained with %d %s", a.code, a.body)
	}
	h.refused(h.do("GET", "/api/v1/jobs/job-aaaaaaaaaaaaaaaaaaaaaaaa/explain", nil), 404, ares.NotFound)
}

// TestPlanOfOneThatWaits checks that a plan for a job that would wait uses the
// job's predicted runtime. The plan must say when the job would start and which
// jobs it would preempt.
func TestPlanOfOneThatWaits(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e := &fakeEngine{explains: ares.Explanation{Queue: "default", Rank: 2, Of: 2, ETA: ares.ETA{Latest: at, Reserved: true, Basis: ares.PlainText("behind 1 job in the queue")}}}
	h := newHouse(t, func(c *Config) {
		c.Engine = e
		c.Predict = func(*ares.Job) ares.RuntimePredicted {
			return ares.RuntimePredicted{P50: time.Hour, P90: 3 * time.Hour}
		}
	})
	a := h.do("POST", "/api/v1/jobs:plan", job())
	why, _ := a.json["explanation"].(map[string]any)
	eta, _ := why["eta"].(map[string]any)
	if a.code != 200 || a.json["placed"] != false || why["rank"] != 2.0 || eta["latest"] != "2026-03-01T12:00:00Z" || eta["reserved"] != true {
		t.Errorf("got %d %s", a.code, a.body)
	}
	if e.told == nil || e.told.P90 != 3*time.Hour {
		t.Errorf("the engine was told %+v", e.told)
	}
}

func TestPlan(t *testing.T) {
	e := &fakeEngine{}
	h := newHouse(t, func(c *Config) { c.Engine = e })
	a := h.do("POST", "/api/v1/jobs:plan", job())
	if a.code != 200 || a.json["placed"] != false || !strings.Contains(a.body, "there is no node") {
		t.Errorf("got %d %s", a.code, a.body)
	}
	e.places = &ares.Placing{
		Score: 7, PlacementScore: ares.PlacementScore{Level: ares.LevelLeaf, Domain: "leaf-1", Stranded: -3, Bandwidth: 9},
		Seats: []ares.Seat{{Node: "n1", Shares: []ares.Share{{Device: "g", Index: 3, Milli: 1000}}}},
	}
	a = h.do("POST", "/api/v1/jobs:plan", job())
	if a.code != 200 || a.json["placed"] != true || a.json["score"] != 7.0 || a.json["placement_score"].(map[string]any)["stranded_milli"] != -3.0 ||
		a.json["seats"].([]any)[0].(map[string]any)["node"] != "n1" {
		t.Errorf("got %d %s", a.code, a.body)
	}
	h.seen()
	if all := h.do("GET", "/api/v1/jobs", nil); all.json["total"] != 0.0 {
		t.Errorf("a plan left %s", all.body)
	}
	if e.told != nil {
		t.Errorf("nobody predicts anything, and the engine was told %+v", e.told)
	}
	h.refused(h.do("POST", "/api/v1/jobs:plan", job("queue", "nowhere")), 400, ares.Invalid, "queue")
	h.refused(h.do("POST", "/api/v1/jobs:plan", job("gpu_count", -1)), 400, ares.Invalid, "gpu_count")
}

func TestFairness(t *testing.T) {
	h := newHouse(t, func(c *Config) {
		c.Engine = &fakeEngine{fair: ares.Fairness{Jain: 875, Shares: []ares.FairShare{
			{Tenant: "default", Weight: 2, GPUMilli: 1500, Resource: "gpu", DominantShare: 250_000, WeightedShare: 125_000},
			{Tenant: "default", Queue: "default"},
			{Tenant: "vision"},
		}}}
	})
	a := h.do("GET", "/api/v1/fairness", nil)
	s := a.json["shares"].([]any)[0].(map[string]any)
	if a.json["jain_index"] != 0.875 || s["dominant_share"] != 0.25 || s["gpus"] != 1.5 || s["weighted_share"] != 0.125 || s["resource"] != "gpu" {
		t.Errorf("got %s", a.body)
	}
	if a = h.do("GET", "/api/v1/fairness?tenant_id=default", nil); len(a.json["shares"].([]any)) != 2 {
		t.Errorf("got %s", a.body)
	}
	h.refused(h.do("GET", "/api/v1/fairness?tenant_id=nobody", nil), 404, ares.NotFound)
}
