package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/store"
)

// BenchmarkRESTDoor is what the REST door itself costs: routing, token, decoding,
// validation and an answer, for a submission that is refused before the store.
func BenchmarkRESTDoor(b *testing.B) {
	st, err := store.Open(b.Context(), store.Config{Dir: b.TempDir()})
	must(b, err)
	defer st.Close()
	view := control.NewView(nil)
	view.Apply(ares.Batch{Revision: 1, Reset: true, Events: []ares.Event{{Tenant: &ares.Tenant{ID: "default", Revision: 1}}}})
	d, err := New(Config{
		Engine: &fakeEngine{}, Trust: newTrust(b, st),
		Desk: &control.Desk{Store: st, View: view}, View: view, Store: st,
		Auth: auth.New(auth.Config{Tokens: func(context.Context) ([]store.Token, error) {
			return []store.Token{{Name: "admin", Hash: auth.HashToken(adminToken), Role: auth.RoleAdmin}}, nil
		}}),
	})
	must(b, err)
	const body = `{"name":"AI Training Job","tenant_id":"default","gpu_count":4,"priority":1000,"command":["python","train.py"],"image":"pytorch:2.0","gpu_memory_mb":40000,"cpu_cores":16,"memory_mb":64000}`
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("POST", "http://localhost/api/v1/jobs", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+adminToken)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		d.HTTP().ServeHTTP(w, r)
		if w.Code != http.StatusForbidden {
			b.Fatal(w.Code, w.Body)
		}
	}
}
