package api

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestAReasonIsNeverCutThroughARune: half a rune would make the run's record
// unwritable, and the rank could never report its end.
func TestAReasonIsNeverCutThroughARune(t *testing.T) {
	for pad := range 4 {
		s := strings.Repeat("x", pad) + strings.Repeat("€", 300)
		if got := atMost(s, 512); !utf8.ValidString(got) || len(got) > 512 || len(got) < 509 {
			t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
		}
	}
	if got := atMost("short", 512); got != "short" {
		t.Errorf("%q", got)
	}
}
