package federation

import (
	"strconv"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/test/cluster"
)

// A bucket of a histogram counts the values up to a bound.
type bucket struct {
	until float64 // seconds
	count int64
}

// decisionBuckets reads the histogram of a server's decisions. The last bucket counts all of them.
func decisionBuckets(b *testing.B, s *cluster.Server) (out []bucket) {
	b.Helper()
	for line := range strings.Lines(s.Metrics()) {
		rest, ok := strings.CutPrefix(line, `ares_scheduling_latency_seconds_bucket{le="`)
		if !ok {
			continue
		}
		until, rest, _ := strings.Cut(rest, `"`)
		_, count, _ := strings.Cut(strings.TrimSpace(rest), " ")
		bound, err := strconv.ParseFloat(until, 64) // the last one is +Inf
		if err != nil {
			b.Fatal(err)
		}
		n, err := strconv.ParseFloat(count, 64)
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, bucket{bound, int64(n)})
	}
	return out
}
