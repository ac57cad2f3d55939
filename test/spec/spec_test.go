package spec

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/features"
)

var (
	write  = flag.Bool("write", false, "write docs/reference/spec.md")
	source = flag.String("source", "", "directory with the source documents, to compare the rows with them")
)

func load(t *testing.T) []Document {
	t.Helper()
	documents, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return documents
}

// TestRows checks the form of every row. A row that nothing checks fails.
func TestRows(t *testing.T) {
	t.Parallel()
	for _, d := range load(t) {
		for _, fault := range d.Faults("../..") {
			t.Error(fault)
		}
	}
}

// TestDocuments runs the rows of each document in one shell.
func TestDocuments(t *testing.T) {
	t.Parallel()
	for _, d := range load(t) {
		t.Run(d.Number, func(t *testing.T) {
			t.Parallel()
			runDocument(t, &d)
		})
	}
}

// runDocument runs rows in their order. A failed row does not end the session: the rows after it show what else fails.
func runDocument(t *testing.T, d *Document) {
	var s *session // only if the document has something to run
	out, wait := "", time.Duration(0)
	for i := range d.Rows {
		r := &d.Rows[i]
		script, runs := r.Script()
		if !runs && (len(r.Want) == 0 || r.Test != "") {
			continue
		}
		if runs {
			if s == nil {
				s = newSession(t, d.Number)
			}
			began := time.Now()
			if r.Before != "" {
				if before, status, err := s.run(r.Before); err != nil || status != 0 {
					t.Errorf("%s: before: exit status %d, %v\n%s", r.Name(), status, err, clip(read(before)))
				}
			}
			var status int
			var err error
			out, status, err = s.run("token_for_curl\n" + script)
			if err != nil {
				t.Fatalf("%s: %v\n%s", r.Name(), err, clip(read(out)))
			}
			if status != r.Exit {
				t.Errorf("%s: exit status %d, want %d", r.Name(), status, r.Exit)
			}
			wait = 0
			if background.MatchString(script) {
				wait = outTime
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Logf("%s: %s", r.Name(), took.Round(time.Second))
			}
		}
		if missing := match(out, r.Want, wait); missing != "" {
			t.Errorf("%s: no %s in\n%s", r.Name(), missing, clip(read(out)))
		}
	}
}

// clip shortens an output for a message.
func clip(text string) string {
	if len(text) > 3000 {
		return text[:1500] + "\n…\n" + text[len(text)-1500:]
	}
	return text
}

// TestPage compares docs/reference/spec.md with the rows, and writes it with -write.
func TestPage(t *testing.T) {
	t.Parallel()
	file, want := "../../docs/reference/spec.md", Page(load(t))
	if *write {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("docs/reference/spec.md differs from the rows (%v): run `go test ./test/spec -run TestPage -write`", err)
	}
}

// TestFeatures compares the rows with docs/reference/features.md.
func TestFeatures(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/features.md")
	if err != nil {
		t.Fatal(err)
	}
	states := features.States(string(text))
	if len(states) != 30 {
		t.Errorf("%d features have a state, want 30", len(states))
	}
	for _, fault := range FeatureFaults(load(t), states) {
		t.Error(fault)
	}
}

// TestSource compares the rows with the documents themselves, which are not part of the repository.
func TestSource(t *testing.T) {
	t.Parallel()
	if *source == "" {
		return // nothing to compare with
	}
	for _, d := range load(t) {
		files, err := filepath.Glob(filepath.Join(*source, d.Number+"*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: want one file %s* in %s, got %v", d.Number, d.Number, *source, files)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range d.SourceFaults(string(text)) {
			t.Error(fault)
		}
	}
}

// TestFaults checks that every kind of mistake in a row is found.
func TestFaults(t *testing.T) {
	t.Parallel()
	for row, want := range map[string]string{
		"kind: command, text: ls, want: [a], result: as written":                        "",
		"kind: command, text: ls, result: as written":                                   "nothing checks it",
		"kind: command, text: ls, result: differs, why: because":                        "nothing checks it",
		"kind: command, text: ls, result: not yet":                                      "not yet, and why is missing",
		"kind: command, text: ls, result: not yet, why: Kubernetes":                     "no feature of docs/reference/features.md says so",
		"kind: command, text: ls, result: not yet, why: Kubernetes, features: [1]":      "",
		"kind: command, text: ls, result: outside":                                      "outside, and why is missing",
		"kind: command, text: ls, want: ['('], result: as written":                      "want: error parsing regexp",
		"kind: command, text: ls, run: pwd, want: [a], result: as written":              "run differs from the text",
		"kind: command, text: ls, replace: {x: y}, want: [a], result: as written":       "is not in the text",
		"kind: command, text: '', want: [a], result: as written":                        "the text is missing",
		"kind: order, text: ls, want: [a], result: as written":                          `"order" is no kind`,
		"kind: command, text: ls, want: [a], result: fine":                              `"fine" is no result`,
		"kind: answer, text: '{', run: ls, want: [a], result: as written":               "is not JSON",
		"kind: metric, text: 'a b', run: ls, want: [a], result: as written":             "not the name of a metric",
		"kind: sql, text: DROP TABLE jobs, want: [a], result: as written":               "not a query",
		"kind: configuration, text: 'a: [', run: ls, want: [a], result: as written":     "is not YAML",
		"kind: answer, text: a, want: [a], result: as written":                          "there is no row before",
		"kind: command, text: ls, test: TestRows, result: as written":                   "",
		"kind: command, text: ls, test: TestNowhere, result: as written":                "test/spec has no TestNowhere",
		"kind: command, text: ls, test: 'test/live:TestNowhere', result: as written":    "test/live has no tests",
		"kind: command, text: ls, test: 'test/cluster:TestNowhere', result: as written": "test/cluster has no TestNowhere",
	} {
		rows, err := parse([]byte("- {section: One, " + row + "}"))
		if err != nil {
			t.Fatalf("%s: %v", row, err)
		}
		d := Document{Number: "000", Rows: rows}
		got := strings.Join(d.Faults("../.."), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", row, got, want)
		}
	}
	if _, err := parse([]byte("- {section: One, wants: [a]}")); err == nil {
		t.Error("a field that does not exist is accepted")
	}
}

// TestFeatureFaults checks that contradictions between rows and features are found.
func TestFeatureFaults(t *testing.T) {
	t.Parallel()
	states := map[string]string{"1": "works", "2": "not yet", "3": "in part"}
	for result, want := range map[string]string{NotYet: "feature 1 works", AsWritten: "feature 2 does not work yet", Outside: ""} {
		d := []Document{{Number: "000", Rows: []Row{{Text: "ls", Result: result, Features: []string{"1", "2", "3"}}}}}
		got := FeatureFaults(d, states)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("%s: %q, want %q", result, got, want)
		}
	}
	d := []Document{{Number: "000", Rows: []Row{{Text: "ls", Result: AsWritten, Features: []string{"31"}}}}}
	if got := fmt.Sprint(FeatureFaults(d, states)); !strings.Contains(got, "feature 31 does not exist") {
		t.Error(got)
	}
}

// TestMatch checks that an output without the wanted text is noticed, and that a program in the background is waited for.
func TestMatch(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(out, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if missing := match(out, []string{"^two$", "^three$"}, 0); missing != "^three$" {
		t.Errorf("missing is %q, want ^three$", missing)
	}
	go func() { _ = os.WriteFile(out, []byte("one\ntwo\nthree\n"), 0o600) }()
	if missing := match(out, []string{"^two$", "^three$"}, outTime); missing != "" {
		t.Errorf("missing is %q after it was printed", missing)
	}
}
