package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// BenchmarkRESTDoor measures the cost of the REST layer alone: routing, token check, decoding, validation
// and the answer. The benchmark sends a submission that is rejected before it reaches the store.
func BenchmarkRESTDoor(b *testing.B) {
	st, err := store.Open(b.Context(), store.Config{Dir: b.TempDir()})
	must(b, err)
	defer st.Close()
	view := cache.NewView(nil)
	view.Apply(ares.Batch{Revision: 1, Reset: true, Events: []ares.Event{{Tenant: &ares.Tenant{ID: "default", Revision: 1}}}})
	d, err := New(Config{
		Engine: &fakeEngine{}, Trust: newTrust(b, st),
		Admission: &admission.Admission{Store: st, View: view}, View: view, Store: st,
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

// BenchmarkSubmitAudited measures submissions over REST to two servers with real stores. The
// benchmark alternates between a server with an audit log and a server without one. Each of eight
// users has several callers, and each caller sends the next job as soon as it gets an answer. The
// limits on concurrent calls have their default values. The benchmark prints medians and ratios.
func BenchmarkSubmitAudited(b *testing.B) {
	var syncs, entries atomic.Int64
	without := newPoured(b, nil)
	with := newPoured(b, func(n int, _ time.Duration, _ error) {
		syncs.Add(1)
		entries.Add(int64(n))
	})
	rows := [][]string{{"callers", "without/s", "with/s", "ratio", "CPU µs, without", "with", "p50 ms, without", "with", "p99 ms, without", "with", "entries a sync"}}
	for _, callers := range []int{1, 16, 64, 256} {
		syncs.Store(0)
		entries.Store(0)
		var off, on side
		count := rounds.Sized(min(1000*callers, 5000), callers)
		for range rounds.Count {
			off.add(without.pour(b, callers, count))
			on.add(with.pour(b, callers, count))
		}
		rows = append(rows, []string{
			strconv.Itoa(callers), off.rate.String(), on.rate.String(), on.rate.Over(off.rate).Text(1, 2),
			off.cpu.Text(1000, 0), on.cpu.Text(1000, 0),
			off.p50.Text(1e6, 1), on.p50.Text(1e6, 1), off.p99.Text(1e6, 1), on.p99.Text(1e6, 1),
			strconv.FormatFloat(float64(entries.Load())/float64(syncs.Load()), 'f', 1, 64),
		})
	}
	must(b, rounds.Table(os.Stdout, fmt.Sprintf("Submissions over REST with and without the audit, median of %d rounds (range)", rounds.Count), rows))
}

// The type `side` holds the measurements of one server, which runs either with or without the audit log.
type side struct{ rate, cpu, p50, p99 rounds.Figures }

func (s *side) add(n int, wall, cpu time.Duration, each []time.Duration) {
	slices.Sort(each)
	s.rate.Rate(n, wall)
	s.cpu.Each(n, cpu)
	s.p50 = append(s.p50, float64(each[len(each)/2]))
	s.p99 = append(s.p99, float64(each[len(each)*99/100]))
}

// The type `poured` is a test server to which several users submit many jobs.
type poured struct {
	*house

	tokens []string
}

// newPoured starts a test server. If the argument `observe` is not nil, the server has an audit log.
func newPoured(b *testing.B, observe func(int, time.Duration, error)) poured {
	h := poured{house: newHouse(b, func(c *Config) {
		c.Limits = pipeline.DefaultLimits()
		c.Limits.Wait = time.Minute // no caller is rejected
		if observe != nil {
			c.Audit = openLog(b, observe)
		}
	})}
	for i := range 8 {
		token := fmt.Sprintf("%s-%d", adminToken, i)
		h.tokens = append(h.tokens, token)
		must(b, h.store.PutToken(b.Context(), store.Token{Name: "user-" + strconv.Itoa(i), Hash: auth.HashToken(token), Role: auth.RoleAdmin}))
	}
	return h
}

// The method `pour` submits n jobs from several callers, and returns the total time and the time of each
// submission.
func (h poured) pour(b *testing.B, callers, n int) (jobs int, wall, cpu time.Duration, each []time.Duration) {
	runtime.GC() // free the garbage of the other side's measurement
	each = make([]time.Duration, n)
	cpu, start := rounds.CPU(), time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				began := time.Now()
				r := httptest.NewRequest("POST", "http://localhost/api/v1/jobs", strings.NewReader(`{"name":"train","command":["true"],"gpu_count":1}`))
				r.Header.Set("Authorization", "Bearer "+h.tokens[c%len(h.tokens)])
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				if h.HTTP().ServeHTTP(w, r); w.Code != http.StatusCreated {
					b.Error(w.Code, w.Body)
				}
				each[i-1] = time.Since(began)
			}
		})
	}
	wg.Wait()
	return n, time.Since(start), rounds.CPU() - cpu, each
}

// openLog opens an audit log; it is closed when the test ends.
func openLog(tb testing.TB, observe func(int, time.Duration, error)) *audit.Log {
	tb.Helper()
	log, err := audit.Open(audit.Config{Dir: tb.TempDir(), Server: "s", Observe: observe})
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
