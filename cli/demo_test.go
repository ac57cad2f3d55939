package cli

import (
	"bytes"
	"strings"
	"testing"
)

// TestDemos runs every demo against a real server. A demo fails if Ares breaks the guarantee that
// the demo shows.
func TestDemos(t *testing.T) {
	for name, says := range map[string]string{
		"idempotency":  "1 submitted, 9 duplicate",
		"lease":        "node-b's claim of the same seat is refused",
		"gpu":          "First fit:  [1 2], score 80, 10000 MB/s on the slowest link",
		"retry":        "attempt 4, fence",
		"exactly-once": "the zombie's commit with fence",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			code := Main(t.Context(), []string{"demo", name}, nil, &out, &errs)
			if code != 0 || !strings.Contains(out.String(), says) || !strings.HasSuffix(out.String(), "\nIt holds.\n") {
				t.Errorf("exit %d\n%s%s", code, out.String(), errs.String())
			}
		})
	}
}
