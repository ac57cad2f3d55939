package api

import (
	"cmp"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestArrays checks that a list of jobs shows an array as one job, with counts
// of its elements. A separate request must list the elements.
func TestArrays(t *testing.T) {
	h := newHouse(t)
	id := h.submit("name", "sweep", "array", map[string]any{"count": 5, "parallelism": 3})
	lead, resign := storetest.NewLead(t, h.store)
	defer resign()
	node := storetest.NewNode(t, h.store)
	seats := storetest.Grow(t, h.store, lead, &ares.Job{ID: ares.JobID(id)}, 3, node)
	storetest.Claim(t, h.store, seats[:1], node)
	storetest.Finish(t, h.store, seats[0], ares.OutcomeSucceeded)
	revision, err := h.store.Revision(t.Context())
	must(t, err)
	must(t, h.view.WaitFor(t.Context(), revision))

	a := h.do("GET", "/api/v1/jobs/"+id, nil)
	counts, _ := a.json["elements"].(map[string]any)
	if a.json["state"] != "running" || a.json["started_at"] == nil || counts["total"] != 5. || counts["made"] != 3. || counts["running"] != 2. || counts["succeeded"] != 1. {
		t.Errorf("the array is %s", a.body)
	}
	a = h.do("GET", "/api/v1/jobs", nil)
	if jobs := a.json["jobs"].([]any); len(jobs) != 1 || a.json["total"] != 1. || jobs[0].(map[string]any)["elements"].(map[string]any)["made"] != 3. {
		t.Errorf("the list is %s", a.body)
	}
	a = h.do("GET", "/api/v1/jobs?page_size=2&array_of="+id, nil)
	jobs := a.json["jobs"].([]any)
	if len(jobs) != 2 || a.json["total"] != 3. || jobs[1].(map[string]any)["name"] != "sweep[1]" || jobs[1].(map[string]any)["array_index"] != 1. || jobs[1].(map[string]any)["array_of"] != id {
		t.Errorf("its elements are %s", a.body)
	}
	a = h.do("GET", "/api/v1/jobs?page_size=2&array_of="+id+"&page_token="+a.json["next_page_token"].(string), nil)
	if jobs = a.json["jobs"].([]any); len(jobs) != 1 || jobs[0].(map[string]any)["job_id"] != string(seats[2].Job) || a.json["next_page_token"] != nil && a.json["next_page_token"] != "" {
		t.Errorf("the rest is %s", a.body)
	}
	h.refused(h.do("GET", "/api/v1/jobs?array_of=nobody", nil), 400, ares.Invalid, `"field":"array_of"`)
	for range 2 {
		if a = h.do("DELETE", "/api/v1/jobs/"+id, nil); a.code != 200 || a.json["status"] != "cancelling" {
			t.Errorf("cancel answered %d %s", a.code, a.body)
		}
	}
	h.refused(h.do("POST", "/api/v1/jobs", job("array", map[string]any{"count": 10_001})), 400, ares.Invalid, "array.count")
	h.refused(h.do("POST", "/api/v1/jobs", job("after", []string{"job-aaaaaaaaaaaaaaaaaaaaaaaa"})), 403, ares.DependencyUnknown, `"field":"after[0]"`)
}

// TestOrdersCarryLostAfter checks that the server sends each job's lost_after to the agent. An agent of another version has another default, or
// none, and must end the job by the time for which the leader waits.
func TestOrdersCarryLostAfter(t *testing.T) {
	h := newHouse(t)
	lead, resign := storetest.NewLead(t, h.store)
	defer resign()
	node := storetest.NewNode(t, h.store)
	want := map[ares.JobID]time.Duration{}
	for _, seconds := range []int{0, 12, 30} {
		j := storetest.NewJob(t, h.store, func(s *ares.Spec) { s.LostAfterSeconds = seconds })
		want[j.ID] = cmp.Or(time.Duration(seconds)*time.Second, ares.DefaultLostAfter)
		storetest.Place(t, h.store, lead, j, node)
	}
	revision, err := h.store.Revision(t.Context())
	must(t, err)
	must(t, h.view.WaitFor(t.Context(), revision))
	d := &service.AgentService{View: h.view}
	entries, _, _ := h.view.SeatsOn(node.ID)
	orders := 0
	for _, e := range entries {
		for _, o := range d.Orders(e, node.ID) {
			orders++
			if secs := int32(want[e.Job.ID] / time.Second); o.GetLostAfterSeconds() != secs || o.GetSpec().GetLostAfterSeconds() != secs || e.Job.LostAfter() != want[e.Job.ID] {
				t.Errorf("the agent gets %d s and %d s, the leader waits for %s, want %s", o.GetLostAfterSeconds(), o.GetSpec().GetLostAfterSeconds(), e.Job.LostAfter(), want[e.Job.ID])
			}
		}
	}
	if orders != len(want) {
		t.Errorf("%d orders for %d jobs", orders, len(want))
	}
}

// TestOrdersOfElements checks the SeatOrder message that an agent receives for
// an array element. The message must contain the element's index and the actual
// number of members of the attempt.
func TestOrdersOfElements(t *testing.T) {
	h := newHouse(t)
	lead, resign := storetest.NewLead(t, h.store)
	defer resign()
	node := storetest.NewNode(t, h.store)
	array := storetest.NewJob(t, h.store, storetest.Elements(4))
	elastic := storetest.NewJob(t, h.store, func(s *ares.Spec) { s.Members, s.MinMembers = 4, 2 })
	storetest.Grow(t, h.store, lead, array, 2, node)
	storetest.Place(t, h.store, lead, elastic, node, node)
	revision, err := h.store.Revision(t.Context())
	must(t, err)
	must(t, h.view.WaitFor(t.Context(), revision))
	d := &service.AgentService{View: h.view}
	entries, _, _ := h.view.SeatsOn(node.ID)
	seen := map[int32]bool{}
	for _, e := range entries {
		for _, o := range d.Orders(e, node.ID) {
			if e.Job.ID == elastic.ID {
				if o.GetWorldSize() != 2 || o.GetArrayJobId() != "" {
					t.Errorf("the order for an elastic gang is %v", o)
				}
				continue
			}
			seen[o.GetArrayIndex()] = true
			if o.GetArrayJobId() != string(array.ID) || o.GetArrayCount() != 4 || o.GetWorldSize() != 1 {
				t.Errorf("the order for an element is %v", o)
			}
		}
	}
	if len(seen) != 2 || !seen[0] || !seen[1] {
		t.Errorf("orders for elements %v", seen)
	}
}
