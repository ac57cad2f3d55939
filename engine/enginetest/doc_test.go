package enginetest

import (
	"os"
	"regexp"
	"testing"
)

// TestDocListsTheLanguage checks that the package comment lists every command, key and flag that the code reads.
func TestDocListsTheLanguage(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for name := range commands {
		if !regexp.MustCompile(`(?m)^//(\t| |\t.*, )` + name + `\b`).Match(doc) {
			t.Errorf("doc.go does not list the command %s", name)
		}
	}
	read := regexp.MustCompile(`(?:in\.(?:text|number|list|pairs|requirements|hasFlag)\(|in\.positional, |\t\{)"([a-z0-9-]+)"`)
	for _, file := range []string{"agents", "jobs", "nodes", "reservations", "simulate", "tenants"} {
		src, err := os.ReadFile("script_" + file + ".go")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range read.FindAllSubmatch(src, -1) {
			if !regexp.MustCompile(`(?m)[\t ]` + string(m[1]) + `(=| |$)`).Match(doc) {
				t.Errorf("script_%s.go reads %s, which doc.go does not list", file, m[1])
			}
		}
	}
}
