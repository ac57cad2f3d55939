package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/cli/exit"
)

// TestShippedPolicies checks that the policies shipped with Ares pass their own test cases.
func TestShippedPolicies(t *testing.T) {
	files, err := filepath.Glob("../deploy/policies/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		var out, errs bytes.Buffer
		if code := Main(t.Context(), []string{"policy", "test", "-f", name}, strings.NewReader(""), &out, &errs); code != exit.OK || !strings.Contains(out.String(), "cases as expected") {
			t.Errorf("%s ended with %d: %s%s", name, code, &out, &errs)
		}
	}
}
