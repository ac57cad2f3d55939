package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// The type `cast` holds a critical job of one tenant and its two victims. One victim belongs to the critical
// job's tenant, and the other victim belongs to another tenant.
type cast struct {
	lead       *store.Leadership
	to         *ares.Job
	own, other store.SeatRef
}

// The method `preempt` makes a critical job preempt two running jobs.
func (h *house) preempt() *cast {
	h.t.Helper()
	c := &cast{}
	c.lead, _ = storetest.NewLead(h.t, h.store)
	get := func(id string) *ares.Job { return storetest.Get(h.t, h.store, ares.JobID(id)).Job }
	must(h.t, h.store.RegisterTenant(h.t.Context(), ares.Tenant{ID: "vision", Limits: ares.NoLimits(), Weight: 1}))
	h.seen()
	c.to = get(h.submit("name", "urgent", "priority_class", "critical", "members", 2, "gpu_count", 1))
	run := func(more ...any) store.SeatRef {
		node := storetest.NewNode(h.t, h.store)
		seats := storetest.Place(h.t, h.store, c.lead, get(h.submit(append(more, "gpu_count", 1, "priority_class", "low")...)), node)
		storetest.Claim(h.t, h.store, seats, node)
		return seats[0]
	}
	c.own, c.other = run("name", "mine"), run("name", "theirs", "tenant_id", "vision")
	plan := storetest.Nominating(h.t, h.store, c.to, []store.SeatRef{c.own, c.other})
	if _, dropped, err := h.store.Commit(h.t.Context(), c.lead, "digest", plan); err != nil || len(dropped) > 0 {
		h.t.Fatalf("dropped %v, %v", dropped, err)
	}
	h.seen()
	return c
}

func texts(list any) string {
	var out []string
	for _, p := range list.([]any) {
		out = append(out, p.(map[string]any)["text"].(string))
	}
	return strings.Join(out, "\n")
}

func TestPreemptionsAreListedWithTheirReckoning(t *testing.T) {
	h := newHouse(t)
	if a := h.do("GET", "/api/v1/preemptions", nil); a.code != 200 || a.json["total"] != 0.0 || fmt.Sprint(a.json["preemptions"]) != "[]" {
		t.Fatalf("none are %s", a.body)
	}
	c := h.preempt()
	at := storetest.Noon.Add(10 * time.Second)
	must(t, h.store.Checkpointed(t.Context(), c.own, storetest.SessionOf(t, h.store, c.own.Node), at))
	if _, err := h.store.Finish(t.Context(), c.own, storetest.Result(ares.OutcomeStopped), at.Add(2*time.Second)); err != nil {
		t.Fatal(err)
	}
	h.seen()
	a := h.do("GET", "/api/v1/preemptions", nil)
	list := a.json["preemptions"].([]any)
	if a.json["total"] != 2.0 || len(list) != 2 || a.json["gpu_seconds_lost"] != 7262.0 {
		t.Fatalf("answered %s", a.body)
	}
	first := list[0].(map[string]any)
	for key, want := range map[string]any{
		"job_id": string(c.own.Job), "tenant_id": "default", "name": "mine", "attempt": 1.0, "state": "gone", "priority_class": "low",
		"by_job_id": string(c.to.ID), "by_tenant_id": "default", "by_priority_class": "critical", "why": "class",
		"gpus": 1.0, "asked_gpus": 2.0, "gpu_seconds_lost": 62.0, "restart_gpu_seconds": 60.0,
		"at": "2030-01-02T12:00:12Z", "checkpointed_at": "2030-01-02T12:00:10Z",
		"text": "was preempted by job " + string(c.to.ID) + " of tenant default (critical over low): 1 GPU, 2 GPU-seconds since its last checkpoint at 2030-01-02T12:00:10Z, and 60 for the restart",
	} {
		if first[key] != want {
			t.Errorf("%s is %v, want %v", key, first[key], want)
		}
	}
	if second := list[1].(map[string]any); second["state"] != "stopping" || second["job_id"] != string(c.other.Job) || second["by_job_id"] != string(c.to.ID) {
		t.Errorf("the other is %v", second)
	}
	for query, want := range map[string]int{
		"job_id=" + string(c.own.Job): 1, "job_id=" + string(c.to.ID): 2, "tenant_id=vision": 1, "tenant_id=default": 2,
		"since=2030-01-02T12:00:05Z": 1, "since=2030-01-02T13:00:00Z": 0,
	} {
		if a := h.do("GET", "/api/v1/preemptions?"+query, nil); a.json["total"] != float64(want) {
			t.Errorf("%s: %s, want %d", query, a.body, want)
		}
	}
	h.refused(h.do("GET", "/api/v1/preemptions?job_id=x", nil), 404, ares.NotFound, "job_id")
	h.refused(h.do("GET", "/api/v1/preemptions?page_token=x", nil), 400, ares.Invalid, "page_token")
	h.refused(h.do("GET", "/api/v1/preemptions?since=yesterday", nil), 400, ares.Invalid, "since")

	page := h.do("GET", "/api/v1/preemptions?page_size=1", nil)
	next := h.do("GET", "/api/v1/preemptions?page_size=1&page_token="+page.json["next_page_token"].(string), nil)
	if page.json["preemptions"].([]any)[0].(map[string]any)["job_id"] != string(c.own.Job) ||
		next.json["preemptions"].([]any)[0].(map[string]any)["job_id"] != string(c.other.Job) || next.json["next_page_token"] != "" {
		t.Errorf("pages are %s and %s", page.body, next.body)
	}
}

