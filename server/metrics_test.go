package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store"
)

// TestMetricsNeedATokenBeyondLoopback checks who may read the metrics. On a loopback address anyone may read them, unless a
// node of the cluster is on this machine, because a job could read the metrics of all tenants. On other addresses, only a
// caller with permission may read the metrics.
func TestMetricsNeedATokenBeyondLoopback(t *testing.T) {
	token, hash := auth.NewToken()
	tenant, ofTenant := auth.NewToken()
	who := auth.New(auth.Config{Tokens: func(context.Context) ([]store.Token, error) {
		return []store.Token{
			{Name: "admin@here", Hash: hash, Role: auth.RoleAdmin}, {Name: "red/ci", Hash: ofTenant, Bindings: []ares.Binding{{Role: ares.TenantAdmin, Tenant: "red"}}},
		}, nil
	}})
	log, refused := auditLog(t), 0
	for _, c := range []struct {
		addr, header string
		node         string // address of a node, after "offline " for one without a session; "" for no node
		allow        bool
		want         int
	}{
		{"127.0.0.1:9091", "", "", false, http.StatusOK},
		{"[::1]:9091", "", "192.0.2.7", false, http.StatusOK},
		{"127.0.0.1:9091", "", "127.0.0.1", false, http.StatusUnauthorized},
		{"127.0.0.1:9091", "", "localhost", false, http.StatusUnauthorized},
		{"127.0.0.1:9091", "", "gpu-1.example.org", false, http.StatusUnauthorized}, // it may be this machine
		{"127.0.0.1:9091", "", "::ffff:127.0.0.1", false, http.StatusUnauthorized},
		{"127.0.0.1:9091", "", "0.0.0.0", false, http.StatusUnauthorized},
		{"127.0.0.1:9091", "", "offline 127.0.0.1", false, http.StatusUnauthorized}, // its agent restarts
		{"127.0.0.1:9091", "Bearer wrong", "127.0.0.1", false, http.StatusUnauthorized},
		{"127.0.0.1:9091", "Bearer " + token, "127.0.0.1", false, http.StatusOK},
		{"127.0.0.1:9091", "Bearer " + tenant, "127.0.0.1", false, http.StatusForbidden},
		{"127.0.0.1:9091", "", "127.0.0.1", true, http.StatusOK},
		{"192.0.2.1:9091", "", "", true, http.StatusUnauthorized},
		{"192.0.2.1:9091", "", "", false, http.StatusUnauthorized},
		{"192.0.2.1:9091", "Bearer wrong", "", false, http.StatusUnauthorized},
		{"[::]:9091", "", "", false, http.StatusUnauthorized},
		{"192.0.2.1:9091", "Bearer " + token, "", false, http.StatusOK},
	} {
		s := &Server{auth: who, Audit: log, Endpoints: Endpoints{Metrics: c.addr}, View: cache.NewView(time.Now), cfg: Config{Metrics: MetricsConfig{AllowLoopback: c.allow}}}
		if c.node != "" {
			at, offline := strings.CutPrefix(c.node, "offline ")
			events := []ares.Event{{Node: &ares.Node{ID: "n1", Address: at}}}
			if !offline {
				events = append(events, ares.Event{Session: &ares.Session{Node: "n1"}})
			}
			s.View.Apply(ares.Batch{Revision: 1, Events: events})
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Host = "localhost"
		r.Header.Set("Authorization", c.header)
		s.guardMetrics(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s with %q beside node %q: %d, want %d", c.addr, c.header, c.node, w.Code, c.want)
		}
		if c.want != http.StatusOK {
			refused++
		}
	}
	page, err := log.List(t.Context(), audit.Query{Action: "GET_METRICS", Status: audit.Refused})
	if err != nil || len(page.Entries) != refused {
		t.Errorf("%d refusals are in the audit, %v, want %d", len(page.Entries), err, refused)
	}
}

// TestAllocationIsNotCalledUtilization checks the metric of allocated devices. It has a name of its own, because
// allocated devices may be idle, and no value for a node that is gone.
func TestAllocationIsNotCalledUtilization(t *testing.T) {
	view := cache.NewView(func() time.Time { return noon })
	m := newClusterMetrics(view)
	gone := machine("gone", "r1", "H100")[:1] // without a session
	view.Apply(ares.Batch{Revision: 1, Reset: true, Events: slices.Concat(
		machine("here", "r1", "H100"), gone, holding(t, "two", "here", 1000, 0, 1), holding(t, "four", "gone", 1000, 0, 1, 2, 3),
	)})
	got := gathered(t, m)
	if got["ares_gpu_allocation_ratio here"] != "0.500" {
		t.Errorf("a node with 2 of 4 devices allocated: %v", got)
	}
	for name := range got {
		if name == "ares_gpu_allocation_ratio gone" || strings.HasPrefix(name, "gpu_scheduler_gpu_utilization") {
			t.Errorf("%s has a value: %v", name, got)
		}
	}
}
