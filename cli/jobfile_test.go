package cli

import (
	"testing"

	"github.com/ares-scheduler/ares"
)

// TestKeysThatBecomeOne: a file means the same job each time it is read.
func TestKeysThatBecomeOne(t *testing.T) {
	for _, file := range []string{"environment: {1: a, 1.0: b}\n", "jobs: [{labels: {x: y, 1e1: a, 10: b}}]\n", "{null: a, <nil>: b}\n"} {
		if specs, err := parseJobs([]byte(file)); ares.CodeOf(err) != ares.Invalid {
			t.Errorf("%s is read as %v, %v", file, specs, err)
		}
	}
}
