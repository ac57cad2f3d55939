package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// These are the results that a row can have.
const (
	AsWritten = "as written" // Ares does what the document says
	Differs   = "differs"    // Ares does it in another way, for a reason
	NotYet    = "not yet"    // Ares does not have it: Kubernetes, several clusters, Polaris
	Outside   = "outside"    // not a statement about a program, for example a clone of another repository
)

// Results lists the results in the order of the page.
var Results = []string{AsWritten, Differs, NotYet, Outside}

// Row is one literal text of a source document, with what it does in Ares.
type Row struct {
	Section string // heading in the source document
	Kind    string // a key of kinds
	Text    string // the literal text

	// Before is run first; its output is not compared. It is for what the reader does in between, such as waiting.
	Before string
	// Replace maps placeholders of the text to what the document tells the reader to put there.
	Replace map[string]string
	Run     string   // what is run instead of the text, where the text itself cannot be run; then Why is required
	Want    []string // regular expressions that the output must match, with ^ and $ at lines
	Exit    int      // the exit status that is expected

	Test     string // a Go test that checks the row: TestName of this package, or path/to/package:TestName
	Result   string
	Why      string   // required unless the row is run as written
	Features []string // numbers of the features in docs/reference/features.md that the row belongs to; required for NotYet

	line int // in the file, for messages
}

// Document is one source document.
type Document struct {
	Number, Title string
	Rows          []Row
}

// titles has the first heading of every source document.
var titles = []struct{ number, title string }{
	{"000", "Ares: Production-Grade Distributed GPU Scheduler"},
	{"001", "Ares - Distributed GPU Scheduler"},
	{"002", "Topology-Aware GPU Scheduler for Kubernetes"},
	{"003", "GPU Scheduler - Multi-Tenant GPU Resource Manager"},
	{"004", "Ares + Polaris: Complete Feature Matrix"},
}

// Load reads the rows of all documents from a directory.
func Load(dir string) ([]Document, error) {
	var all []Document
	for _, t := range titles {
		name := filepath.Join(dir, t.number+".yaml")
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		rows, err := parse(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, Document{Number: t.number, Title: t.title, Rows: rows})
	}
	return all, nil
}

// parse reads the rows of one file. An unknown field is an error: a misspelt "want" would check nothing.
func parse(data []byte) ([]Row, error) {
	var rows []Row
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&rows); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var lines yaml.Node
	if err := yaml.Unmarshal(data, &lines); err != nil || len(lines.Content) == 0 {
		return rows, err
	}
	for i := range rows {
		rows[i].line = lines.Content[0].Content[i].Line
	}
	return rows, nil
}

// Name identifies a row in messages: its number in the file, and the beginning of its text.
func (r *Row) Name() string { return fmt.Sprintf("line %d: %s", r.line, r.Head(50)) }

// Head returns the beginning of the text in one line, without comments, at most n characters.
func (r *Row) Head(n int) string {
	var words []string
	for line := range strings.Lines(r.Text) {
		line = strings.TrimSuffix(strings.TrimSpace(line), `\`)
		if !strings.HasPrefix(line, "#") || strings.Count(strings.TrimSpace(r.Text), "\n") == 0 {
			words = append(words, strings.Fields(line)...)
		}
	}
	head := []rune(strings.Join(words, " "))
	if len(head) > n {
		return strings.TrimSpace(string(head[:n-1])) + "…"
	}
	return string(head)
}

// Script returns what the session runs for the row, and false if the row runs
// nothing of its own: it is then checked by a test, or against the output of the
// row before.
func (r *Row) Script() (string, bool) {
	switch {
	case len(r.Want) == 0 && r.Test != "" || r.Result == NotYet && len(r.Want) == 0 || r.Result == Outside && len(r.Want) == 0:
		return "", false
	case r.Run != "":
		return r.Run, true
	case r.Kind == "command", r.Kind == "environment":
		return r.literal(), true
	case r.Kind == "sql":
		return "query <<'END_OF_SQL'\n" + strings.TrimSpace(r.literal()) + "\nEND_OF_SQL\n", true
	}
	return "", false
}

// literal returns the text with its placeholders replaced.
func (r *Row) literal() string {
	text := r.Text
	for old, value := range r.Replace {
		text = strings.ReplaceAll(text, old, value)
	}
	return text
}