// TestPreemptionsTellNothingOfOtherTenants reads lists of preemptions as a caller that may see only one
// tenant. The caller must learn nothing about another tenant's jobs.
func TestPreemptionsTellNothingOfOtherTenants(t *testing.T) {
	h := newHouse(t)
	c := h.preempt()
	reader := func(tenant string) func(*http.Request) {
		a := h.do("POST", "/api/v1/tokens", map[string]any{"name": "reader", "tenant_id": tenant, "bindings": []any{map[string]any{"role": "viewer", "tenant_id": tenant}}})
		if a.code != http.StatusCreated {
			t.Fatal(a.body)
		}
		return with(a.json["token"].(string))
	}
	theirs, ours := reader("vision"), reader("default")
	secret := []string{string(c.to.ID), "default", "urgent"}
	must(t, h.store.Checkpointed(t.Context(), c.other, storetest.SessionOf(t, h.store, c.other.Node), storetest.Noon.Add(time.Second)))
	for _, end := range []bool{false, true} {
		if end {
			if _, err := h.store.Finish(t.Context(), c.other, storetest.Result(ares.OutcomeStopped), storetest.Noon.Add(2*time.Second)); err != nil {
				t.Fatal(err)
			}
			h.seen()
		}
		for _, path := range []string{
			"/api/v1/preemptions?tenant_id=vision", "/api/v1/jobs/" + string(c.other.Job), "/api/v1/jobs/" + string(c.other.Job) + "/explain",
			"/api/v1/jobs/" + string(c.other.Job) + "/events",
		} {
			a := h.do("GET", path, nil, theirs)
			if a.code != 200 || !strings.Contains(a.body, "another") {
				t.Errorf("%s answered %d %s", path, a.code, a.body)
			}
			for _, s := range secret {
				if strings.Contains(strings.ReplaceAll(a.body, `"queue":"default"`, ""), s) {
					t.Errorf("%s tells %s: %s", path, s, a.body)
				}
			}
		}
	}
	// Users of the preemptor's tenant do not learn which job of another tenant was
	// preempted.
	a := h.do("GET", "/api/v1/jobs/"+string(c.to.ID), nil, ours)
	if strings.Contains(a.body, string(c.other.Job)) || strings.Contains(a.body, "theirs") || !strings.Contains(a.body, string(c.own.Job)) {
		t.Errorf("the nominated job shows %s", a.body)
	}
	for _, v := range a.json["nomination"].(map[string]any)["victims"].([]any) {
		victim := v.(map[string]any)
		if hidden := victim["job_id"] != string(c.own.Job); hidden && (victim["checkpointed_at"] != nil || victim["gpu_seconds_lost"] != 0.0 ||
			victim["restart_gpu_seconds"] != 0.0 || strings.Contains(victim["text"].(string), "since")) {
			t.Errorf("the nominated job tells when another tenant's run began: %v", victim)
		}
	}
	// A caller that may see both tenants sees the names of the preemptor and the
	// victim.
	for path, name := range map[string]ares.JobID{
		"/api/v1/jobs/" + string(c.other.Job): c.to.ID, "/api/v1/jobs/" + string(c.other.Job) + "/explain": c.to.ID, "/api/v1/jobs/" + string(c.to.ID): c.other.Job,
	} {
		if a := h.do("GET", path, nil); !strings.Contains(a.body, string(name)) {
			t.Errorf("%s does not tell an administrator of %s: %s", path, name, a.body)
		}
	}
}

