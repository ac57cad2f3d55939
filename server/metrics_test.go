package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/store"
)

// TestMetricsNeedATokenBeyondLoopback checks that anyone may read the metrics on loopback. On other addresses, only a caller
// with permission may read the metrics.
func TestMetricsNeedATokenBeyondLoopback(t *testing.T) {
	token, hash := auth.NewToken()
	who := auth.New(auth.Config{Tokens: func(context.Context) ([]store.Token, error) {
		return []store.Token{{Name: "admin@here", Hash: hash, Role: auth.RoleAdmin}}, nil
	}})
	log, refused := auditLog(t), 0
	for _, c := range []struct {
		addr, header string
		want         int
	}{
		{"127.0.0.1:9091", "", http.StatusOK},
		{"[::1]:9091", "", http.StatusOK},
		{"192.0.2.1:9091", "", http.StatusUnauthorized},
		{"192.0.2.1:9091", "Bearer wrong", http.StatusUnauthorized},
		{"[::]:9091", "", http.StatusUnauthorized},
		{"192.0.2.1:9091", "Bearer " + token, http.StatusOK},
	} {
		s := &Server{auth: who, Audit: log, Endpoints: Endpoints{Metrics: c.addr}}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Header.Set("Authorization", c.header)
		s.guardMetrics(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s with %q: %d, want %d", c.addr, c.header, w.Code, c.want)
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
