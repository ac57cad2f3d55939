package features

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// This function compares the claims with the repository in the directory `root`. It returns every
// mistake in the claims.
func faults(root string, all []claim) []string {
	var found []string
	for _, c := range all {
		for _, path := range c.paths {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(path))); err != nil {
				found = append(found, c.feature+": there is no "+path)
			}
		}
		switch c.state {
		case "works", "in part":
			if len(c.paths) == 0 {
				found = append(found, c.feature+": "+c.state+", and no test is named")
			}
		case "not yet", "": // tables without states name what they like
		default:
			found = append(found, c.feature+": "+c.state+" is no state")
		}
	}
	return found
}

func TestFeatures(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/features.md")
	if err != nil {
		t.Fatal(err)
	}
	all := claims(string(text))
	numbered := map[string]bool{}
	for _, c := range all {
		if c.state != "" {
			numbered[c.feature] = true
		}
	}
	if len(numbered) != 30 { // 1 to 26, and the four of Polaris
		t.Errorf("%d features have a state, want 30", len(numbered))
	}
	for _, said := range faults("../..", all) {
		t.Error(said)
	}
}

// TestWrongClaims checks that the function `faults` finds the mistakes in a feature table.
func TestWrongClaims(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"| 1 | works | `doc.go` |":          "",
		"| 1 | not yet | |":                 "",
		"| 1 | works | `nowhere_test.go` |": "1: there is no nowhere_test.go",
		"| 1 | works | |":                   "1: works, and no test is named",
		"| 1 | done | `doc.go` |":           "1: done is no state",
		"| 1 | works":                       "1: there is no a row with too few columns",
	} {
		head := "| # | state | tested in |\n|---|---|---|\n"
		if got := strings.Join(faults(".", claims(head+text)), "; "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