func TestExplainSaysWhoGaveWayAndWhatIsKept(t *testing.T) {
	h := newHouse(t)
	c := h.preempt()
	a := h.do("GET", "/api/v1/jobs/"+string(c.to.ID)+"/explain", nil)
	n := a.json["nomination"].(map[string]any)
	if got := n["text"]; got != fmt.Sprintf("2 seats are kept on %s, %s until 2030-01-02T12:01:00Z, while 2 of 2 jobs are still to stop", c.own.Node, c.other.Node) {
		t.Errorf("kept: %v", got)
	}
	if seats := n["seats"].([]any); len(seats) != 2 || seats[1].(map[string]any)["node"] != c.other.Node {
		t.Errorf("seats %v", seats)
	}
	a = h.do("GET", "/api/v1/jobs/"+string(c.own.Job)+"/explain", nil)
	want := "is being preempted by job " + string(c.to.ID) + " of tenant default (critical over low): 1 GPU, 7140 GPU-seconds since its start at 2030-01-02T12:00:00Z, and 60 for the restart"
	if a.code != 200 || a.json["state"] != "running" || texts(a.json["preemptions"]) != want {
		t.Errorf("the victim's: %s", a.body)
	}
	for _, ref := range []store.SeatRef{c.own, c.other} {
		storetest.Finish(t, h.store, ref, ares.OutcomeStopped)
		storetest.Release(t, h.store, ref)
	}
	h.seen()
	a = h.do("GET", "/api/v1/jobs/"+string(c.own.Job), nil)
	if a.json["state"] != "preempted" || a.json["preemptions"] != 1.0 || !strings.Contains(a.json["reason"].(string), "preempted by job "+string(c.to.ID)+" (class)") ||
		a.json["explanation"].(map[string]any)["preemptions"] == nil || a.json["waiting_for"] == nil {
		t.Errorf("the victim is %s", a.body)
	}
	a = h.do("GET", "/api/v1/jobs/"+string(c.to.ID), nil)
	for _, v := range a.json["nomination"].(map[string]any)["victims"].([]any) {
		if v.(map[string]any)["state"] != "gone" {
			t.Errorf("victim %v", v)
		}
	}
}

func TestCheckpointsComeThroughTheAgentsDoor(t *testing.T) {
	h := newHouse(t)
	lead, _ := storetest.NewLead(t, h.store)
	job, node := storetest.NewJob(t, h.store), storetest.NewNode(t, h.store)
	seats := storetest.Place(t, h.store, lead, job, node)
	storetest.Claim(t, h.store, seats, node)
	h.seen()
	since := h.view.Revision()
	now := storetest.Noon.Add(time.Hour)
	door := &service.AgentService{Store: h.store, View: h.view, Now: func() time.Time { return now }}
	report := func(age int64, change ...func(*apipb.SeatRef)) error {
		ref := &apipb.SeatRef{JobId: string(job.ID), Fence: int64(seats[0].Fence)}
		for _, c := range change {
			c(ref)
		}
		_, err := door.ReportCheckpoint(context.Background(), &apipb.ReportCheckpointRequest{
			Ref: &apipb.SessionRef{NodeId: node.ID, Session: node.Session}, Seat: ref, AgeMs: age,
		})
		return err
	}
	must(t, report(90_000))
	h.seen()
	a := h.do("GET", "/api/v1/jobs/"+string(job.ID), nil)
	if at := a.json["attempts"].([]any)[0].(map[string]any)["checkpointed_at"]; a.code != http.StatusOK || at != "2030-01-02T12:58:30Z" {
		t.Errorf("checkpointed at %v", at)
	}
	must(t, report(1<<62)) // a file that is very old says nothing
	must(t, report(30_000))
	must(t, report(20_000))
	h.seen()
	a = h.do("GET", "/api/v1/jobs/"+string(job.ID)+"/events", nil)
	if n := strings.Count(a.body, `"checkpointed"`); n != 1 || a.json["dropped"] != 2.0 {
		t.Errorf("%d checkpoints in a row are kept: %s", n, a.body)
	}
	hs, _, _, err := h.view.EventsSince(since)
	must(t, err)
	n := 0
	for _, e := range hs {
		if e.Job == job.ID && e.Message == "checkpointed" {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d checkpoints are in the stream of events, want 3", n)
	}
	if err := report(0, func(r *apipb.SeatRef) { r.Rank = 1 }); ares.CodeOf(err) != ares.Invalid {
		t.Errorf("rank 1: %v", err)
	}
	if err := report(0, func(r *apipb.SeatRef) { r.Fence-- }); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("an old fence: %v", err)
	}
}
