package spec

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// named matches the files and directories of the repository that a reason can name.
var named = regexp.MustCompile(`\b(docs|deploy|engine|agent|control|store|test)/[A-Za-z0-9_./-]*[A-Za-z0-9_]|\bLICENSE\b`)

// TestNamedDocuments checks that every page, package and scenario that the reasons of the rows name exists.
func TestNamedDocuments(t *testing.T) {
	t.Parallel()
	for _, d := range load(t) {
		for i := range d.Rows {
			r := &d.Rows[i]
			for _, path := range named.FindAllString(r.Why, -1) {
				if _, err := os.Stat(filepath.Join("../..", filepath.FromSlash(path))); err != nil {
					t.Errorf("%s: %s: there is no %s", d.Number, r.Name(), path)
				}
			}
		}
	}
}

// TestBackoffSchedule checks the schedules of the documents 000, 001 and 004. With the defaults of Ares, every delay in
// them must be one that some job gets, and every job's delays must be within 25 % of 1, 2, 4 and 8 seconds.
func TestBackoffSchedule(t *testing.T) {
	t.Parallel()
	policy := ares.RetryPolicy{InitialBackoffSeconds: 1, Multiplier: 2, MaxBackoffSeconds: 300}
	written := [][]float64{{1.2}, {1.8}, {4.5, 4.3}, {7.6}} // by attempt; the documents differ in the third
	for n, delays := range written {
		base := math.Pow(2, float64(n))
		low, high := math.Inf(1), 0.0
		for job := range 1000 {
			got := ares.Backoff(ares.JobID(fmt.Sprint("job-", job)), policy, n, time.Time{}, time.Time{}).Seconds()
			low, high = min(low, got), max(high, got)
		}
		if low < 0.75*base || high > 1.25*base {
			t.Errorf("attempt %d: delays between %.2f and %.2f s, want %g s ± 25 %%", n+1, low, high, base)
		}
		for _, delay := range delays {
			if delay < low || delay > high {
				t.Errorf("attempt %d: no job waits %g s, all wait between %.2f and %.2f s", n+1, delay, low, high)
			}
		}
	}
}
