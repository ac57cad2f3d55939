package spec

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The variable kinds has the form of the text of each kind of row; nil accepts every text.
var kinds = map[string]func(text string) error{
	"command":       nil,
	"environment":   fits(`(?m)^(export )?[A-Z][A-Z0-9_]*(=|_\*?|$)`, "a variable"),
	"body":          jsonIfObject,
	"answer":        jsonIfObject,
	"configuration": isYAML,
	"manifest":      isYAML,
	"sql":           fits(`(?i)^(select\s|\\[a-z])`, "a query, or a command of psql"),
	"metric":        fits(`^[a-z][a-z0-9_]*(\{[^}]*\})?$`, "the name of a metric"),
	"endpoint":      fits(`^((GET|POST|PUT|PATCH|DELETE) )?(https?://|/)`, "a method and a path, or an address"),
	"state":         fits("^[a-zA-Z_ ]+$", "the name of a state"),
	"error":         nil,
	"document":      nil,
}

// fits returns the form of texts that match an expression.
func fits(expression, what string) func(string) error {
	form := regexp.MustCompile(expression)
	return func(text string) error {
		if !form.MatchString(text) {
			return fmt.Errorf("the text is not %s", what)
		}
		return nil
	}
}

// jsonIfObject accepts every text but a broken JSON object. Other bodies and
// answers are lines that a program prints.
func jsonIfObject(text string) error {
	if strings.HasPrefix(text, "{") && !json.Valid([]byte(text)) {
		return fmt.Errorf("the text begins with { and is not JSON")
	}
	return nil
}

func isYAML(text string) error {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return fmt.Errorf("the text is not YAML: %w", err)
	}
	return nil
}

// Faults returns every mistake in the rows of a document. The directory root has the repository.
func (d *Document) Faults(root string) []string {
	var found []string
	if len(d.Rows) == 0 {
		found = append(found, d.Number+": there are no rows")
	}
	for i := range d.Rows {
		r := &d.Rows[i]
		for _, fault := range r.faults(root, i == 0) {
			found = append(found, d.Number+": "+r.Name()+": "+fault)
		}
	}
	return found
}

// faults returns the mistakes of one row.
func (r *Row) faults(root string, first bool) []string {
	var found []string
	say := func(wrong bool, format string, args ...any) {
		if wrong {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	text := strings.TrimSpace(r.Text)
	say(strings.TrimSpace(r.Section) == "", "the section is missing")
	say(text == "", "the text is missing")
	form, known := kinds[r.Kind]
	say(!known, "%q is no kind", r.Kind)
	if form != nil {
		if err := form(text); err != nil {
			found = append(found, err.Error())
		}
	}
	say(!slices.Contains(Results, r.Result), "%q is no result", r.Result)
	checked := len(r.Want) > 0 || r.Test != ""
	claims := r.Result == AsWritten || r.Result == Differs
	say(claims && !checked, "nothing checks it: give want or test")
	reason := strings.TrimSpace(r.Why) != ""
	say(r.Result != AsWritten && !reason, "%s, and why is missing", r.Result)
	say(r.Result == NotYet && len(r.Features) == 0, "not yet, and no feature of docs/reference/features.md says so: give features")
	say(r.Run != "" && !reason && r.runsOtherText(), "run differs from the text, and why is missing")
	_, runs := r.Script()
	say(len(r.Want) > 0 && !runs && first, "there is no row before whose output it could match: give run")
	say(!runs && (r.Before != "" || r.Exit != 0), "before and exit belong to a row that runs something")
	for old := range r.Replace {
		say(!strings.Contains(r.Text, old), "replace: %q is not in the text", old)
	}
	for _, want := range r.Want {
		_, err := regexp.Compile("(?m)" + want)
		say(err != nil, "want: %v", err)
	}
	if r.Test != "" {
		if err := testExists(root, r.Test); err != nil {
			found = append(found, err.Error())
		}
	}
	return found
}

// runsOtherText reports whether a row runs a command that its text should be, but
// is not. For an answer or a metric, run is only the command that shows it.
func (r *Row) runsOtherText() bool { return r.Kind == "command" || r.Kind == "sql" }

// testExists looks for the declaration of a Go test: TestName in this package, or path/to/package:TestName.
func testExists(root, name string) error {
	dir, test, elsewhere := strings.Cut(name, ":")
	if !elsewhere {
		dir, test = "test/spec", name
	}
	test, _, _ = strings.Cut(test, "/") // a subtest is not declared
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("test: %s has no tests", dir)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == test {
				return nil
			}
		}
	}
	return fmt.Errorf("test: %s has no %s", dir, test)
}

// FeatureFaults compares the rows with the states of the features in
// docs/reference/features.md. A feature that works has no missing rows, and a
// feature that cannot be used has no working ones.
func FeatureFaults(documents []Document, states map[string]string) []string {
	var found []string
	for _, d := range documents {
		for i := range d.Rows {
			r := &d.Rows[i]
			for _, number := range r.Features {
				state, known := states[number]
				where := fmt.Sprintf("%s: %s: feature %s", d.Number, r.Name(), number)
				switch {
				case !known:
					found = append(found, where+" does not exist")
				case state == "works" && r.Result == NotYet:
					found = append(found, where+" works, and the row does not yet")
				case state == "not yet" && r.Result == AsWritten:
					found = append(found, where+" does not work yet, and the row does")
				}
			}
		}
	}
	return found
}
