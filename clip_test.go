package ares_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ares-scheduler/ares"
)

// TestClipKeepsCharactersWhole checks that a shortened text stays within the limit and is still valid UTF-8.
func TestClipKeepsCharactersWhole(t *testing.T) {
	t.Parallel()
	for limit := range 9 {
		if got := ares.Truncate("aäö€𝄞", limit); len(got) > limit || !utf8.ValidString(got) || !strings.HasPrefix("aäö€𝄞", got) {
			t.Errorf("Truncate to %d bytes: %q", limit, got)
		}
	}
	if short := strings.Repeat("x", 64); ares.Clip(short) != short {
		t.Error("a short text is cut")
	}
	if got := ares.Clip("x" + strings.Repeat("ä", 64)); got != "x"+strings.Repeat("ä", 31)+"…" {
		t.Errorf("a long text becomes %q", got)
	}
}
