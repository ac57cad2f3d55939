package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/audit"
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

// BenchmarkSubmitAudited is a submission through the REST door into a real store,
// with the audit on and off: one caller after the other, and many at once.
func BenchmarkSubmitAudited(b *testing.B) {
	for _, callers := range []int{1, 64, 512} {
		for _, on := range []bool{false, true} {
			b.Run(fmt.Sprintf("audit=%v/callers=%d", on, callers), func(b *testing.B) {
				h := newHouse(b, func(c *Config) {
					c.Limits = Limits{Reads: 2000, Writes: 2000, Wait: time.Second, EventStreams: 1, LogStreams: 1}
					if on {
						c.Audit = openLog(b)
					}
				})
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ResetTimer()
				var wg sync.WaitGroup
				for range callers {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							r := httptest.NewRequest("POST", "http://localhost/api/v1/jobs", strings.NewReader(`{"name":"train","command":["true"],"gpu_count":1}`))
							r.Header.Set("Authorization", "Bearer "+adminToken)
							r.Header.Set("Content-Type", "application/json")
							w := httptest.NewRecorder()
							if h.HTTP().ServeHTTP(w, r); w.Code != http.StatusCreated {
								b.Error(w.Code, w.Body)
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			})
		}
	}
}

// openLog is an audit log that is written until the test ends.
func openLog(tb testing.TB) *audit.Log {
	tb.Helper()
	log, err := audit.Open(audit.Config{Dir: tb.TempDir(), Server: "s"})
	must(tb, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	tb.Cleanup(func() {
		stop()
		must(tb, <-done)
	})
	return log
}
