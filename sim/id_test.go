package sim

import (
	"fmt"
	"testing"
)

func TestJobID(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 7, 42, 999_999, 9_999_999, 10_000_000, 123_456_789} {
		if got, want := string(jobID(n)), fmt.Sprintf("job-%07d", n); got != want {
			t.Errorf("job %d is %s, not %s", n, got, want)
		}
	}
}
