package output

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestTimesToCome checks that a time in the future is not shown as "0.0s ago".
func TestTimesToCome(t *testing.T) {
	t.Parallel()
	a := &Printer{Now: func() time.Time { return time.Unix(1_700_000_000, 0) }}
	for seconds, want := range map[int]string{-3700: "(1h01m ago)", 0: "(0.0s ago)", 1: "(0.0s ago)", 3700: "(in 1h01m)", 90 * 24 * 3600: "(in 90d00h)"} {
		if got := a.When(timestamppb.New(time.Unix(1_700_000_000+int64(seconds), 0))); !strings.HasSuffix(got, want) {
			t.Errorf("%d s from now is %s, want %s", seconds, got, want)
		}
	}
}
