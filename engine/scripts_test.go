package engine_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	_ "github.com/ares-scheduler/ares/engine/cluster/score/baseline" // scripts use the names of its placement policies
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// TestScripts runs the scenarios in testdata, which has one folder per subject. To rewrite their expected output, run:
// go test ./engine -run Scripts -rewrite
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if !strings.HasPrefix(path, "testdata/rapid/") { // rapid stores failures there to try them again
			enginetest.RunScript(t, path)
		}
	})
}
