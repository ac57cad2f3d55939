package check_test

import (
	"fmt"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
)

// BenchmarkRun checks a record that is as large as the record of a long run.
// It has 1,000 jobs, 20,000 calls, and lists of all jobs.
func BenchmarkRun(b *testing.B) {
	m := make1(b)
	for n := range rounds.Sized(1000, 50) {
		id := fmt.Sprintf("job-%d", n)
		m.submit(id, 1+n%2)
		m.get(id)
		m.place(id, []string{"n1/0", "n2/0"}[:1+n%2]...)
		for range 4 {
			m.get(id)
		}
		m.start(id)
		for range 8 {
			m.get(id)
		}
		m.end(id, ares.OutcomeSucceeded)
		for range 4 {
			m.get(id)
		}
		m.list()
		m.list()
	}
	r := m.finish()
	for b.Loop() {
		if got := check.Run(r); len(got.Violations) != 0 {
			b.Fatal(got.Violations)
		}
	}
	b.ReportMetric(float64(len(r.Store)), "revisions")
	b.ReportMetric(float64(len(r.Calls)), "calls")
}
