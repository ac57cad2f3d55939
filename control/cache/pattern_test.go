package cache

import (
	"strings"
	"testing"
)

func TestMatchPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"sweep-*", "sweep-1", true}, {"sweep-*", "sweep-", true}, {"sweep-*", "a-sweep-1", false},
		{"*", "", true}, {"?", "", false}, {"?", "é", true}, {"??", "é", false}, {"*é?", "xéy", true},
		{"a*b*c", "aXbXbc", true}, {"a*b*c", "aXbXb", false}, {"", "x", false}, {"[a]", "[a]", true}, {"a?c", "abc", true},
		{"*-run", "night-run", true}, {"*-run", "night-runs", false}, {"**", "any", true},
	} {
		if got := matchPattern(c.pattern, c.name); got != c.want {
			t.Errorf("pattern %q, name %q: %v", c.pattern, c.name, got)
		}
	}
	// A pattern that would take exponential time with backtracking.
	if matchPattern(strings.Repeat("a*", 100)+"b", strings.Repeat("a", 256)) {
		t.Error("it matched")
	}
}
