package api

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
)

// TestAReasonIsNeverCutThroughARune checks that a long reason is not cut inside
// a rune. A reason that is cut inside a rune is invalid UTF-8. The server could
// not store it, and the rank could never report its end.
func TestAReasonIsNeverCutThroughARune(t *testing.T) {
	for pad := range 4 {
		s := strings.Repeat("x", pad) + strings.Repeat("€", 300)
		if got := ares.Truncate(s, 512); !utf8.ValidString(got) || len(got) > 512 || len(got) < 509 {
			t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
		}
	}
	if got := ares.Truncate("short", 512); got != "short" {
		t.Errorf("%q", got)
	}
}

// TestPagesOfNodesAndTenants checks that the pages of a long list leave nothing
// out. The last item of a page may be deleted before the next page is read.
func TestPagesOfNodesAndTenants(t *testing.T) {
	h := newHouse(t)
	for i := range 5 {
		name := fmt.Sprint("n", i)
		_, err := h.store.OpenSession(t.Context(), ares.Node{ID: name, CPUs: 1}, "0123456789abcdef", "s", time.Minute, 0)
		must(t, err)
		if a := h.do("POST", "/api/v1/tenants", tenant("id", "t"+name, "name", name)); a.code != 201 {
			t.Fatal(a.body)
		}
	}
	h.seen()
	read := func(path, list, id string) string {
		var got []string
		token := ""
		for {
			a := h.do("GET", path+"?page_size=2&page_token="+token, nil)
			if a.code != 200 {
				t.Fatal(a.body)
			}
			rows := a.json[list].([]any)
			if len(rows) > 2 || a.json["total"].(float64) < 5 {
				t.Errorf("a page of %d of %v", len(rows), a.json["total"])
			}
			for _, r := range rows {
				got = append(got, r.(map[string]any)[id].(string))
			}
			if token = a.json["next_page_token"].(string); token == "" {
				return strings.Join(got, " ")
			}
		}
	}
	if got := read("/api/v1/nodes", "nodes", "node_id"); got != "n0 n1 n2 n3 n4" {
		t.Errorf("the pages of nodes are %s", got)
	}
	if got := read("/api/v1/tenants", "tenants", "id"); got != "default tn0 tn1 tn2 tn3 tn4" {
		t.Errorf("the pages of tenants are %s", got)
	}
	for _, path := range []string{"/api/v1/nodes", "/api/v1/tenants"} {
		h.refused(h.do("GET", path+"?page_token=%25", nil), 400, ares.Invalid, "page_token")
		h.refused(h.do("GET", path+"?page_size=1001", nil), 400, ares.Invalid, "page_size")
	}
}

// TestAPageEndsEarly checks that a page of a list with large items ends before
// it exceeds the maximum page size.
func TestAPageEndsEarly(t *testing.T) {
	all := []string{"a", "b", "c"}
	public := func(s string) *apipb.Node {
		return &apipb.Node{NodeId: s, Address: strings.Repeat("x", service.MaxPageBytes/2)}
	}
	same := func(s string) string { return s }
	first, next, err := service.PageByID(all, 0, "", same, public)
	if err != nil || len(first) != 1 || next == "" {
		t.Fatalf("%d rows, next %q, %v", len(first), next, err)
	}
	second, next, err := service.PageByID([]string{"b", "c"}, 0, next, same, public) // "a" has been deleted
	if err != nil || len(second) != 1 || second[0].NodeId != "b" || next == "" {
		t.Errorf("then %d rows, next %q, %v", len(second), next, err)
	}
}
