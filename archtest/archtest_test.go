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

var rewrite = flag.Bool("rewrite", false, "rewrite the expected problems in testdata")

// TestTree checks this repository's source tree. With -v, TestTree prints the sizes of the
// packages that checkShapes limits.
func TestTree(t *testing.T) {
	t.Parallel()
	tree := load(t, os.DirFS(".."))
	if len(tree.Packages) < 2 {
		t.Fatalf("found %d packages; is this test still one directory below the root?", len(tree.Packages))
	}
	for _, problem := range Check(tree) {
		t.Error(problem)
	}
	for _, problem := range slices.Concat(missingEntries(tree), staleShapes(tree, shapeExceptions)) {
		t.Error(problem)
	}
	for _, list := range pathLists {
		if !tree.exists(list.file) {
			t.Errorf("%s does not exist, so its paths are not checked", list.file)
		}
	}
	shapes, err := tree.Shapes()
	if err != nil {
		t.Errorf("the cycles may be larger than measured: %v", err)
	}
	t.Logf("shapes:\n%s", Table(shapes))
}

// TestRules runs the rules on small source trees that break them. The comment at the start of each
// archive is the exact list of expected problems.
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

// TestEveryRuleCanFail checks that, for each rule, testdata has a source tree
// that breaks it.
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
			t.Errorf("no tree in testdata breaks the rule %q", rule.name)
		}
	}
}

func TestExceptions(t *testing.T) {
	t.Parallel()
	body := "// Package api serves users and programs over gRPC and REST.\npackage api\n\nfunc Long() {\n" +
		strings.Repeat("\t_ = 0\n", maxFunc) + "}\n"
	tree := load(t, fstest.MapFS{"api/a.go": {Data: []byte(body)}})

	if problems := checkSizesBut(tree, nil); len(problems) != 1 {
		t.Errorf("a function of %d lines: got %q, want one problem", maxFunc+2, problems)
	}
	if problems := checkSizesBut(tree, map[string]string{"api/a.go:Long": "a table"}); len(problems) != 0 {
		t.Errorf("an excepted function: got %q, want none", problems)
	}
	stale := map[string]string{"api/a.go:Long": "a table", "api/b.go": "none"}
	if problems := checkSizesBut(tree, stale); !slices.Equal(problems, []string{
		"api/b.go: no longer exceeds a limit: remove its exception from archtest/tables.go",
	}) {
		t.Errorf("an unneeded exception: got %q", problems)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	head := "// Package api serves users and programs over gRPC and REST.\npackage api\n"
	file := func(lines int) *Tree {
		src := head + strings.Repeat("\n", lines-2)
		return load(t, fstest.MapFS{"api/a.go": {Data: []byte(src)}})
	}
	if problems := checkSizes(file(maxFile)); len(problems) != 0 {
		t.Errorf("a file of %d lines: got %q, want none", maxFile, problems)
	}
	if problems := checkSizes(file(maxFile + 1)); len(problems) != 1 {
		t.Errorf("a file of %d lines: got %q, want one problem", maxFile+1, problems)
	}
}

// The function `cases` returns the names of the archives.
func cases(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no cases in testdata: %v", err)
	}
	return names
}

// The function `archive` splits a txtar file into the expected problems and the faulty source
// tree.
func archive(t *testing.T, name string) (want, source string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	i := strings.Index("\n"+string(data), "\n-- ")
	if i < 0 {
		t.Fatalf("%s has no files", name)
	}
	return string(data[:i]), string(data[i:])
}

// The function `tree` parses the files of an archive. In an archive, each file begins with a line
// "-- name --".
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
