package engine_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	_ "github.com/ares-scheduler/ares/engine/cluster/score/baseline" // policies that scripts choose with placement=
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// TestScripts runs the scenarios in testdata, a folder a subject. Rewrite them
// with: go test ./engine -run Scripts -rewrite
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if !strings.HasPrefix(path, "testdata/rapid/") { // where rapid keeps a failure to try it again
			enginetest.RunScript(t, path)
		}
	})
}
