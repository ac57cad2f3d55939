package load

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// BenchmarkRESTCost measures submissions over REST next to a server that only reads the request and answers at once. The client
// runs in the same process, so the second figure is the cost of the client and of HTTP. The difference is the cost of Ares.
func BenchmarkRESTCost(b *testing.B) {
	server.TuneMemory()
	real, empty := newREST(b), emptyREST(b)
	rows := [][]string{{"REST submissions", "empty handler", "Ares", "difference, µs CPU", "accepted"}}
	for _, l := range loads {
		var base, outside series
		var out atomic.Int64
		b.Run(l.name, func(b *testing.B) {
			for range rounds.Count * b.N {
				tag := fmt.Sprintf("cost-%s-%d", l.name, len(base))
				base = append(base, measure(l.clients, l.calls, l.size, func(i int) { empty.submit(b, tag, i, l.size) }))
				outside = append(outside, measure(l.clients, l.calls, l.size, func(i int) { out.Add(real.submit(b, tag, i, l.size)) }))
			}
		})
		if len(outside) == 0 {
			continue // not selected
		}
		if want := int64(len(outside) * l.calls * l.size); out.Load() != want {
			b.Errorf("%s: %d accepted, want %d", l.name, out.Load(), want)
		}
		rows = append(rows, []string{l.name, base.String(), outside.String(), fmt.Sprintf("%.1f", outside.cpu()-base.cpu()), fmt.Sprint(out.Load())})
	}
	table(b, fmt.Sprintf("Submissions over REST with audit, median of %d rounds (range)", rounds.Count), rows)
}

// The function `emptyREST` returns a client of a server that reads each request and answers it without any work.
func emptyREST(b *testing.B) *rest {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a request that breaks off fails at its client
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"job_id":"job_00000000000000000000000000","status":"submitted","message":"Job submitted successfully","state":"pending","warnings":[]}`)
	}))
	b.Cleanup(s.Close)
	return &rest{url: s.URL, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}}
}
