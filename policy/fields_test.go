package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/policy"
)

// fieldRows returns the table of fields as it appears in docs/guide/policy.md.
func fieldRows() string {
	var s strings.Builder
	for _, f := range policy.Fields() {
		var on []string
		for _, p := range f.On {
			on = append(on, string(p))
		}
		s.WriteString("| `" + f.Name + "` | " + f.Type + " | " + strings.Join(on, ", ") + " | " + f.Text + " |\n")
	}
	return s.String()
}

// TestFieldsAreDocumented checks that the table in the documentation matches the fields of expressions. Every field
// must have a description.
func TestFieldsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/guide/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), "|---|---|---|---|\n"+fieldRows()+"\n") {
		t.Errorf("docs/guide/policy.md has another table than:\n%s", fieldRows())
	}
	for _, f := range policy.Fields() {
		if f.Text == "" || f.Name == "" || strings.HasSuffix(f.Name, ".") {
			t.Errorf("%+v says nothing of itself", f)
		}
	}
}
