package api

import (
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

func TestReservations(t *testing.T) {
	h := newHouse(t)
	if a := h.do("POST", "/api/v1/tenants", tenant("id", "vision")); a.code != 201 {
		t.Fatal(a.body)
	}
	from := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	ask := func(edit ...any) map[string]any {
		m := map[string]any{"name": "fans", "from": from.Format(time.RFC3339), "until": from.Add(time.Hour).Format(time.RFC3339), "nodes": []string{"gpu-7"}, "drain": true, "why": "new fans"}
		for i := 0; i < len(edit); i += 2 {
			m[edit[i].(string)] = edit[i+1]
		}
		return m
	}
	const path = "/api/v1/reservations"
	for range 2 { // it may be repeated
		a := h.do("POST", path, ask())
		if a.code != 201 || a.json["state"] != "upcoming" || a.json["created_by"] == "" || a.json["node_count"] != 0.0 || !strings.Contains(a.body, "no node is called gpu-7 yet") {
			t.Fatalf("create answered %d %s", a.code, a.body)
		}
	}
	h.refused(h.do("POST", path, ask("why", "other")), 409, ares.Conflict, "delete it first")
	for _, c := range []struct {
		word string
		body map[string]any
	}{
		{"name", ask("name", "a b")},
		{"must be after from", ask("until", from.Add(-time.Hour).Format(time.RFC3339))},
		{"in the past", ask("from", "2020-01-01T00:00:00Z", "until", "2020-01-02T00:00:00Z")},
		{"92 days", ask("until", from.Add(100*24*time.Hour).Format(time.RFC3339))},
		{"give nodes", ask("nodes", []string{})},
		{"leaf/l1", ask("domain", "l1")},
		{"tenant_id too", ask("queue", "training")},
		{"drain too", ask("drain", false, "force", true)},
		{"not part of a request", ask("state", "open")},
	} {
		h.refused(h.do("POST", path, c.body), 400, ares.Invalid, c.word)
	}
	h.refused(h.do("POST", path, ask("name", "theirs", "tenant_id", "nobody")), 404, ares.NotFound, "tenant")
	h.refused(h.do("POST", path, ask("name", "theirs", "tenant_id", "vision", "queue", "training")), 404, ares.NotFound, "queue")
	// A reservation without a start time begins immediately, and the request may
	// be repeated.
	now := map[string]any{"name": "now", "until": from.Format(time.RFC3339), "node_selector": map[string]string{"pool": "fast"}, "tenant_id": "vision"}
	for range 2 {
		if a := h.do("POST", path, now); a.code != 201 || a.json["state"] != "open" || !strings.Contains(a.body, "no node is meant by it yet") {
			t.Fatalf("create answered %d %s", a.code, a.body)
		}
	}
	a := h.do("GET", path+"?page_size=1", nil)
	if a.json["total"] != 2.0 || !strings.Contains(a.body, `"fans"`) {
		t.Errorf("list answered %s", a.body)
	}
	if b := h.do("GET", path+"?page_token="+a.json["next_page_token"].(string), nil); !strings.Contains(b.body, `"now"`) {
		t.Errorf("the next page is %s", b.body)
	}
	if a := h.do("GET", path+"/fans", nil); a.code != 200 || a.json["drain"] != true || a.json["why"] != "new fans" {
		t.Errorf("get answered %d %s", a.code, a.body)
	}
	if a := h.do("DELETE", path+"/fans", nil); a.code != 200 {
		t.Errorf("delete answered %d %s", a.code, a.body)
	}
	h.refused(h.do("GET", path+"/fans", nil), 404, ares.NotFound, "ares reservation list")
	h.refused(h.do("DELETE", path+"/a%20b", nil), 404, ares.NotFound)
	if a := h.do("GET", path, nil); a.json["total"] != 1.0 {
		t.Errorf("after the deletion list answered %s", a.body)
	}
}
