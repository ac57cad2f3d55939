package archtest

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected complaints in testdata")

// TestTree checks the tree that this test is in. With -v it prints the shapes
// of the packages whose shape is limited.
func TestTree(t *testing.T) {
	t.Parallel()
	tree := load(t, os.DirFS(".."))
	if len(tree.Packages) < 2 {
		t.Fatalf("found %d packages; is this test still one directory below the root?", len(tree.Packages))
	}
	for _, said := range Check(tree) {
		t.Error(said)
	}
	for _, said := range staleShapes(tree, shapeExceptions) {
		t.Error(said)
	}
	shapes, _ := tree.Shapes()
	t.Logf("shapes:\n%s", Table(shapes))
}

// TestRules shows small bad trees to the rules. The comment of each archive is
// what they must say about it, no more and no less.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, name := range cases(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			want, source := archive(t, name)
			got := strings.Join(Check(tree(t, source)), "\n") + "\n"
			if *rewrite {
				if err := os.WriteFile(name, []byte(got+source), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// TestEveryRuleCanFail guards against a rule that nothing could break.
func TestEveryRuleCanFail(t *testing.T) {
	t.Parallel()
	broken := map[string]bool{}
	for _, name := range cases(t) {
		_, source := archive(t, name)
		bad := tree(t, source)
		for _, rule := range rules {
			if len(rule.check(bad)) > 0 {
				broken[rule.name] = true
			}
		}
	}
	for _, rule := range rules {
		if !broken[rule.name] {
			t.Errorf("no tree in testdata breaks the rule of %s", rule.name)
		}
	}
}

func TestExceptions(t *testing.T) {
	t.Parallel()
	body := "// Package api is the door, for people and programs.\npackage api\n\nfunc Long() {\n" +
		strings.Repeat("\t_ = 0\n", maxFunc) + "}\n"
	tree := load(t, fstest.MapFS{"api/a.go": {Data: []byte(body)}})

	if said := checkSizesBut(tree, nil); len(said) != 1 {
		t.Errorf("a function of %d lines: got complaints %q, want one", maxFunc+2, said)
	}
	if said := checkSizesBut(tree, map[string]string{"api/a.go:Long": "a table"}); len(said) != 0 {
		t.Errorf("an excepted function: got complaints %q, want none", said)
	}
	stale := map[string]string{"api/a.go:Long": "a table", "api/b.go": "gone"}
	if said := checkSizesBut(tree, stale); !slices.Equal(said, []string{
		"api/b.go: no longer exceeds a limit: take it out of archtest/laws.go",
	}) {
		t.Errorf("a stale exception: got complaints %q", said)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	head := "// Package api is the door, for people and programs.\npackage api\n"
	file := func(lines int) *Tree {
		src := head + strings.Repeat("\n", lines-2)
		return load(t, fstest.MapFS{"api/a.go": {Data: []byte(src)}})
	}
	if said := checkSizes(file(maxFile)); len(said) != 0 {
		t.Errorf("a file of %d lines: got complaints %q, want none", maxFile, said)
	}
	if said := checkSizes(file(maxFile + 1)); len(said) != 1 {
		t.Errorf("a file of %d lines: got complaints %q, want one", maxFile+1, said)
	}
}

func cases(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no cases in testdata: %v", err)
	}
	return names
}

// archive splits a file into what must be said and the bad tree, which is
// written as one text: a line "-- name --" begins each file.
func archive(t *testing.T, name string) (want, source string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	i := strings.Index("\n"+string(data), "\n-- ")
	if i < 0 {
		t.Fatalf("%s holds no files", name)
	}
	return string(data[:i]), string(data[i:])
}

func tree(t *testing.T, source string) *Tree {
	t.Helper()
	files := fstest.MapFS{}
	for part := range strings.SplitSeq(strings.TrimPrefix(source, "-- "), "\n-- ") {
		name, data, ok := strings.Cut(part, " --\n")
		if !ok {
			t.Fatalf("not a file: %q", part)
		}
		files[name] = &fstest.MapFile{Data: []byte(data + "\n")}
	}
	return load(t, files)
}

func load(t *testing.T, fsys fs.FS) *Tree {
	t.Helper()
	tree, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
